"""Rows of groups: what was decided about them, and what the engine was seen to do with them."""

from apps.groups.models.locks import LockRefusal, LockTransition, QueueLock
from apps.groups.models.membership import Member, QueueAssignment, Rebalance, Subscription
from apps.groups.models.progress import ConsumerOffset
from apps.groups.models.resets import OffsetReset
from apps.groups.models.settings import ConsumerGroup

__all__ = [
    "ConsumerGroup",
    "ConsumerOffset",
    "LockRefusal",
    "LockTransition",
    "Member",
    "OffsetReset",
    "QueueAssignment",
    "QueueLock",
    "Rebalance",
    "Subscription",
]
