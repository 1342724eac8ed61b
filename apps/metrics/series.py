"""The series there are: their names, units, and what they can be asked of. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Unit(StrEnum):
    """What a value counts."""

    RATE = "messages/s"
    MESSAGES = "messages"
    BYTES = "bytes"
    MS = "ms"
    REFUSALS = "refusals/s"
    QUEUES = "queues"
    MEMBERS = "members"
    PERCENT = "percent"


RATES = (Unit.RATE, Unit.REFUSALS)
"""Units of numbers that need not be whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One number over time. All series have totals; some are kept by topic or group as well.

    Of several rows of one moment it is the sum, or the highest where it `is_highest`.
    """

    name: str
    unit: Unit
    meaning: str
    by_topic: bool = False
    by_group: bool = False
    is_highest: bool = False


_BY_TOPIC = [
    ("send_rate", Unit.RATE, "Messages sent a second."),
    ("sent", Unit.MESSAGES, "Messages ever sent, those deleted since included."),
    ("held", Unit.MESSAGES, "Messages that can be read."),
]
_BY_GROUP = [
    ("consume_rate", Unit.RATE, "Messages committed a second."),
    ("lag", Unit.MESSAGES, "Messages not yet committed."),
    ("in_flight", Unit.MESSAGES, "Messages handed out and not settled."),
    ("committed", Unit.MESSAGES, "Messages done: the sum of the committed offsets."),
    ("delivered", Unit.MESSAGES, "Messages handed out once or more: the sum of the cursors."),
    ("arrive_rate", Unit.RATE, "Messages a second that came for the group."),
    ("oldest_age_ms", Unit.MS, "Age of the oldest message not committed."),
    ("blocked", Unit.QUEUES, "Queues that do not get on."),
    ("members", Unit.MEMBERS, "Members that want the topic."),
    ("refusal_rate", Unit.REFUSALS, "Queue locks refused a second."),
]
_OF_STORE = [
    ("log_bytes", Unit.BYTES, "Size of the log."),
    ("disk_percent", Unit.PERCENT, "Share of the disk that is used."),
]
# A member of two topics is one member, and no age is the sum of two.
_HIGHEST = ("oldest_age_ms", "members")

SERIES: Mapping[str, Series] = MappingProxyType(
    {
        name: Series(
            name=name,
            unit=unit,
            meaning=meaning,
            by_topic=rows is not _OF_STORE,
            by_group=rows is _BY_GROUP,
            is_highest=name in _HIGHEST,
        )
        for rows in (_BY_TOPIC, _BY_GROUP, _OF_STORE)
        for name, unit, meaning in rows
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A series in one slot; None is unknown. `low` and `high` are the extremes within the slot."""

    at_ms: int
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What the overview draws of one slot: from `at_ms` on, for `span_ms`; None is unknown.

    Rates are means, and the highest within the slot; of the backlog the highest alone, so that
    none is lost between the ends of two slots.
    """

    at_ms: int
    span_ms: int
    send_rate: float | None
    send_rate_max: float | None
    consume_rate: float | None
    consume_rate_max: float | None
    lag_max: int | None
