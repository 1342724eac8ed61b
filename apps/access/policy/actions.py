"""The closed set of what can be asked for, and of what it can be asked about. Knows words only."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Kind(StrEnum):
    """What a right is about."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    """The installation as a whole; it has no name."""


class Action(StrEnum):
    """What somebody wants to do with it."""

    PUB = "pub"
    """Send to a topic; be a producer of a group of producers."""
    SUB = "sub"
    """Receive: the topic's and the group's right are needed, both."""
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    GET = "get"
    """See what it is and how it does; no message bodies."""
    LIST = "list"
    """Find it in lists."""
    PEEK = "peek"
    """Read messages without receiving them."""
    RESET = "reset"
    """Move a group's offsets."""
    REDRIVE = "redrive"
    """Send dead letters again, or discard them; call such jobs off."""
    DECIDE = "decide"
    """Decide transactions and delayed messages in place of their producers."""
    RELEASE = "release"
    """Take locks of queues from their owners."""
    CARE = "care"
    """Suspend, resume and skip blocked queues; look after the store and its parts."""
    RUN = "run"
    """Ask for runs of pipelines, and call them off."""
    ADMINISTER = "administer"
    """Accounts, grants, tokens, the audit and the rows of the admin."""


_OF_ALL = {Action.CREATE, Action.UPDATE, Action.DELETE, Action.GET, Action.LIST, Action.PEEK}

ACTIONS_OF: Mapping[Kind, frozenset[Action]] = MappingProxyType(
    {
        Kind.TOPIC: frozenset({*_OF_ALL, Action.PUB, Action.SUB, Action.DECIDE, Action.RUN}),
        Kind.GROUP: frozenset(
            {
                *_OF_ALL,
                Action.PUB,
                Action.SUB,
                Action.RESET,
                Action.REDRIVE,
                Action.RELEASE,
                Action.CARE,
            }
        ),
        Kind.CLUSTER: frozenset(
            {
                Action.GET,
                Action.LIST,
                Action.PEEK,
                Action.UPDATE,
                Action.REDRIVE,
                Action.DECIDE,
                Action.CARE,
                Action.RUN,
                Action.ADMINISTER,
            }
        ),
    }
)
"""Which actions make sense for which kind; a grant names no others."""

COVERED: frozenset[tuple[Kind, Action]] = frozenset(
    {
        (Kind.TOPIC, Action.PEEK),
        (Kind.TOPIC, Action.DECIDE),
        (Kind.TOPIC, Action.RUN),
        (Kind.GROUP, Action.PEEK),
        (Kind.GROUP, Action.REDRIVE),
    }
)
"""What the cluster's right to the same is enough for, where no grant matches the name."""
