"""What may be done about groups: by operators, and by the clockwork."""

from apps.groups.services.clients import expire_silent_clients
from apps.groups.services.locks import release_lock
from apps.groups.services.settings import ChangedGroup, GroupValues, put_group
from apps.groups.services.upkeep import prune_history, rebalance

__all__ = [
    "ChangedGroup",
    "GroupValues",
    "expire_silent_clients",
    "prune_history",
    "put_group",
    "rebalance",
    "release_lock",
]
