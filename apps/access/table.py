"""How the table of rights is written: (method, route) -> actions on a resource. Knows no address.

The table itself stands where all addresses are known; a route that is not in it is closed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.access.policy import CLUSTER, Action, Kind, Resource, group, topic

ResourceOf = Callable[[Mapping[str, Any]], Resource]  # Parts of an address are texts or numbers.


@dataclass(frozen=True, slots=True)
class Need:
    """One of some actions on what the parts of an address name."""

    resource_of: ResourceOf
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Open:
    """Nothing is needed; `is_for_accounts` says that somebody must be signed in all the same.

    `is_before_factor` lets in who has to set up a second factor before anything else.
    """

    is_for_accounts: bool = False
    is_before_factor: bool = False


@dataclass(frozen=True, slots=True)
class Somewhere:
    """One of some actions on a name that is known only when a row or a body was looked at.

    Who may do them with no name at all is refused here; for the rest the view asks again with the
    name, and what that may not be known of is answered as what is not there.
    """

    kind: Kind
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Throughout:
    """Seeing all there is, as whole tables show it: every topic, every group, and their sums.

    With `peeks` also what messages hold, and what consumers say of their failures. Who administers
    sees it, whatever else they may.
    """

    peeks: bool = False


EVERYBODY = Open()
SIGNED_IN = Open(is_for_accounts=True)
SETTING_UP = Open(is_for_accounts=True, is_before_factor=True)
Row = Need | Open | Somewhere | Throughout


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRows:
    """What the admin's rows of a model need, to be seen and to be changed.

    A `Somewhere` is about the topic or group that has the name of the row. What a page of the admin
    offers to nobody is not offered by this.
    """

    see: Row
    add: Row
    change: Row
    delete: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows by route, as Django writes it, then by method; whole areas by the route's beginning."""

    routes: Mapping[str, Mapping[str, Row]]
    areas: Sequence[tuple[str, Row]] = field(default=())
    models: Mapping[str, ModelRows] = field(default_factory=dict)
    """By Django's label of a model, in small letters. One that is missing is for who administers.
    """

    def row(self, route: str, method: str) -> Row | None:
        """Return what a request needs; None for what is not in the table, and so closed.

        HEAD and OPTIONS need what GET does, where there is one; else what any method there does.
        """
        methods = self.routes.get(route)
        if methods is not None:
            if method in ("HEAD", "OPTIONS") and method not in methods:
                method = "GET" if "GET" in methods else next(iter(methods))
            return methods.get(method)
        return next((row for start, row in self.areas if route.startswith(start)), None)

    def model(self, label: str) -> ModelRows:
        """Return what rows of a model need."""
        return self.models.get(label, _FOR_ADMINS)


def on_topic(*actions: Action, part: str = "topic") -> Need:
    """Need one of the actions on the topic that a part of the address names."""
    return Need(lambda parts: topic(str(parts[part])), actions)


def on_group(*actions: Action, part: str = "group") -> Need:
    """Need one of the actions on the group that a part of the address names."""
    return Need(lambda parts: group(str(parts[part])), actions)


def on_group_of_lock(*actions: Action) -> Need:
    """Need one of the actions on the group of `group~topic~queue`."""
    return Need(lambda parts: group(str(parts["lock"]).partition("~")[0]), actions)


def on_some_topic(*actions: Action) -> Somewhere:
    """Need one of the actions on the topic that the view finds."""
    return Somewhere(Kind.TOPIC, actions)


def on_some_group(*actions: Action) -> Somewhere:
    """Need one of the actions on the group that the view finds."""
    return Somewhere(Kind.GROUP, actions)


def on_cluster(*actions: Action) -> Need:
    """Need one of the actions on the installation."""
    return Need(lambda _parts: CLUSTER, actions)


def rows(
    *, see: Row, add: Row | None = None, change: Row | None = None, delete: Row | None = None
) -> ModelRows:
    """Need something to see the rows of a model; what is not said is for who administers."""
    rest = on_cluster(Action.ADMINISTER)
    return ModelRows(see=see, add=add or rest, change=change or rest, delete=delete or rest)


_FOR_ADMINS = rows(see=on_cluster(Action.ADMINISTER))
