"""What a principal may see, as one value that pictures are filtered and kept by. Pure.

Those who may see everything share one sight, and so do those whose grants are the same: what is
shown is filtered once for all of them.
"""

from collections.abc import Hashable
from functools import cached_property

from apps.access.policy.actions import Action, Kind
from apps.access.policy.deciding import Principal, decide
from apps.access.policy.resources import CLUSTER, Resource

EVERYTHING_KEY: Hashable = None
# Names that a sight remembers its answer about: some tens of megabytes when that is all of them.
_KEPT_MAX = 100_000
_SOURCES_MAX = 64


class Sight:
    """Which topics, groups and figures of the installation are shown; compared by `key`."""

    def __init__(self, principal: Principal | None, source: str = "", *, is_open: bool = False):
        """Show what a principal may see from an address; all of it where access `is_open`.

        Without a principal nothing is shown.
        """
        self._principal = principal
        self._source = source
        self.sees_everything = is_open or (principal is not None and principal.sees_everything)
        """No row is hidden, though what messages and consumers say may be."""
        self.is_whole = is_open or (
            principal is not None and self.sees_everything and principal.peeks_everywhere
        )
        """Nothing at all is hidden."""
        self._kept: dict[Resource, bool] = {}
        self.key: Hashable = EVERYTHING_KEY
        if not self.is_whole:
            self.key = "nobody" if principal is None else principal.sight_key(source)

    @classmethod
    def of(cls, principal: Principal, source: str = "") -> "Sight":
        """Return the sight of a principal, which remembers its answers as long as that is there."""
        place = source if principal.has_sources else ""
        found = principal.sights.get(place)
        if found is None:
            if len(principal.sights) >= _SOURCES_MAX:
                principal.sights.clear()
            found = principal.sights[place] = cls(principal, source)
        return found

    def topic(self, name: str) -> bool:
        """Say whether a topic is shown, with its figures."""
        return self.sees_everything or self._sees(Kind.TOPIC, name)

    def group(self, name: str) -> bool:
        """Say whether a group is shown, with its figures."""
        return self.sees_everything or self._sees(Kind.GROUP, name)

    def peeks(self, resource: Resource) -> bool:
        """Say whether keys and bodies of messages there are shown, and what consumers say."""
        return self.is_whole or self._may(Action.PEEK, resource)

    @cached_property
    def cluster(self) -> bool:
        """Say whether figures of the installation are shown."""
        return self.sees_everything or self._may(Action.GET, CLUSTER)

    def _sees(self, kind: Kind, name: str) -> bool:
        # A picture has thousands of names, and is filtered each second.
        thing = Resource(kind, name)
        found = self._kept.get(thing)
        if found is None:
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            found = self._may(Action.LIST, thing) and self._may(Action.GET, thing)
            self._kept[thing] = found
        return found

    def _may(self, action: Action, thing: Resource) -> bool:
        return decide(self._principal, action, thing, self._source).is_allowed


ALL = Sight(None, is_open=True)
"""What is shown where nobody is asked who they are."""
