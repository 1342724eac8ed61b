"""What the engine says in fixed words, as phrases for people. Pure; other texts stay as they are.

The engine and its journal know English alone: a line that was written long ago is put into words
when somebody reads it.
"""

import re
from collections.abc import Mapping
from typing import Final

from apps.core.phrases import Text, phrase, phrase_in
from apps.engine.grouptypes import LockChange

REBALANCE: Final = "rebalance"

_CHANGES: Final[Mapping[str, Text]] = {
    REBALANCE: phrase_in("change of a lock", "rebalance"),
    LockChange.ACQUIRED.value: phrase_in("change of a lock", "acquired"),
    LockChange.EXPIRED.value: phrase_in("change of a lock", "expired"),
    LockChange.TAKEN_OVER.value: phrase_in("change of a lock", "taken over"),
    LockChange.RELEASED.value: phrase_in("change of a lock", "released"),
    LockChange.FORCED.value: phrase_in("change of a lock", "forced"),
}

_REASONS: Final[Mapping[str, Text]] = {
    "join": phrase_in("why queues moved", "join"),
    "leave": phrase_in("why queues moved", "leave"),
    "expiry": phrase_in("why queues moved", "expiry"),
    "recovery": phrase_in("why queues moved", "recovery"),
    "subscription": phrase_in("why queues moved", "subscription"),
    "queue_count": phrase_in("why queues moved", "queue count"),
    "strategy": phrase_in("why queues moved", "strategy"),
    "beat": phrase_in("why queues moved", "beat"),
    "expired": phrase_in("why a lock changed", "expired"),
    "the lease before has expired": phrase_in("why a lock changed", "the lease before has expired"),
    "offsets reset": phrase_in("why a lock changed", "offsets reset"),
}

_HEAD_PASSED = re.compile(r"message (\d+) was (skipped|parked)")


def change(name: str) -> Text:
    """Return what happened to a lock, or to the queues of a group."""
    return _CHANGES.get(name, name.replace("_", " "))


def reason(said: str) -> Text:
    """Return why; what a person gave as the reason is returned as it is."""
    if passed := _HEAD_PASSED.fullmatch(said):
        if passed[2] == "parked":
            return phrase("message %(offset)s was parked", offset=passed[1])
        return phrase("message %(offset)s was skipped", offset=passed[1])
    return _REASONS.get(said, said)
