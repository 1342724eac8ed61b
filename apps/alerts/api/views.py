"""REST views of alerts."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access.asking import sight_of
from apps.alerts import selectors, services
from apps.alerts.api.asked import AcknowledgeRequest, number_of
from apps.alerts.api.documents import (
    AlertDocument,
    AlertList,
    WholeAlertDocument,
    rendered_alert,
    rendered_event,
    rendered_notification,
)
from apps.alerts.judging import State
from apps.alerts.kinds import Kind
from apps.alerts.models.fields import SUBJECT_CHARACTERS_MAX
from apps.core.actors import actor_of
from apps.core.pagination import listing, number_after, page_of, page_request, rfc3339_or_none
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.engine.clock import SystemClock

_STATES = [state.value for state in State]
_KINDS = [kind.value for kind in Kind]


class AlertListView(APIView):
    """All alerts."""

    @extend_schema(
        operation_id="list_alerts",
        parameters=[
            OpenApiParameter("state", str, enum=_STATES, many=True, description="only these"),
            OpenApiParameter("kind", str, enum=_KINDS, description="only this kind"),
            OpenApiParameter("subject", str, description="only of this group, or of `broker`"),
            *page_parameters("alerts"),
        ],
        responses={200: AlertList, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def get(self, request: Request) -> Response:
        """List alerts, the newest first, also those that are over."""
        query = request.query_params
        wanted = page_request(query)
        states = query.getlist("state")
        for state in states:
            if state not in _STATES:
                raise ValidationError({"state": [f"must be one of {', '.join(_STATES)}"]})
        kind, subject = query.get("kind"), query.get("subject")
        if kind is not None and kind not in _KINDS:
            raise ValidationError({"kind": [f"must be one of {', '.join(_KINDS)}"]})
        if subject is not None and (len(subject) > SUBJECT_CHARACTERS_MAX or "\0" in subject):
            raise ValidationError({"subject": ["is not a subject of alerts"]})

        found = selectors.alerts(
            states=states,
            kind=kind,
            subject=subject,
            before=number_after(wanted),
            lines_max=wanted.items_max + 1,
            sight=sight_of(request._request),
        )

        rows, next_cursor = page_of(found, wanted, key=lambda row: str(row.pk))
        body = listing([rendered_alert(row) for row in rows], next_cursor)
        return Response({**body, "looked_at": rfc3339_or_none(selectors.looked_at())})


class AlertView(APIView):
    """One alert."""

    @extend_schema(
        operation_id="get_alert",
        responses={200: WholeAlertDocument, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def get(self, request: Request, alert: str) -> Response:
        """Return an alert, what became of it, and who was told."""
        found = selectors.alert(number_of(alert, "alert"), sight_of(request._request))

        return Response(
            {
                **rendered_alert(found),
                "events": [rendered_event(event) for event in selectors.events(found)],
                "told": [rendered_notification(told) for told in selectors.told(found)],
            }
        )


class AcknowledgeView(APIView):
    """Somebody who looks after an alert."""

    @extend_schema(
        operation_id="acknowledge_alert",
        request=AcknowledgeRequest,
        responses={200: AlertDocument, **PROBLEM_RESPONSES},
        tags=["alerts"],
    )
    def post(self, request: Request, alert: str) -> Response:
        """Acknowledge an alert that fires; again changes nothing. 409 for one that does not."""
        asked = AcknowledgeRequest(data=request.data)
        asked.is_valid(raise_exception=True)

        found = services.acknowledge(
            alert_id=number_of(alert, "alert"),
            note=asked.validated_data.get("note", ""),
            by=actor_of(request),
            now_ms=SystemClock().wall_ms(),
        )

        return Response(rendered_alert(found))
