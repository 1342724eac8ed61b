"""REST views of rules and silences."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.alerts import selectors, services
from apps.alerts.api.asked import RuleChange, RuleRequest, SilenceRequest, number_of
from apps.alerts.api.documents import (
    RuleDocument,
    RuleList,
    SilenceDocument,
    SilenceList,
    rendered_rule,
    rendered_silence,
)
from apps.core.actors import actor_of
from apps.core.pagination import listing, number_after, page_of, page_request
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.engine.clock import SystemClock


class RuleListView(APIView):
    """All rules."""

    @extend_schema(
        operation_id="list_alert_rules",
        responses={200: RuleList, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def get(self, _request: Request) -> Response:
        """List the rules by name; there are 200 at most."""
        return Response(listing([rendered_rule(rule) for rule in selectors.rules()], None))

    @extend_schema(
        operation_id="create_alert_rule",
        request=RuleRequest,
        responses={201: RuleDocument, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def post(self, request: Request) -> Response:
        """Make a rule; it is looked at within seconds."""
        asked = RuleRequest(data=request.data)
        asked.is_valid(raise_exception=True)

        rule = services.create_rule(
            terms=asked.terms(), by=actor_of(request), now_ms=SystemClock().wall_ms()
        )

        return Response(rendered_rule(rule), status=201)


class RuleView(APIView):
    """One rule."""

    @extend_schema(
        operation_id="get_alert_rule",
        responses={200: RuleDocument, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def get(self, _request: Request, rule: str) -> Response:
        """Return a rule."""
        return Response(rendered_rule(selectors.rule(number_of(rule, "rule"))))

    @extend_schema(
        operation_id="change_alert_rule",
        request=RuleChange,
        responses={200: RuleDocument, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def put(self, request: Request, rule: str) -> Response:
        """Change a rule whole. 409 where somebody has changed it since `version`."""
        asked = RuleChange(data=request.data)
        asked.is_valid(raise_exception=True)

        changed = services.change_rule(
            rule_id=number_of(rule, "rule"),
            terms=asked.terms(),
            version=asked.validated_data["version"],
            by=actor_of(request),
            now_ms=SystemClock().wall_ms(),
        )

        return Response(rendered_rule(changed))

    @extend_schema(
        operation_id="delete_alert_rule",
        responses={204: None, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def delete(self, request: Request, rule: str) -> Response:
        """Delete a rule; its open alerts end, and their history stays."""
        services.delete_rule(rule_id=number_of(rule, "rule"), by=actor_of(request))

        return Response(status=204)


class SilenceListView(APIView):
    """All silences."""

    @extend_schema(
        operation_id="list_silences",
        parameters=[*page_parameters("silences")],
        responses={200: SilenceList, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def get(self, request: Request) -> Response:
        """List silences, the newest first, also those that are over."""
        wanted = page_request(request.query_params)

        found = selectors.silences(before=number_after(wanted), lines_max=wanted.items_max + 1)

        now_ms = SystemClock().wall_ms()
        rows, next_cursor = page_of(found, wanted, key=lambda row: str(row.pk))
        items = [rendered_silence(row, now_ms=now_ms) for row in rows]
        return Response(listing(items, next_cursor))

    @extend_schema(
        operation_id="create_silence",
        request=SilenceRequest,
        responses={201: SilenceDocument, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def post(self, request: Request) -> Response:
        """Have nobody be told of some alerts for a time, 30 days at most."""
        asked = SilenceRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        now_ms = SystemClock().wall_ms()

        silence = services.create_silence(
            terms=asked.terms(now_ms=now_ms), by=actor_of(request), now_ms=now_ms
        )

        return Response(rendered_silence(silence, now_ms=now_ms), status=201)


class SilenceEndView(APIView):
    """The end of a silence before its time."""

    @extend_schema(
        operation_id="end_silence",
        request=None,
        responses={200: SilenceDocument, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def post(self, request: Request, silence: str) -> Response:
        """End a silence; what still fires is told of. 409 for one that is over."""
        now_ms = SystemClock().wall_ms()

        ended = services.end_silence(
            silence_id=number_of(silence, "silence"), by=actor_of(request), now_ms=now_ms
        )

        return Response(rendered_silence(ended, now_ms=now_ms))
