"""Which topic is a group's own for retries. Pure.

Its figures are part of what the group has left to do, and marked, so that they can be told apart.
"""

from collections.abc import Iterable
from typing import Protocol

from apps.engine.codec.layout import RETRY_PREFIX


class OfGroup(Protocol):
    """A row of a group and a topic, such as progress or backlog."""

    @property
    def group(self) -> str:
        """Return the group's name."""
        ...

    @property
    def topic(self) -> str:
        """Return the topic's name."""
        ...


class WithLag(OfGroup, Protocol):
    """Such a row of a queue."""

    @property
    def committed(self) -> int:
        """Return how far the group is."""
        ...

    @property
    def max_offset(self) -> int:
        """Return where the queue ends."""
        ...


def group_of(topic: str) -> str | None:
    """Return the group whose retries a topic has; None for any other topic."""
    group = topic.removeprefix(RETRY_PREFIX)
    return group if group and group != topic else None


def is_retry(row: OfGroup) -> bool:
    """Say whether a row is of its group's own retry topic."""
    return row.topic == RETRY_PREFIX + row.group


def retry_lag(rows: Iterable[WithLag]) -> int:
    """Return how much of what is left to do lies in retry topics."""
    return sum(row.max_offset - row.committed for row in rows if is_retry(row))
