"""When the messages of a batch are due: RocketMQ's properties of a delay. Knows bytes, no clock."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.codec.scan import Properties
from apps.engine.errors import MalformedBatch

# In the order in which RocketMQ's broker asks for them, with what one unit is in milliseconds.
_DELAYS = ((b"TIMER_DELAY_SEC", 1000), (b"TIMER_DELAY_MS", 1), (b"TIMER_DELIVER_MS", 1))
_RANKS = {name: rank for rank, (name, _) in enumerate(_DELAYS)}
_ABSOLUTE = _RANKS[b"TIMER_DELIVER_MS"]
_ID = b"UNIQ_KEY"
_NAMED = re.compile(
    rb"(?:\A|(?<=\x02))(TIMER_DELAY_SEC|TIMER_DELAY_MS|TIMER_DELIVER_MS|UNIQ_KEY)"
    rb"\x01([^\x02]*)(?=\x02)"
)
# More is no time anybody means, and would not fit the arithmetic.
_DIGITS_MAX = 15


@dataclass(frozen=True, slots=True)
class Orders:
    """When each message is due, int64[n] of wall milliseconds, and its id, empty where none."""

    due_ms: NDArray[np.int64]
    message_ids: list[str]


def orders_of(properties: Properties, *, now_ms: int) -> Orders:
    """Return what checked property sections ask for.

    Raises MalformedBatch where a record asks for no delay of its own, or for one that is no number.
    It is a loop over properties, two for a message, since text has no array form: 1.5 us a message.
    """
    count = len(properties.lengths)
    matches = list(_NAMED.finditer(properties.data.tobytes()))
    at = np.array([match.start() for match in matches], dtype=np.int64)
    records = np.searchsorted(np.cumsum(properties.lengths), at, side="right").tolist()
    due_ms = [0] * count
    ranks = [len(_DELAYS)] * count
    ids = [""] * count
    for record, match in zip(records, matches, strict=True):
        name, value = match.groups()
        if name == _ID:
            ids[record] = value.decode()
            continue
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
    return Orders(np.array(due_ms, dtype=np.int64), ids)
