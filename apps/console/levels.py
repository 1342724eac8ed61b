"""When a backlog deserves a look. Pure: turns numbers into words; the pages give them a look."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from apps.core.phrases import Text, phrase_in

# RocketMQ Studio warns at the same two figures.
LAG_WARN_MESSAGES = 1_000
LAG_HIGH_MESSAGES = 10_000

assert LAG_WARN_MESSAGES < LAG_HIGH_MESSAGES

# Growth below this share of the traffic is the noise of batches.
STEADY_SHARE = 0.02
STEADY_MESSAGES_PER_S = 0.5


class Level(StrEnum):
    """How far behind a group is."""

    NONE = "none"
    LOW = "low"
    WARN = "warn"
    HIGH = "high"
    UNKNOWN = "unknown"


class Trend(StrEnum):
    """Where a backlog is going."""

    RISING = "rising"
    STEADY = "steady"
    FALLING = "falling"


TREND_WORDS: Final[Mapping[Trend | None, Text | None]] = {
    Trend.RISING: phrase_in("backlog", "rising"),
    Trend.STEADY: phrase_in("backlog", "steady"),
    Trend.FALLING: phrase_in("backlog", "falling"),
    None: None,
}


def level_of(lag: int | None) -> Level:
    """Return the level of a lag in messages; None is unknown, which is not zero."""
    if lag is None:
        return Level.UNKNOWN
    if lag >= LAG_HIGH_MESSAGES:
        return Level.HIGH
    if lag >= LAG_WARN_MESSAGES:
        return Level.WARN
    return Level.LOW if lag else Level.NONE


def trend_of(
    *, lag: int | None, send_rate: float | None, consume_rate: float | None
) -> Trend | None:
    """Return where a backlog goes that one rate fills and the other drains; None when unknown.

    No lag is steady: what was caught up within the window falls no further.
    """
    if lag == 0:
        return Trend.STEADY
    if lag is None or send_rate is None or consume_rate is None:
        return None
    growth = send_rate - consume_rate
    if abs(growth) <= max(STEADY_MESSAGES_PER_S, STEADY_SHARE * max(send_rate, consume_rate)):
        return Trend.STEADY
    return Trend.RISING if growth > 0 else Trend.FALLING
