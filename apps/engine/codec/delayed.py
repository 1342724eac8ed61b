"""When the messages of a batch are due: RocketMQ's properties of a delay. Knows bytes, no clock."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.scan import Properties
from apps.engine.errors import MalformedBatch

# In the order in which RocketMQ's broker asks for them, with what one unit is in milliseconds.
_DELAYS = ((b"TIMER_DELAY_SEC", 1000), (b"TIMER_DELAY_MS", 1), (b"TIMER_DELIVER_MS", 1))
_RANKS = {name: rank for rank, (name, _) in enumerate(_DELAYS)}
_ABSOLUTE = _RANKS[b"TIMER_DELIVER_MS"]
_NAMED = re.compile(
    rb"(?:\A|(?<=\x02))(TIMER_DELAY_SEC|TIMER_DELAY_MS|TIMER_DELIVER_MS)\x01([^\x02]*)(?=\x02)"
)
# More digits are no time anybody means, and would not fit the arithmetic.
_DIGITS_MAX = 15
# Its end is only looked at: it is what stands in front of the next record's first name.
_MOMENT = re.compile(rb"\x02TIMER_DELIVER_MS\x01([0-9]{1,15})(?=\x02)")
_ID = re.compile(rb"(?:\A|(?<=\x02))UNIQ_KEY\x01([^\x02]*)(?=\x02)")


def due_times_of(properties: Properties, *, now_ms: int) -> NDArray[np.int64]:
    """Return when each message is due by checked property sections, wall ms: int64[n].

    Raises MalformedBatch where a record asks for no delay of its own, or for one that is no number.
    """
    found = _moments(properties)
    return _orders(properties, now_ms=now_ms) if found is None else found


def _moments(properties: Properties) -> NDArray[np.int64] | None:
    """Return the due times where every record has one moment and nothing else; None otherwise.

    So our SDK sends delays. A comprehension over matches costs 0.3 us a message, a quarter of what
    looking at each of its properties does.
    """
    # With 0x02 in front of the first name too, each match begins one byte before its name.
    data = b"\x02" + properties.data.tobytes()
    count = len(properties.lengths)
    if data.count(b"TIMER_D") != count:
        return None
    matches = list(_MOMENT.finditer(data))
    if len(matches) != count:
        return None
    records = _records_of(properties, [match.start() for match in matches])
    if not np.array_equal(records, np.arange(count)):
        return None
    return np.array([match[1] for match in matches]).astype(np.int64)


def _orders(properties: Properties, *, now_ms: int) -> NDArray[np.int64]:
    """Return the due times of records with whatever they have; see `due_times_of`.

    A loop over properties, since text has no array form: 1.2 us a message.
    """
    count = len(properties.lengths)
    matches = list(_NAMED.finditer(properties.data.tobytes()))
    records = _records_of(properties, [match.start() for match in matches])
    due_ms = [0] * count
    ranks = [len(_DELAYS)] * count
    for record, match in zip(records.tolist(), matches, strict=True):
        name, value = match.groups()
        rank = _RANKS[name]
        if rank <= ranks[record]:
            if not value.isdigit() or len(value) > _DIGITS_MAX:
                raise MalformedBatch(f"record {record}: {name.decode()} is no number")
            base_ms = 0 if rank == _ABSOLUTE else now_ms
            due_ms[record] = base_ms + int(value) * _DELAYS[rank][1]
            ranks[record] = rank
    if len(_DELAYS) in ranks:
        record = ranks.index(len(_DELAYS))
        raise MalformedBatch(f"record {record}: a batch has a delay in every record or in none")
    return np.array(due_ms, dtype=np.int64)


def message_ids_of(properties: Properties) -> list[str]:
    """Return the unique id of each message, empty where it has none; the last one counts.

    A loop over messages: 0.7 us each.
    """
    matches = list(_ID.finditer(properties.data.tobytes()))
    ids = [""] * len(properties.lengths)
    records = _records_of(properties, [match.start() for match in matches])
    for record, match in zip(records.tolist(), matches, strict=True):
        ids[record] = match[1].decode()
    return ids


def _records_of(properties: Properties, at: Sequence[int]) -> NDArray[np.int64]:
    """Return which record each place in the sections belongs to."""
    ends = np.cumsum(properties.lengths)
    return np.searchsorted(ends, np.array(at, dtype=np.int64), side="right")
