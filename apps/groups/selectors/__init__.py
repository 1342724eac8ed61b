"""Groups as read: live from the engine, and their history from rows."""

from apps.groups.selectors.backlog import Backlog, QueueState, backlog, blocked, queue_progress
from apps.groups.selectors.groups import (
    Conflict,
    GroupState,
    MemberPicture,
    group_state,
    group_states,
    is_decided,
    put_state,
)
from apps.groups.selectors.history import rebalances, transitions
from apps.groups.selectors.locks import lock_id, lock_place, locks

__all__ = [
    "Backlog",
    "Conflict",
    "GroupState",
    "MemberPicture",
    "QueueState",
    "backlog",
    "blocked",
    "group_state",
    "group_states",
    "is_decided",
    "lock_id",
    "lock_place",
    "locks",
    "put_state",
    "queue_progress",
    "rebalances",
    "transitions",
]
