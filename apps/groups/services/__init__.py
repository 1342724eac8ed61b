"""What may be done about groups: by operators, and by the clockwork."""

from apps.groups.services.care import park_head, resume_queue, skip_head, suspend_queue
from apps.groups.services.clients import expire_silent_clients
from apps.groups.services.locks import release_lock
from apps.groups.services.resets import apply_offsets, undo_offsets
from apps.groups.services.settings import ChangedGroup, GroupValues, put_group
from apps.groups.services.upkeep import prune_history, rebalance

__all__ = [
    "ChangedGroup",
    "GroupValues",
    "apply_offsets",
    "expire_silent_clients",
    "park_head",
    "prune_history",
    "put_group",
    "rebalance",
    "release_lock",
    "resume_queue",
    "skip_head",
    "suspend_queue",
    "undo_offsets",
]
