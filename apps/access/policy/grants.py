"""One grant: who gives or takes which actions on what. Knows values and what makes them wrong."""

import ipaddress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from apps.access.policy.actions import ACTIONS_OF, Action, Kind
from apps.access.policy.reasons import because
from apps.access.policy.resources import RESERVED_PREFIXES, Resource, is_own
from apps.engine import limits

Word = TypeVar("Word", bound=StrEnum)
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

SOURCES_MAX = 32


class Effect(StrEnum):
    """What a grant does where it matches."""

    ALLOW = "allow"
    DENY = "deny"


class Match(StrEnum):
    """How a grant's name is compared; also its rank: literal before prefix before any."""

    LITERAL = "literal"
    PREFIX = "prefix"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Actions on what matches, allowed or denied, from anywhere or from some networks."""

    kind: Kind
    actions: frozenset[Action]
    match: Match = Match.ANY
    name: str = ""
    effect: Effect = Effect.ALLOW
    sources: tuple[Network, ...] = field(default=())
    """Where the request must come from; empty is anywhere."""


def checked(
    *,
    kind: str,
    actions: list[str],
    match: str,
    name: str = "",
    effect: str = Effect.ALLOW,
    sources: list[str] | None = None,
) -> Grant:
    """Return a grant of words; raise ValueError, whose text says what is wrong with them."""
    grant = Grant(
        kind=_word(Kind, kind, "kind"),
        actions=frozenset(_word(Action, action, "action") for action in actions),
        match=_word(Match, match, "match"),
        name=name,
        effect=_word(Effect, effect, "effect"),
        sources=_networks(sources or []),
    )
    if not grant.actions:
        raise ValueError(because("a grant names one action or more"))
    if foreign := grant.actions - ACTIONS_OF[grant.kind]:
        raise ValueError(
            because(
                "there is no %(actions)s of a %(kind)s",
                actions=", ".join(sorted(foreign)),
                kind=grant.kind.value,
            )
        )
    if grant.kind is Kind.CLUSTER and grant.match is not Match.ANY:
        raise ValueError(because("there is one cluster: its match is any"))
    if (grant.match is Match.ANY) != (not name):
        raise ValueError(because("a literal or prefix needs a name, and any has none"))
    if name and limits.NAME_PATTERN.fullmatch(name) is None:
        raise ValueError(
            because(
                "a name has 1 to %(highest)s characters of A-Z, a-z, 0-9, _ - %% |",
                highest=str(limits.NAME_CHARACTERS_MAX),
            )
        )
    if name and (name.startswith(RESERVED_PREFIXES) or is_own(Resource(Kind.TOPIC, name))):
        raise ValueError(
            because(
                "retry topics and dead letters go with their group, lite topics with their "
                "parent, and none can be named"
            )
        )
    return grant


def _word(kind: type[Word], text: str, what: str) -> Word:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(
            because(
                "%(what)s is one of %(known)s, not %(text)s",
                what=what,
                known=", ".join(kind),
                text=repr(text[:40]),
            )
        ) from None


def _networks(texts: list[str]) -> tuple[Network, ...]:
    if len(texts) > SOURCES_MAX:
        raise ValueError(
            because("a grant has at most %(highest)s sources", highest=str(SOURCES_MAX))
        )
    found = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text))
        except ValueError:
            raise ValueError(
                because("%(text)s is no network such as 10.0.0.0/8", text=repr(text[:60]))
            ) from None
    return tuple(found)
