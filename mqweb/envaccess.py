"""Variables about who asks: proxies that are believed, roles that need codes, times of sessions.

Pure: knows texts.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from apps.access.policy import Role
from apps.core.proxies import Network
from mqweb.envvalues import UNITS_MS, duration_ms
from mqweb.variables import Refused, Variable

NAME = "MQWEB_TRUSTED_PROXIES"
FACTOR = "MQWEB_SECOND_FACTOR"
SESSION = "MQWEB_SESSION_AGE_MAX"
SESSION_IDLE = "MQWEB_SESSION_IDLE_MAX"
NETWORKS_MAX = 64
# That a session is seen is written once a minute, so a shorter time without a request would end
# sessions that are in use.
SESSION_IDLE_MS_MIN = 2 * UNITS_MS["m"]
# Whoever finds a browser open may go on for so long.
SESSION_MS_MAX = 90 * UNITS_MS["d"]

VARIABLES = (
    Variable(
        name=NAME, default="", meaning="networks of proxies that are believed, by comma; none"
    ),
    Variable(
        name=FACTOR, default="", meaning="roles that sign in with a second factor, by comma; none"
    ),
    Variable(name=SESSION, default="12h", meaning="longest time that a sign-in is good for"),
    Variable(name=SESSION_IDLE, default="2h", meaning="time without a request that ends it"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTimes:
    """How long a session lasts: since its start, and without a request."""

    age_ms_max: int
    idle_ms_max: int


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


def session_times(values: Mapping[str, str]) -> SessionTimes:
    """Return how long sessions last; raise Refused for times that are too short or too long."""
    whole_ms = duration_ms(SESSION, values[SESSION])
    idle_ms = duration_ms(SESSION_IDLE, values[SESSION_IDLE])
    if whole_ms > SESSION_MS_MAX:
        raise Refused(f"{SESSION}={values[SESSION]}: must be at most 90d")
    if idle_ms < SESSION_IDLE_MS_MIN:
        raise Refused(f"{SESSION_IDLE}={values[SESSION_IDLE]}: must be at least 2m")
    if idle_ms > whole_ms:
        raise Refused(
            f"{SESSION_IDLE}={values[SESSION_IDLE]}: must not be longer than "
            f"{SESSION}={values[SESSION]}"
        )
    return SessionTimes(age_ms_max=whole_ms, idle_ms_max=idle_ms)
