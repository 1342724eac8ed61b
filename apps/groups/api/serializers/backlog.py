"""Progress of groups and what is left to do, as they are answered."""

from typing import Any

from rest_framework import serializers

from apps.core.moments import moment
from apps.core.pagination import listing, rfc3339
from apps.engine.types import GroupProgress
from apps.groups.api.serializers.care import SuspensionDocument, rendered_suspension
from apps.groups.blocked import BlockedBy, BlockedQueue
from apps.groups.rates import Pace
from apps.groups.retrytopics import is_retry
from apps.groups.selectors import Backlog, LitesState, QueueState

_RATE = "Messages a second, over half a minute at most; null until it is known."


class OffsetDocument(serializers.Serializer[Any]):
    """Progress in one queue."""

    topic = serializers.CharField()
    queue = serializers.IntegerField()
    is_retry = serializers.BooleanField(
        help_text="It is the group's retry topic, which its members read without asking for it."
    )
    committed = serializers.CharField(help_text="Every message below is done.")
    delivered = serializers.CharField(help_text="One past the newest message handed out.")
    max_offset = serializers.CharField(help_text="One past the newest message.")


class OffsetList(serializers.Serializer[Any]):
    """Progress of a group, by topic and queue."""

    items = OffsetDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class RateDocument(serializers.Serializer[Any]):
    """How old what is left to do is, and how fast it comes and goes."""

    oldest_age_ms = serializers.IntegerField(
        allow_null=True, help_text="Age of the oldest of them; null without one, or not known."
    )
    in_per_s = serializers.FloatField(allow_null=True, help_text=_RATE)
    out_per_s = serializers.FloatField(allow_null=True, help_text=_RATE)
    drain_ms = serializers.IntegerField(
        allow_null=True, help_text="Time until nothing is left; null when it does not shrink."
    )


class PaceDocument(RateDocument):
    """What is left to do in a queue, and how fast it comes and goes."""

    lag = serializers.CharField(help_text="Messages not yet committed.")


class HeldLockDocument(serializers.Serializer[Any]):
    """The lock of a queue."""

    epoch = serializers.IntegerField()
    expires_in_ms = serializers.IntegerField(
        allow_null=True, help_text="Negative once its time is over."
    )


class LagDocument(OffsetDocument, PaceDocument):
    """Progress in one queue, with what is left to do."""

    in_flight = serializers.IntegerField(help_text="Handed out and not settled.")
    lost = serializers.CharField(
        help_text="Deleted by retention before the group had settled them, ever."
    )
    ready = serializers.CharField(
        allow_null=True,
        help_text="With nobody: never handed out, given back, or out for too long.",
    )
    stalled_ms = serializers.IntegerField(
        allow_null=True, help_text="For how long nothing was committed; null while it moves."
    )
    head_attempts = serializers.IntegerField(
        allow_null=True, help_text="How often the message at `committed` was tried."
    )
    owner = serializers.CharField(allow_null=True, help_text="Whose queue it is.")
    lock = HeldLockDocument(allow_null=True)
    suspension = SuspensionDocument(
        allow_null=True, help_text="The queue gives the group nothing, by an operator's word."
    )


class LitesDocument(RateDocument):
    """What is left to do in all lite topics of a parent together.

    A group counts with all of them as soon as it has read one, or a client of it is subscribed to
    one. In a lite topic that it has not read yet that is what it would be given: all of it where a
    client is subscribed, else from where the group begins. Null is not known: a group that is new
    to many lite topics is counted within half a minute.
    """

    topic = serializers.CharField(help_text="The parent.")
    lag = serializers.CharField(allow_null=True, help_text="Messages not yet committed.")
    topics_behind = serializers.IntegerField(
        allow_null=True, help_text="Lite topics that have any of them."
    )
    in_flight = serializers.IntegerField(allow_null=True, help_text="Handed out and not settled.")
    ready = serializers.CharField(
        allow_null=True,
        help_text="With nobody: never handed out, given back, or out for too long.",
    )


