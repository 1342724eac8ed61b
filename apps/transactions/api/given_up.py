"""REST of given-up transactions: their messages listed, one with its body, one sent after all."""

import base64
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access.asking import sight_of
from apps.access.policy import Action, topic_or_cluster
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.pagination import cursor_at, listing, number_after, page_request, rfc3339
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.core.serializers import StrictSerializer, StrictTextField
from apps.engine.codec.record import Record
from apps.engine.errors import UnknownTransaction
from apps.engine.transactiontypes import GivenUpMessage
from apps.transactions import permitted, selectors, services
from apps.transactions.models import REASON_CHARACTERS_MAX

# As many messages as no log will ever hold.
_OFFSET_MAX = 10**18 - 1
_OFFSET = OpenApiParameter(
    "offset", str, OpenApiParameter.PATH, description="its place in TRANS_CHECK_MAX_TIME_TOPIC"
)


class GivenUpDocument(serializers.Serializer[Any]):
    """A message whose transaction nobody decided in time. What it does not say is null."""

    offset = serializers.CharField(help_text="In queue 0 of `TRANS_CHECK_MAX_TIME_TOPIC`.")
    transaction_id = serializers.CharField(allow_null=True)
    half_offset = serializers.CharField(allow_null=True)
    topic = serializers.CharField(help_text="Where it was for.")
    queue = serializers.IntegerField()
    message_id = serializers.CharField()
    producer_group = serializers.CharField()
    tag = serializers.CharField(allow_null=True)
    keys = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Null for a caller who may not peek into the topic.",
    )
    size_bytes = serializers.IntegerField()
    born_time = serializers.DateTimeField(allow_null=True)
    given_up_at = serializers.DateTimeField()
    checks = serializers.IntegerField(
        allow_null=True, help_text="How often its producers were asked."
    )
    sent_at = serializers.DateTimeField(
        allow_null=True, help_text="When somebody sent it after all; null: nobody did."
    )
    sent_by = serializers.CharField(allow_null=True)
    sent_queue = serializers.IntegerField(allow_null=True)
    sent_offset = serializers.CharField(allow_null=True)


class WholeGivenUpDocument(GivenUpDocument):
    """A given-up message with its body."""

    body = serializers.CharField(allow_null=True, help_text="Null where it is not UTF-8.")
    body_base64 = serializers.CharField(allow_null=True, help_text="Where it is not UTF-8.")
    properties = serializers.DictField(child=serializers.CharField())


class GivenUpList(serializers.Serializer[Any]):
    """A page of given-up messages, the newest first."""

    items = GivenUpDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class GivenUpSendRequest(StrictSerializer):
    """Why a given-up message is sent after all."""

    transaction_id = StrictTextField(
        max_length=100, help_text="As it is listed, so that no other message is meant."
    )
    reason = StrictTextField(max_length=REASON_CHARACTERS_MAX)


class SentDocument(serializers.Serializer[Any]):
    """Where a given-up message is now."""

    topic = serializers.CharField()
    queue = serializers.IntegerField()
    offset = serializers.CharField()
    repeat = serializers.BooleanField(help_text="It had been sent before, and was not again.")


class GivenUpListView(APIView):
    """Given-up messages."""

    @extend_schema(
        operation_id="list_given_up_transactions",
        parameters=[*page_parameters("messages")],
        responses={200: GivenUpList, **PROBLEM_RESPONSES},
        tags=["transactions"],
    )
    def get(self, request: Request) -> Response:
        """List the messages nobody decided about in time, the newest first, without bodies.

        As far as the caller may see their topics; a page may be shorter than `limit`, and go on.
        """
        wanted = page_request(request.query_params)
        sight = sight_of(request._request)
        found = selectors.shown_given_up(
            sight, before=number_after(wanted, highest=_OFFSET_MAX), messages_max=wanted.items_max
        )

        next_cursor = None if found.before is None else cursor_at(str(found.before))
        rows = [
            rendered_given_up(one, peeks=sight.peeks(topic_or_cluster(one.topic)))
            for one in found.messages
        ]
        return Response(listing(rows, next_cursor))


