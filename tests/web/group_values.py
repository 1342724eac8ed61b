"""Values of groups as an engine would give them, for tests of the control plane."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from apps.engine.grouptypes import (
    BlockedHead,
    LockChange,
    LockTransition,
    MemberState,
    QueueBacklog,
    QueueLockState,
    Rebalance,
    Subscription,
)
from apps.engine.litetypes import LiteBacklog
from apps.engine.types import FilterType, MessageModel, Strategy

NOW_MS = 1_763_000_000_000
"""2025-11-13T02:13:20Z."""


def wants(topic: str, text: str = "*", filter_type: FilterType = FilterType.TAG) -> Subscription:
    """Build what a member wants of a topic."""
    return Subscription(topic=topic, filter=text, filter_type=filter_type)


def member(
    group: str,
    client_id: str,
    *subscriptions: Subscription,
    model: MessageModel = MessageModel.CLUSTERING,
    generation: int = 1,
    assignment: Mapping[str, tuple[int, ...]] | None = None,
    conflicts: tuple[str, ...] = (),
    blocked: tuple[BlockedHead, ...] = (),
    last_seen_ms: int = NOW_MS,
) -> MemberState:
    """Build a member that keeps a heartbeat; it joined a second before the year 2025's moment."""
    return MemberState(
        group=group,
        client_id=client_id,
        subscriptions=subscriptions,
        model=model,
        ordered=False,
        strategy=None,
        site="",
        generation=generation,
        joined_ms=NOW_MS - 1_000,
        last_seen_ms=last_seen_ms,
        is_waiting=False,
        assignment=assignment or {},
        conflicts=conflicts,
        blocked=blocked,
    )


def rebalance(
    group: str,
    assignment: Mapping[str, Mapping[str, tuple[int, ...]]],
    *,
    number: int = 1,
    generation: int = 1,
    reason: str = "join",
    at_ms: int = NOW_MS,
) -> Rebalance:
    """Build a new assignment: queue numbers by topic by client id."""
    return Rebalance(
        number=number,
        at_ms=at_ms,
        group=group,
        generation=generation,
        reason=reason,
        strategy=Strategy.AVG,
        assignment=assignment,
        queues_moved=0,
    )


def lock(
    group: str, topic: str, queue: int, owner: str, *, epoch: int = 1, expires_in_ms: int = 60_000
) -> QueueLockState:
    """Build a lock of the broker's table."""
    return QueueLockState(
        group=group,
        topic=topic,
        queue=queue,
        owner=owner,
        epoch=epoch,
        acquired_ms=NOW_MS,
        expires_in_ms=expires_in_ms,
    )


def transition(
    number: int,
    group: str,
    topic: str,
    queue: int,
    *,
    owner: str = "a",
    previous_owner: str = "",
    change: LockChange = LockChange.ACQUIRED,
    reason: str = "",
    at_ms: int = NOW_MS,
) -> LockTransition:
    """Build a line of a lock's history; the epoch is the line's number."""
    return LockTransition(
        number=number,
        at_ms=at_ms,
        group=group,
        topic=topic,
        queue=queue,
        change=change,
        owner=owner,
        previous_owner=previous_owner,
        epoch=number,
        reason=reason,
    )


def left_to_do(
    group: str,
    topic: str,
    queue: int,
    *,
    committed: int = 0,
    max_offset: int = 0,
    owner: str | None = None,
    stalled_ms: int | None = None,
    head_attempts: int | None = None,
    oldest_age_ms: int | None = None,
    lock_epoch: int | None = None,
) -> QueueBacklog:
    """Build what a group has left to do in a queue."""
    return QueueBacklog(
        group=group,
        topic=topic,
        queue=queue,
        committed=committed,
        delivered=committed,
        max_offset=max_offset,
        in_flight=0,
        oldest_age_ms=oldest_age_ms,
        stalled_ms=stalled_ms,
        head_attempts=head_attempts,
        owner=owner,
        lock_epoch=lock_epoch,
        lock_expires_in_ms=None if lock_epoch is None else 60_000,
    )


class HandClock:
    """Both readings move only when the test says so."""

    def __init__(self) -> None:
        self.now_ms = 0

    def wall_ms(self) -> int:
        return NOW_MS + self.now_ms

    def monotonic_ms(self) -> int:
        return 5_000 + self.now_ms


def left_in_lites(
    group: str, topic: str = "inbox", *, lag: int | None = 1_204, **changes: Any
) -> LiteBacklog:
    """Build what a group has left to do in lite topics: the oldest is 40 s old, in 312 of them."""
    is_known = lag is not None
    row = LiteBacklog(
        group=group,
        topic=topic,
        arrived=2_000,
        lag=lag,
        topics_behind=312 if is_known else None,
        in_flight=4 if is_known else None,
        ready=1_200 if is_known else None,
        oldest_age_ms=40_000 if is_known else None,
    )
    return replace(row, **changes)
