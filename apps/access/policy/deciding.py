"""The one decision: may this principal do that? Default deny; pure, and quick once asked before.

Literal beats longer prefix beats shorter prefix beats any; at equal rank DENY wins. Some rights of
the cluster are enough for each of its topics or groups, below all of these.
"""

import ipaddress
import logging
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from apps.access.policy.actions import COVERED, Action, Kind
from apps.access.policy.grants import Effect, Grant, Match
from apps.access.policy.reasons import because
from apps.access.policy.resources import CLUSTER, TRACES, Resource, is_lite, is_own, owner

# A principal asks about few things again and again; one that asks about many starts over.
_KEPT_MAX = 4096
# What may be read of a topic of the product's, by the right to do the same with its owner.
_READING = frozenset({Action.GET, Action.LIST, Action.SUB, Action.PEEK})
_WITH_MESSAGES = _READING | {Action.PUB, Action.DECIDE}
# Who has all of these on anything sees everything there is to see but messages.
_SEEING = (
    (Kind.TOPIC, Action.GET), (Kind.TOPIC, Action.LIST), (Kind.GROUP, Action.GET),
    (Kind.GROUP, Action.LIST), (Kind.CLUSTER, Action.GET),
)  # fmt: skip
_PEEKING = ((Kind.TOPIC, Action.PEEK), (Kind.GROUP, Action.PEEK), (Kind.CLUSTER, Action.PEEK))

