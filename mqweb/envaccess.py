"""Variables about who asks: proxies that are believed, roles that need codes. Pure: knows texts."""

import ipaddress
from collections.abc import Mapping

from apps.access.policy import Role
from apps.core.proxies import Network
from mqweb.variables import Refused, Variable

NAME = "MQWEB_TRUSTED_PROXIES"
FACTOR = "MQWEB_SECOND_FACTOR"
NETWORKS_MAX = 64

VARIABLES = (
    Variable(
        name=NAME, default="", meaning="networks of proxies that are believed, by comma; none"
    ),
    Variable(
        name=FACTOR, default="", meaning="roles that sign in with a second factor, by comma; none"
    ),
)


def proxies(values: Mapping[str, str]) -> tuple[Network, ...]:
    """Return the networks; raise Refused for what is none, and for one that holds everybody."""
    texts = [text.strip() for text in values[NAME].split(",") if text.strip()]
    if len(texts) > NETWORKS_MAX:
        raise Refused(f"{NAME}: at most {NETWORKS_MAX} networks")
    found = []
    for text in texts:
        try:
            network = ipaddress.ip_network(text)
        except ValueError:
            raise Refused(f"{NAME}: {text[:60]!r} is no network such as 10.0.0.0/8") from None
        if network.prefixlen == 0:
            raise Refused(f"{NAME}: {text} would believe everybody")
        found.append(network)
    return tuple(found)


def second_factor(values: Mapping[str, str]) -> frozenset[str]:
    """Return the roles that need a second factor; raise Refused for a word that is no role."""
    roles = {role.value for role in Role if role is not Role.NONE}
    found = {word.strip() for word in values[FACTOR].split(",") if word.strip()}
    if unknown := sorted(found - roles):
        raise Refused(f"{FACTOR}: {unknown[0][:40]!r} is none of {', '.join(sorted(roles))}")
    return frozenset(found)
