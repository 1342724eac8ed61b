"""Members, what they want, who has which queue, and locks: rows made level with a reading.

Knows rows and values, no clock and no engine. To be called within a turn.
"""

from collections.abc import Collection
from typing import TypeVar

from django.db.models import Model, QuerySet

from apps.core.moments import moment
from apps.groups import models
from apps.groups.models.locks import State
from apps.groups.projection.levelling import Columns, level
from apps.groups.projection.reading import Reading

_Row = TypeVar("_Row", bound=Model)
_PLACE = ("group", "topic", "queue")


def write_reading(reading: Reading, groups: Collection[str] | None) -> int:
    """Make the rows of some groups, or of all with None, what a reading says; count the writes."""
    return (
        _write_members(reading, groups)
        + _write_subscriptions(reading, groups)
        + _write_assignments(reading, groups)
        + _write_locks(reading, groups)
    )


def _write_members(reading: Reading, groups: Collection[str] | None) -> int:
    wanted = {
        (member.group, member.client_id): models.Member(
            group=member.group,
            client_id=member.client_id,
            topics=sorted({wanted.topic for wanted in member.subscriptions}),
            first_seen_at=moment(member.joined_ms),
            last_seen_at=moment(member.last_seen_ms),
            model=member.model.value,
            ordered=member.ordered,
            strategy="" if member.strategy is None else member.strategy.value,
            site=member.site,
            generation=member.generation,
            conflicts=list(member.conflicts),
        )
        for member in reading.members
        if groups is None or member.group in groups
    }
    # Clients that only receive have rows as well, which the task for silent ones keeps. It also
    # keeps the moments and topics of ours: who is seen changes all the time.
    held = _of(models.Member.objects.exclude(model=""), groups)
    columns = ("model", "ordered", "strategy", "site", "generation", "conflicts")
    levelled = level(held, wanted, keys=("group", "client_id"), compared=columns)
    return levelled.written + levelled.unwanted.delete()[0]


def _write_subscriptions(reading: Reading, groups: Collection[str] | None) -> int:
    wanted = {
        (member.group, member.client_id, found.topic): models.Subscription(
            group=member.group,
            client_id=member.client_id,
            topic=found.topic,
            filter=found.filter,
            filter_type=found.filter_type.value,
            is_conflicting=found.topic in member.conflicts,
            seen_at=moment(reading.taken_ms),
        )
        for member in reading.members
        for found in member.subscriptions
        if groups is None or member.group in groups
    }
    levelled = level(
        _of(models.Subscription.objects.all(), groups),
        wanted,
        keys=("group", "client_id", "topic"),
        compared=("filter", "filter_type", "is_conflicting"),
        written=("version", "seen_at"),
        merge=_count_version,
    )
    return levelled.written + levelled.unwanted.delete()[0]


def _count_version(row: models.Subscription, before: Columns) -> None:
    if (row.filter, row.filter_type) == (before["filter"], before["filter_type"]):
        # Another member changed its mind, and made this one conflict or agree.
        row.version, row.seen_at = before["version"], before["seen_at"]
    else:
        row.version = before["version"] + 1


def _write_assignments(reading: Reading, groups: Collection[str] | None) -> int:
    wanted = {
        (found.group, topic, queue): models.QueueAssignment(
            group=found.group,
            topic=topic,
            queue=queue,
            client_id=client_id,
            generation=found.generation,
        )
        for found, client_id, topic, queue in reading.assignments()
        if groups is None or found.group in groups
    }
    levelled = level(
        _of(models.QueueAssignment.objects.all(), groups),
        wanted,
        keys=_PLACE,
        compared=("client_id", "generation"),
    )
    return levelled.written + levelled.unwanted.delete()[0]


def _write_locks(reading: Reading, groups: Collection[str] | None) -> int:
    taken_at = moment(reading.taken_ms)
    wanted = {
        (lock.group, lock.topic, lock.queue): models.QueueLock(
            group=lock.group,
            topic=lock.topic,
            queue=lock.queue,
            owner=lock.owner,
            epoch=lock.epoch,
            acquired_at=moment(lock.acquired_ms),
            expires_at=moment(reading.taken_ms + lock.expires_in_ms),
            state=(State.EXPIRED if lock.expires_in_ms < 0 else State.HELD).value,
            updated_at=taken_at,
        )
        for lock in reading.locks
        if groups is None or lock.group in groups
    }
    levelled = level(
        _of(models.QueueLock.objects.exclude(state=State.FREE), groups),
        wanted,
        keys=_PLACE,
        compared=("owner", "epoch", "state"),
        written=("acquired_at", "expires_at", "updated_at"),
    )
    freed = levelled.unwanted.update(state=State.FREE, owner="", updated_at=taken_at)
    return levelled.written + freed


def _of(rows: "QuerySet[_Row]", groups: Collection[str] | None) -> "QuerySet[_Row]":
    return rows if groups is None else rows.filter(group__in=groups)
