"""Locks, and what happened to them and to assignments, as they are answered."""

from typing import Any

from rest_framework import serializers

from apps.core.moments import moment, ms_of
from apps.core.pagination import rfc3339
from apps.core.serializers import StrictSerializer, StrictTextField
from apps.engine import limits
from apps.engine.grouptypes import LockChange, QueueLockState
from apps.engine.grouptypes import LockTransition as TransitionLine
from apps.engine.types import Strategy
from apps.groups.api.serializers.care import SuspensionDocument, rendered_suspension
from apps.groups.models import LockRefusal, LockTransition, Rebalance
from apps.groups.models.fields import REASON_CHARACTERS_MAX
from apps.groups.selectors import lock_id


class RebalanceDocument(serializers.Serializer[Any]):
    """A new assignment of a group."""

    number = serializers.CharField(help_text="Of the journal's record.")
    at = serializers.DateTimeField()
    generation = serializers.IntegerField()
    reason = serializers.CharField()
    strategy = serializers.ChoiceField([strategy.value for strategy in Strategy])
    assignment = serializers.DictField(help_text="Queue numbers by topic by client id.")
    queues_moved = serializers.IntegerField(help_text="From one member to another.")


class RebalanceList(serializers.Serializer[Any]):
    """A page of new assignments, newest first."""

    items = RebalanceDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class LockDocument(serializers.Serializer[Any]):
    """A lock in the broker's table."""

    id = serializers.CharField(help_text="`group~topic~queue`.")
    group = serializers.CharField()
    topic = serializers.CharField()
    queue = serializers.IntegerField()
    owner = serializers.CharField()
    epoch = serializers.IntegerField()
    acquired_at = serializers.DateTimeField()
    expires_in_ms = serializers.IntegerField(help_text="Negative once its time is over.")
    is_expired = serializers.BooleanField(help_text="Whoever asks for it next gets it.")
    suspension = SuspensionDocument(
        allow_null=True, help_text="The queue gives the group nothing, whoever has its lock."
    )


class LockList(serializers.Serializer[Any]):
    """A page of locks, by group, topic and queue."""

    items = LockDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class TransitionDocument(serializers.Serializer[Any]):
    """A change of a lock's owner."""

    number = serializers.CharField(help_text="Of the journal's record.")
    at = serializers.DateTimeField()
    change = serializers.ChoiceField([change.value for change in LockChange])
    owner = serializers.CharField(help_text="Empty where it is nobody's afterwards.")
    previous_owner = serializers.CharField(help_text="Empty where it was nobody's.")
    epoch = serializers.IntegerField()
    reason = serializers.CharField()


class TransitionList(serializers.Serializer[Any]):
    """A page of a lock's history, newest first."""

    items = TransitionDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class RefusalDocument(serializers.Serializer[Any]):
    """How often a client was refused a lock within a minute."""

    at = serializers.DateTimeField(help_text="The begin of the minute.")
    owner = serializers.CharField(help_text="Who had the lock, or was to have the queue.")
    client_id = serializers.CharField(
        help_text="Who was refused; empty for several clients, where they were too many."
    )
    count = serializers.IntegerField()
    last_at = serializers.DateTimeField()


class RefusalList(serializers.Serializer[Any]):
    """A page of refusals of a lock, newest first."""

    items = RefusalDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class ReleaseRequest(StrictSerializer):
    """Body of a forced release."""

    reason = StrictTextField(
        max_length=REASON_CHARACTERS_MAX, help_text="Kept in the lock's history."
    )
    expected_owner = StrictTextField(
        required=False,
        max_length=limits.CLIENT_ID_CHARACTERS_MAX,
        help_text="The lock is left alone when it is somebody else's.",
    )


class ReleaseDocument(serializers.Serializer[Any]):
    """What became of a forced release."""

    id = serializers.CharField()
    is_released = serializers.BooleanField(help_text="False where nobody held the lock.")
    transition = TransitionDocument(allow_null=True)


def rendered_rebalance(row: Rebalance) -> dict[str, object]:
    """Build the JSON shape of a new assignment."""
    return {
        "number": str(row.number),
        "at": rfc3339(row.at),
        "generation": row.generation,
        "reason": row.reason,
        "strategy": row.strategy,
        "assignment": row.assignment,
        "queues_moved": row.queues_moved,
    }


def rendered_lock(lock: QueueLockState) -> dict[str, object]:
    """Build the JSON shape of a lock."""
    return {
        "id": lock_id(lock.group, lock.topic, lock.queue),
        "group": lock.group,
        "topic": lock.topic,
        "queue": lock.queue,
        "owner": lock.owner,
        "epoch": lock.epoch,
        "acquired_at": rfc3339(moment(lock.acquired_ms)),
        "expires_in_ms": lock.expires_in_ms,
        "is_expired": lock.expires_in_ms < 0,
        "suspension": rendered_suspension(lock.suspension),
    }


def rendered_transition(line: LockTransition | TransitionLine) -> dict[str, object]:
    """Build the JSON shape of a change of a lock's owner, out of a row or of the engine's line."""
    at_ms = line.at_ms if isinstance(line, TransitionLine) else ms_of(line.at)
    return {
        "number": str(line.number),
        "at": rfc3339(moment(at_ms)),
        "change": str(line.change),
        "owner": line.owner,
        "previous_owner": line.previous_owner,
        "epoch": line.epoch,
        "reason": line.reason,
    }


def rendered_refusal(row: LockRefusal) -> dict[str, object]:
    """Build the JSON shape of a minute's refusals."""
    return {
        "at": rfc3339(row.at),
        "owner": row.owner,
        "client_id": row.client_id,
        "count": row.count,
        "last_at": rfc3339(row.last_at),
    }
