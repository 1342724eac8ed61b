"""Delay levels on the way in: what is delayed waits in a queue of RocketMQ's schedule topic.

Knows records, their properties and the table of levels; not how what is due gets out again.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from apps.engine.broker.intake import Routed
from apps.engine.broker.produce import CheckedBatch
from apps.engine.broker.readback import batch_of
from apps.engine.clock import Clock
from apps.engine.codec.batch import starts_of
from apps.engine.codec.copies import copy_record
from apps.engine.codec.layout import SCHEDULE_TOPIC
from apps.engine.codec.properties import (
    DELAY,
    REAL_QID,
    REAL_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
)
from apps.engine.codec.record import Record, decode_record
from apps.engine.codec.scan import Properties, property_sections
from apps.engine.errors import MalformedBatch
from apps.engine.types import Appended

_LEVEL = re.compile(r"-?[0-9]{1,9}")
_TIMERS = frozenset((TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS))


class DelayLevels:
    """The table of levels, and the records that wait by it."""

    def __init__(
        self,
        levels_ms: Sequence[int],
        clock: Clock,
        *,
        own_delays: Callable[[CheckedBatch, Properties], Routed],
    ) -> None:
        """Bind to a table, level 1 first; `own_delays` routes what has a delay of its own.

        It is given the property sections too, which were gathered to tell one from the other.
        """
        self.levels_ms = levels_ms
        self._clock = clock
        self._own_delays = own_delays

    def route(self, batch: CheckedBatch) -> Routed:
        """Return the way of a batch with delays; a level beats a delay of its own.

        Level 0 and below is none, and one above the table the highest. Raises MalformedBatch where
        a level is no number, or some messages have one and others do not, MessageTooLarge where
        the properties have no room for the delay's, and what `own_delays` raises.

        A loop over messages: each gets other properties. That costs 21 us a message of 1 KiB, about
        what its delivery costs again, so nothing is gained by being faster here.
        """
        starts = starts_of(batch.sizes)
        sections = property_sections(batch.payload, starts, batch.sizes)
        if b"DELAY\x01" not in sections.data.tobytes():
            return self._own_delays(batch, sections)
        records = [decode_record(batch.payload, start) for start in starts.tolist()]
        levels = [self._level(record, number) for number, record in enumerate(records)]
        if not any(levels):
            if any(_TIMERS & record.properties.keys() for record in records):
                return self._own_delays(batch, sections)
            return Routed([batch], lambda appended: appended[0])
        if not all(levels):
            raise MalformedBatch("a batch has a delay level in every message or in none")
        return self._delayed(batch, records, levels)

    def due_ms(self, level: int, now_ms: int) -> int:
        """Return when a message is due that is given a level at a wall time."""
        return now_ms + self.levels_ms[level - 1]

    def record(
        self,
        record: Record,
        level: int,
        due_ms: int,
        *,
        topic: str,
        queue: int,
        properties: dict[str, str],
        reconsume_times: int | None = None,
    ) -> bytes:
        """Return a record that waits in a level, to go to `queue` of `topic` when it is due.

        Raises MessageTooLarge.
        """
        waiting = properties | {
            DELAY: str(level),
            REAL_TOPIC: topic,
            REAL_QID: str(queue),
            TIMER_OUT_MS: str(due_ms),
        }
        return copy_record(
            record,
            topic=SCHEDULE_TOPIC,
            queue=level - 1,
            properties=waiting,
            reconsume_times=reconsume_times,
        )

    def batch(self, level: int, records: Sequence[bytes], due_ms: Sequence[int]) -> CheckedBatch:
        """Return records of one level as a batch; their due times are their entries' tags."""
        return batch_of(SCHEDULE_TOPIC, level - 1, records, due_ms)

    def _level(self, record: Record, number: int) -> int:
        """Return the level a message is to wait in; 0 for none."""
        text = record.properties.get(DELAY, "0")
        if _LEVEL.fullmatch(text) is None:
            raise MalformedBatch(f"record {number}: the delay level is no number")
        return max(0, min(int(text), len(self.levels_ms)))

    def _delayed(
        self, batch: CheckedBatch, records: Sequence[Record], levels: Sequence[int]
    ) -> Routed:
        now_ms = self._clock.wall_ms()
        due_ms = tuple(self.due_ms(level, now_ms) for level in levels)
        by_level: dict[int, list[int]] = {}
        for number, level in enumerate(levels):
            by_level.setdefault(level, []).append(number)
        parts = []
        for level, numbers in by_level.items():
            waiting = [
                self.record(
                    records[number],
                    level,
                    due_ms[number],
                    topic=batch.topic,
                    queue=batch.queue,
                    properties=records[number].properties,
                )
                for number in numbers
            ]
            parts.append(self.batch(level, waiting, [due_ms[number] for number in numbers]))

        def answer(appended: Sequence[Appended]) -> Appended:
            return replace(
                appended[0],
                topic=batch.topic,
                queue=batch.queue,
                queue_offset=-1,
                count=len(records),
                due_ms=due_ms,
            )

        return Routed(parts, answer)
