"""Groups as read: live from the engine, and their history from rows."""

from apps.groups.selectors.backlog import (
    Backlog,
    LitesState,
    QueueState,
    backlog,
    blocked,
    lag_of_lites,
    queue_progress,
)
from apps.groups.selectors.groups import (
    Conflict,
    GroupState,
    MemberPicture,
    group_state,
    group_states,
    is_decided,
    put_state,
)
from apps.groups.selectors.heads import QueueSeen, head_record, queue_seen
from apps.groups.selectors.history import (
    RefusedSpell,
    group_refusals,
    group_transitions,
    rebalances,
    refusals,
    transitions,
)
from apps.groups.selectors.lites import lite_subscriptions
from apps.groups.selectors.locks import lock_id, lock_place, locks
from apps.groups.selectors.resets import Preview, preview, resets
from apps.groups.selectors.whatif import what_if

__all__ = [
    "Backlog",
    "Conflict",
    "GroupState",
    "LitesState",
    "MemberPicture",
    "Preview",
    "QueueSeen",
    "QueueState",
    "RefusedSpell",
    "backlog",
    "blocked",
    "group_refusals",
    "group_state",
    "group_states",
    "group_transitions",
    "head_record",
    "is_decided",
    "lag_of_lites",
    "lite_subscriptions",
    "lock_id",
    "lock_place",
    "locks",
    "preview",
    "put_state",
    "queue_progress",
    "queue_seen",
    "rebalances",
    "refusals",
    "resets",
    "transitions",
    "what_if",
]