class TotalDocument(RateDocument):
    """All queues and lite topics together."""

    lag = serializers.CharField(
        allow_null=True, help_text="Messages not yet committed; null where `lite_lag` is."
    )
    retry_lag = serializers.CharField(help_text="Of `lag`, what lies in the group's retry topic.")
    lite_lag = serializers.CharField(
        allow_null=True, help_text="Of `lag`, what lies in lite topics; null until it is known."
    )


class LagList(serializers.Serializer[Any]):
    """Backlog of a group, by topic and queue, by parent of lite topics, and over all of them."""

    items = LagDocument(many=True)
    lites = LitesDocument(many=True)
    total = TotalDocument()
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class BlockedDocument(serializers.Serializer[Any]):
    """A queue that does not get on."""

    topic = serializers.CharField()
    queue = serializers.IntegerField()
    offset = serializers.CharField(help_text="Of the message at its head.")
    owner = serializers.CharField(allow_null=True)
    since = serializers.DateTimeField(
        allow_null=True, help_text="When something was committed last; null when not known."
    )
    reason = serializers.ChoiceField([reason.value for reason in BlockedBy])
    attempts = serializers.IntegerField(allow_null=True)
    detail = serializers.CharField(help_text="What its owner says of it, to who may peek.")
    lag = serializers.CharField()


class BlockedList(serializers.Serializer[Any]):
    """Queues of a group that do not get on, by topic and queue."""

    items = BlockedDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


def rendered_offset(row: GroupProgress) -> dict[str, object]:
    """Build the JSON shape of progress in one queue."""
    return {
        "topic": row.topic,
        "queue": row.queue,
        "is_retry": is_retry(row),
        "committed": str(row.committed),
        "delivered": str(row.delivered),
        "max_offset": str(row.max_offset),
    }


def rendered_backlog(backlog: Backlog) -> dict[str, object]:
    """Build the JSON shape of a group's backlog."""
    return {
        **listing([_rendered_queue(queue) for queue in backlog.queues], None),
        "lites": [_rendered_lites(lites) for lites in backlog.lites],
        "total": {
            **_rendered_pace(backlog.lag, backlog.oldest_age_ms, backlog.pace),
            "retry_lag": str(backlog.retry_lag),
            "lite_lag": _text(backlog.lite_lag),
        },
    }


def rendered_blocked(found: BlockedQueue) -> dict[str, object]:
    """Build the JSON shape of a queue that does not get on."""
    return {
        "topic": found.topic,
        "queue": found.queue,
        "offset": str(found.queue_offset),
        "owner": found.owner,
        "since": None if found.since_ms is None else rfc3339(moment(found.since_ms)),
        "reason": found.reason,
        "attempts": found.attempts,
        "detail": found.detail,
        "lag": str(found.lag),
    }


def _rendered_queue(queue: QueueState) -> dict[str, object]:
    row = queue.row
    return {
        "topic": row.topic,
        "queue": row.queue,
        "is_retry": is_retry(row),
        "committed": str(row.committed),
        "delivered": str(row.delivered),
        "max_offset": str(row.max_offset),
        **_rendered_pace(row.max_offset - row.committed, row.oldest_age_ms, queue.pace),
        "in_flight": row.in_flight,
        "lost": str(row.lost),
        "ready": _text(queue.ready),
        "stalled_ms": row.stalled_ms,
        "head_attempts": row.head_attempts,
        "owner": row.owner,
        "lock": None
        if row.lock_epoch is None
        else {"epoch": row.lock_epoch, "expires_in_ms": row.lock_expires_in_ms},
        "suspension": rendered_suspension(row.suspension),
    }


def _rendered_lites(lites: LitesState) -> dict[str, object]:
    row = lites.row
    return {
        "topic": row.topic,
        **_rendered_pace(row.lag, row.oldest_age_ms, lites.pace),
        "topics_behind": row.topics_behind,
        "in_flight": row.in_flight,
        "ready": _text(row.ready),
    }


def _text(count: int | None) -> str | None:
    return None if count is None else str(count)


def _rendered_pace(lag: int | None, oldest_age_ms: int | None, pace: Pace) -> dict[str, object]:
    return {
        "lag": _text(lag),
        "oldest_age_ms": oldest_age_ms,
        "in_per_s": pace.in_per_s,
        "out_per_s": pace.out_per_s,
        "drain_ms": pace.drain_ms,
    }
