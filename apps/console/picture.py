"""A snapshot with the minutes before it, as far as each sight shows it. Knows no view, no board."""

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

from apps.access.policy import Sight
from apps.console.sights import seen
from apps.console.snapshot import Snapshot

Point = tuple[int, float | None, float | None, int | None]
"""Wall time in ms, messages sent and consumed a second, lag; None is unknown and breaks a line."""


class Picture:
    """A snapshot with the history before it, and its rows by name."""

    def __init__(self, snapshot: Snapshot, history: Sequence[Point] = ()) -> None:
        """Keep both."""
        self.snapshot = snapshot
        self.history = history
        self._seen: dict[Hashable, Picture] = {}

    def seen_by(self, sight: Sight) -> "Picture":
        """Return what a sight shows of it, made once for all pages and viewers who see the same.

        The history is of sums over everything, and left out where a row is. Called from any thread.
        """
        if sight.is_whole:
            return self
        found = self._seen.get(sight.key)
        if found is None:
            history = self.history if sight.sees_everything else ()
            found = self._seen[sight.key] = Picture(seen(self.snapshot, sight), history)
        return found

    @cached_property
    def topics(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the rows of topics by name."""
        return {row["name"]: row for row in self.snapshot["topics"]}

    @cached_property
    def groups(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the rows of groups by name."""
        return {row["name"]: row for row in self.snapshot["groups"]}
