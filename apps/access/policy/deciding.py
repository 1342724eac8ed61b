"""The one decision: may this principal do that? Default deny; pure, and quick once asked before.

Literal beats longer prefix beats shorter prefix beats any; at equal rank DENY wins.
"""

import ipaddress
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apps.access.policy.actions import Action, Kind
from apps.access.policy.grants import Effect, Grant, Match
from apps.access.policy.resources import TRACES, Resource, is_own, owner

# A principal asks about few things again and again; one that asks about many starts over.
_KEPT_MAX = 4096
# What may be read of a topic of the product's, by the right to do the same with its owner.
_READING = frozenset({Action.GET, Action.LIST, Action.SUB, Action.PEEK})

_log = logging.getLogger("mqweb.access")


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether it is allowed; `reason` is a sentence for whoever asked."""

    is_allowed: bool
    reason: str


_ALLOWED = Decision(True, "allowed")
_FAILED = Decision(False, "the decision failed, which counts as no")


class _Rules:
    """The grants about one action on one kind of thing, by rank."""

    __slots__ = ("_any", "_literal", "_prefixes", "allows_some")

    def __init__(self, grants: Sequence[Grant]) -> None:
        self.allows_some = any(grant.effect is Effect.ALLOW for grant in grants)
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
        "_kept", "_narrowed_to", "_rules", "_takes_part", "has_sources", "is_super", "name",
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
        listed = list(grants)
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
        found = Principal(self.name, is_super=self.is_super, narrowed_to=Principal("", listed))
        found._rules = self._rules
        found._takes_part = self._takes_part
        found.has_sources = self.has_sources
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
            return Decision(False, f"{self.name} has no right to {action.value} any {kind.value}")
        return _ALLOWED

    def _allows_some(self, action: Action, kind: Kind) -> bool:
        rules = self._rules.get((kind, action))
        return rules is not None and rules.allows_some

    def _decided(self, action: Action, resource: Resource, source: str) -> Decision:
        if not (self.is_super or self._holds(action, resource, source)):
            return Decision(False, f"{self.name} has no right to {action.value} {resource}")
        scopes = self._narrowed_to
        if scopes is not None and not scopes._holds(action, resource, source):
            return Decision(False, f"the token's scopes do not let it {action.value} {resource}")
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
        return effect is Effect.ALLOW

    def _holds_own(self, action: Action, resource: Resource, source: str) -> bool:
        if resource == TRACES and action in (Action.PUB, Action.GET):
            # Everybody who works with messages may tell of it.
            return self._takes_part
        if action not in _READING:
            return False
        whose = owner(resource)
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
        return Decision(False, "nobody is signed in")
    try:
        return principal.may(action, resource, source)
    except Exception:  # Never fail open: a mistake of ours must not be a right of somebody's.
        _log.exception("decision_failed")
        return _FAILED
