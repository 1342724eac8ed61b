"""Where the catalog's groups come from. Knows that somebody above keeps them, not who.

A snapshot carries topics and groups together under one version, and is built here, below the
application that has the rows of groups. That one registers itself when it is loaded.
"""

from collections.abc import Mapping
from typing import Protocol

from apps.engine.types import GroupSpec


class GroupSource(Protocol):
    """Whoever keeps what was decided about groups."""

    def specs(self) -> Mapping[str, GroupSpec]:
        """Return every group somebody decided about, by name."""
        ...

    def adopt(self, specs: Mapping[str, GroupSpec]) -> None:
        """Make rows of groups the engine has; called within a transaction."""
        ...


class NoGroups:
    """Nobody keeps groups: every group has the defaults."""

    def specs(self) -> Mapping[str, GroupSpec]:
        """Return no group."""
        return {}

    def adopt(self, specs: Mapping[str, GroupSpec]) -> None:
        """Refuse to lose groups."""
        if specs:
            raise RuntimeError("the engine has groups, and nobody is registered to keep them")


_source: GroupSource = NoGroups()


def register(source: GroupSource) -> None:
    """Take the catalog's groups from `source` from here on."""
    global _source
    _source = source


def source() -> GroupSource:
    """Return who keeps the groups."""
    return _source
