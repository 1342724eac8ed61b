"""The named bundles of grants. Knows what a viewer, an operator and an admin may do."""

from enum import StrEnum

from apps.access.policy.actions import ACTIONS_OF, Action, Kind
from apps.access.policy.grants import Grant


class Role(StrEnum):
    """A bundle; an account has one or none."""

    VIEWER = "viewer"
    """Sees everything but messages."""
    OPERATOR = "operator"
    """Looks after what is there: messages, offsets, locks, dead letters, transactions, pipelines.
    """
    ADMIN = "admin"
    """May do everything, accounts and grants among it; a denying grant still counts."""
    NONE = "none"
    """Has what its grants say."""


_SEE = frozenset({Action.GET, Action.LIST})
_OPERATE = frozenset(Action) - {Action.PUB, Action.SUB, Action.DELETE, Action.ADMINISTER}
_ACTIONS = {
    Role.VIEWER: _SEE,
    Role.OPERATOR: _OPERATE,
    Role.ADMIN: frozenset(Action),
    Role.NONE: frozenset[Action](),
}


def grants_of(role: Role) -> tuple[Grant, ...]:
    """Return what a role allows: grants on any topic, any group and the cluster.

    Their rank is the lowest, so any grant of the account's own that names something beats them.
    """
    bundles = ((kind, _ACTIONS[role] & ACTIONS_OF[kind]) for kind in Kind)
    return tuple(Grant(kind=kind, actions=actions) for kind, actions in bundles if actions)