_log = logging.getLogger("mqweb.access")


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether it is allowed; `reason` is a sentence for whoever asked."""

    is_allowed: bool
    reason: str


_ALLOWED = Decision(True, "allowed")
_FAILED = Decision(False, because("the decision failed, which counts as no"))


class _Rules:
    """The grants about one action on one kind of thing, by rank."""

    __slots__ = ("_any", "_literal", "_prefixes", "allows_all", "allows_some", "denies_others")

    def __init__(self, grants: Sequence[Grant]) -> None:
        # Whatever no grant names is denied, to everybody from everywhere.
        self.denies_others = any(
            grant.effect is Effect.DENY and grant.match is Match.ANY and not grant.sources
            for grant in grants
        )
        self.allows_some = any(
            grant.effect is Effect.ALLOW and not (grant.match is Match.ANY and self.denies_others)
            for grant in grants
        )
        self.allows_all = any(
            grant.match is Match.ANY and not grant.sources for grant in grants
        ) and not any(grant.effect is Effect.DENY for grant in grants)
        self._any: list[Grant] = []
        self._literal: dict[str, list[Grant]] = {}
        prefixes: dict[str, list[Grant]] = {}
        for grant in grants:
            match grant.match:
                case Match.LITERAL:
                    self._literal.setdefault(grant.name, []).append(grant)
                case Match.PREFIX:
                    prefixes.setdefault(grant.name, []).append(grant)
                case Match.ANY:
                    self._any.append(grant)
        self._prefixes = sorted(prefixes.items(), key=lambda item: -len(item[0]))

    def effect_on(self, name: str, source: str) -> Effect | None:
        """Return what the highest rank with a matching grant says; None where none matches."""
        found = _joined(self._literal.get(name, ()), source)
        if found is not None:
            return found
        for prefix, grants in self._prefixes:
            if name.startswith(prefix):
                found = _joined(grants, source)
                if found is not None:
                    return found
        return _joined(self._any, source)


def _joined(grants: Sequence[Grant], source: str) -> Effect | None:
    effects = {grant.effect for grant in grants if _comes_from(grant, source)}
    if Effect.DENY in effects:
        return Effect.DENY
    return Effect.ALLOW if effects else None


def _comes_from(grant: Grant, source: str) -> bool:
    if not grant.sources:
        return True
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        # Nobody knows where it comes from: what is denied from somewhere is denied, and no more.
        return grant.effect is Effect.DENY
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in grant.sources)


class Principal:
    """Who asks: a name, and grants compiled once. Immutable but for what it remembers.

    `narrowed_to` are the scopes of a token: what they do not allow is denied whatever else says.
    """

    __slots__ = (
        "_grants", "_kept", "_narrowed_to", "_rules", "_takes_part", "has_sources", "is_super",
        "name", "sights",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        grants: Iterable[Grant] = (),
        *,
        is_super: bool = False,
        narrowed_to: "Principal | None" = None,
    ) -> None:
        """Compile the grants; a super-user needs none, and none is held against it."""
        self.name = name
        self.is_super = is_super
        self._narrowed_to = narrowed_to
        self._kept: dict[tuple[Action, Resource, str], Decision] = {}
        self.sights: dict[str, Any] = {}  # By where it asks from; their kind knows this one.
        listed = list(grants)
        self._grants = frozenset(listed)
        self.has_sources = any(grant.sources for grant in listed)
        self._takes_part = any(
            grant.effect is Effect.ALLOW and grant.actions & {Action.PUB, Action.SUB}
            for grant in listed
        )
        by_place: dict[tuple[str, Action], list[Grant]] = {}
        for grant in listed:
            for action in grant.actions:
                by_place.setdefault((grant.kind, action), []).append(grant)
        self._rules = {place: _Rules(found) for place, found in by_place.items()}

    def narrowed(self, scopes: Iterable[Grant]) -> "Principal":
        """Return the same principal, with no more rights than the scopes have; none: as it is."""
        listed = list(scopes)
        if not listed:
            return self
        within = Principal("", listed)
        found = Principal(self.name, is_super=self.is_super, narrowed_to=within)
        found._grants = self._grants
        found._rules = self._rules
        found._takes_part = self._takes_part
        # What is remembered must not be remembered for another address, whoever looks at it.
        found.has_sources = self.has_sources or within.has_sources
        return found

    def may(self, action: Action, resource: Resource, source: str = "") -> Decision:
        """Return the decision; what was asked before is looked up. Raises what deciding raises."""
        key = (action, resource, source if self.has_sources else "")
        found = self._kept.get(key)
        if found is None:
            found = self._decided(action, resource, source)
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            self._kept[key] = found
        return found

    def may_somewhere(self, action: Action, kind: Kind) -> Decision:
        """Say whether there may be a name of a kind that the action is allowed on.

        For what has no name yet: a no is certain, a yes has to be asked again with the name.
        """
        is_held = self.is_super or self._allows_some(action, kind)
        scopes = self._narrowed_to
        if not is_held or (scopes is not None and not scopes._allows_some(action, kind)):
            text = because(
                "%(name)s has no right to %(action)s any %(kind)s",
                name=self.name,
                action=action.value,
                kind=kind.value,
            )
            return Decision(False, text)
        return _ALLOWED

    @property
    def sees_everything(self) -> bool:
        """Say whether no topic, no group and no figure of the installation is hidden from it."""
        return self._has_all(_SEEING)

    @property
    def peeks_everywhere(self) -> bool:
        """Say whether it may read every message."""
        return self._has_all(_PEEKING)

    def sight_key(self, source: str = "") -> Hashable:
        """Return a value that is the same for principals that may do the same."""
        scopes = self._narrowed_to
        return (
            self.is_super,
            self._grants,
            None if scopes is None else scopes._grants,
            source if self.has_sources else "",
        )

    def knows_of(self, resource: Resource, source: str = "") -> bool:
        """Say whether it may know that there is such a thing, or that there is none."""
        return any(
            self.may(action, resource, source).is_allowed for action in (Action.GET, Action.LIST)
        )

    def _has_all(self, places: Sequence[tuple[Kind, Action]]) -> bool:
        scopes = self._narrowed_to
        return (self.is_super or self._allows_all(places)) and (
            scopes is None or scopes._allows_all(places)
        )

    def _allows_all(self, places: Sequence[tuple[Kind, Action]]) -> bool:
        rules = [self._rules.get(place) for place in places]
        return all(found is not None and found.allows_all for found in rules)

    def _allows_some(self, action: Action, kind: Kind) -> bool:
        rules = [self._rules.get((kind, action))]
        if (kind, action) in COVERED and not (rules[0] and rules[0].denies_others):
            rules.append(self._rules.get((Kind.CLUSTER, action)))
        return any(found is not None and found.allows_some for found in rules)

    def _decided(self, action: Action, resource: Resource, source: str) -> Decision:
        if not (self.is_super or self._holds(action, resource, source)):
            text = because(
                "%(name)s has no right to %(action)s %(resource)s",
                name=self.name,
                action=action.value,
                resource=str(resource),
            )
            return Decision(False, text)
        scopes = self._narrowed_to
        if scopes is not None and not scopes._holds(action, resource, source):
            text = because(
                "the token's scopes do not let it %(action)s %(resource)s",
                action=action.value,
                resource=str(resource),
            )
            return Decision(False, text)
        return _ALLOWED

    def _holds(self, action: Action, resource: Resource, source: str) -> bool:
        if is_own(resource):
            return self._holds_own(action, resource, source)
        effect = self._effect(action, resource, source)
        if effect is None and action is Action.LIST:
            return self._holds(Action.GET, resource, source)
        if effect is None and action is Action.GET:
            # Whoever may do anything with it may know what it is.
            others = (other for other in Action if other not in (Action.GET, Action.LIST))
            return any(self._effect(other, resource, source) is Effect.ALLOW for other in others)
        if effect is None and (resource.kind, action) in COVERED:
            effect = self._effect(action, CLUSTER, source)
        return effect is Effect.ALLOW

    def _holds_own(self, action: Action, resource: Resource, source: str) -> bool:
        if resource == TRACES and action in (Action.PUB, Action.GET):
            # Everybody who works with messages may tell of it.
            return self._takes_part
        whose = owner(resource)
        if is_lite(resource) and whose.name:
            # What may be done with the messages of a topic may be done with those of its parts.
            return action in _WITH_MESSAGES and self._holds(action, whose, source)
        if action not in _READING:
            return False
        if not whose.name and action is Action.SUB:
            action = Action.PEEK
        return self._holds(action, whose, source)

    def _effect(self, action: Action, resource: Resource, source: str) -> Effect | None:
        rules = self._rules.get((resource.kind, action))
        return None if rules is None else rules.effect_on(resource.name, source)


def decide(
    principal: Principal | None, action: Action, resource: Resource, source: str = ""
) -> Decision:
    """Say whether a principal may do something, asking from the address `source`.

    Nobody may do nothing. Whatever goes wrong in deciding is a no.
    """
    if principal is None:
        return Decision(False, because("nobody is signed in"))
    try:
        return principal.may(action, resource, source)
    except Exception:  # Never fail open: a mistake of ours must not be a right of somebody's.
        _log.exception("decision_failed")
        return _FAILED