class GivenUpView(APIView):
    """One given-up message."""

    @extend_schema(
        operation_id="get_given_up_transaction",
        parameters=[_OFFSET],
        responses={200: WholeGivenUpDocument, **PROBLEM_RESPONSES},
        tags=["transactions"],
    )
    def get(self, request: Request, offset: str) -> Response:
        """Return one given-up message with its body and properties."""
        message = _message(request, offset, Action.PEEK)

        record = selectors.given_up_record(message.given_up_offset)

        if record is None:
            raise _not_found(offset)
        return Response({**rendered_given_up(message, peeks=True), **_rendered_body(record)})


class GivenUpSendView(APIView):
    """A given-up message sent after all."""

    @extend_schema(
        operation_id="send_given_up_transaction",
        parameters=[_OFFSET],
        request=GivenUpSendRequest,
        responses={200: SentDocument, **PROBLEM_RESPONSES},
        tags=["transactions"],
    )
    def post(self, request: Request, offset: str) -> Response:
        """Send a message where it was for, once ever; it is written down who asked, and why.

        The transaction stays given up: its producer is refused as before.
        """
        wanted = GivenUpSendRequest(data=request.data)
        wanted.is_valid(raise_exception=True)
        message = _message(request, offset, Action.DECIDE)
        if message.transaction_id != wanted.validated_data["transaction_id"]:
            raise UnknownTransaction("the given-up message there is of another transaction")

        sent = services.send_given_up(
            message=message,
            by=actor_of(request._request),
            reason=wanted.validated_data["reason"],
        )

        return Response(
            {
                "topic": sent.topic,
                "queue": sent.queue,
                "offset": str(sent.queue_offset),
                "repeat": sent.is_repeat,
            }
        )


def rendered_given_up(found: GivenUpMessage, *, peeks: bool) -> dict[str, object]:
    """Build the JSON shape of a given-up message, for who `peeks` with its keys."""
    return {
        "offset": str(found.given_up_offset),
        "transaction_id": found.transaction_id,
        "half_offset": None if found.half_offset is None else str(found.half_offset),
        "topic": found.topic,
        "queue": found.queue,
        "message_id": found.message_id,
        "producer_group": found.producer_group,
        "tag": found.tag or None,
        "keys": found.keys.split() if peeks else None,
        "size_bytes": found.size_bytes,
        "born_time": _born(found.born_ms),
        "given_up_at": rfc3339(moment(found.given_up_ms)),
        "checks": found.checks,
        "sent_at": None if found.sent_ms is None else rfc3339(moment(found.sent_ms)),
        "sent_by": found.sent_by or None,
        "sent_queue": found.sent_queue,
        "sent_offset": None if found.sent_offset is None else str(found.sent_offset),
    }


def _rendered_body(record: Record) -> dict[str, object]:
    try:
        text: str | None = record.body.decode()
    except UnicodeDecodeError:
        text = None
    return {
        "body": text,
        "body_base64": base64.b64encode(record.body).decode() if text is None else None,
        "properties": dict(record.properties),
    }


def _message(request: Request, offset: str, action: Action) -> GivenUpMessage:
    is_offset = offset.isascii() and offset.isdigit() and len(offset) <= 18
    found = None
    if is_offset:
        found = permitted.given_up(request._request, int(offset), action=action)
    if found is None:
        raise _not_found(offset)
    return found


def _not_found(offset: str) -> ProblemError:
    return ProblemError("not_found", f"there is no given-up message at {offset}")


def _born(time_ms: int) -> str | None:
    """Return when a producer says it made a message; None for no time there can be."""
    try:
        return rfc3339(moment(time_ms))
    except OverflowError:
        return None
