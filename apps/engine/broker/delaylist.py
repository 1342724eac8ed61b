"""What waits for a moment of its own, for people: pages by due time, and counters.

Knows rows in memory and in runs, and reads as much of a run as a page needs.
"""

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.delaydelivery import DelayDelivery
from apps.engine.broker.delays import Delays
from apps.engine.codec.layout import RECORD_HEADER
from apps.engine.codec.properties import KEYS, TAGS, UNIQ_KEY, decode_properties
from apps.engine.delaytypes import DelayedMessage, DelayedPage, DelayStatus
from apps.engine.derived.timer.rows import Rows, in_order, joined
from apps.engine.derived.timer.runfile import Run
from apps.engine.errors import InvalidArgument
from apps.engine.limits import CARE_MESSAGES_MAX

# Within 5 s, 1 min, 5 min, 15 min, 1 h, 4 h, 8 h, a day, and later.
_BUCKETS_S = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)
# A page that a filter leaves empty ends after so many messages of a run; its cursor goes on.
_BLOCKS_MAX = 64
_NEVER = 1 << 60
_CURSOR = re.compile(r"([0-9]{1,16})-([0-9]{1,19})")


class DelayList:
    """Pages and counters of one store."""

    def __init__(self, delays: Delays, delivery: DelayDelivery) -> None:
        """Bind to a store."""
        self._delays = delays
        self._delivery = delivery
        self._waiting = delays.waiting

    def page(
        self,
        *,
        topic: str | None,
        from_ms: int | None,
        to_ms: int | None,
        cursor: str | None,
        messages_max: int,
        wait: bool,
    ) -> DelayedPage:
        """List what waits by due time and number; see EngineControl.

        A page may be short, or empty, and still have a cursor. Raises InvalidArgument, and
        ColdRead when `wait` is false and the disk would have to be waited for.
        """
        if not 1 <= messages_max <= CARE_MESSAGES_MAX:
            raise InvalidArgument(f"a page has 1 to {CARE_MESSAGES_MAX} messages")
        after = _position(cursor) if cursor is not None else (-1, -1)
        start_ms = max(from_ms or 0, after[0])
        stop_ms = _NEVER if to_ms is None else to_ms
        places = None if topic is None else self._waiting.places.of_topic(topic)

        def chosen(rows: Rows) -> Rows:
            due_ms = rows["due_ms"]
            is_wanted = (due_ms >= start_ms) & (due_ms < stop_ms) & _is_behind(rows, after)
            if places is not None:
                is_wanted &= np.isin(rows["place"], places)
            return rows[is_wanted]

        # What is held back is delivered later than it is due.
        held_ms = self._delays.state.held_ms_max()
        few = None if held_ms or places is not None else 2 * messages_max
        in_memory = in_order(chosen(self._few(start_ms, stop_ms + held_ms, few, after)), "due_ms")
        parts = [in_memory[: messages_max + 1]]
        until = (_NEVER, _NEVER)
        for run in self._waiting.runs.values():
            first = max((start_ms, -1), after)
            rows, seen = self._of_run(run, first, stop_ms, messages_max, chosen, wait=wait)
            parts.append(rows)
            until = min(until, seen)
        found = in_order(joined(parts), "due_ms")
        # Behind this there may be messages of a run that was not read so far.
        found = found[~_is_behind(found, until)]
        rows = found[:messages_max]
        following = None if until[0] == _NEVER else _cursor(*until)
        if len(found) > messages_max:
            following = _cursor(int(rows["due_ms"][-1]), int(rows["number"][-1]))
        return DelayedPage(messages=self._messages(rows, wait=wait), cursor=following)

    def _few(self, start_ms: int, stop_ms: int, few: int | None, after: tuple[int, int]) -> Rows:
        """Return rows in memory that lie between two moments; at least the first `few` behind."""
        waiting = self._waiting.waiting
        if few is None or start_ms != after[0]:
            return waiting.between(start_ms, stop_ms, few)
        # Many may be due in the millisecond of the cursor.
        tied = waiting.between(start_ms, start_ms + 1)
        return joined([tied, waiting.between(start_ms + 1, stop_ms, few)])

    def _of_run(
        self,
        run: Run,
        first: tuple[int, int],
        stop_ms: int,
        messages_max: int,
        chosen: Callable[[Rows], Rows],
        *,
        wait: bool,
    ) -> tuple[Rows, tuple[int, int]]:
        """Return rows of a run that are not in memory, and up to which position that is all."""
        ends, numbers = run.last_due_ms, run.last_number
        is_before = (ends < first[0]) | (
            (run.first_due_ms == first[0]) & (ends == first[0]) & (numbers <= first[1])
        )
        start = max(run.cursor, int(is_before.sum()))
        stop = int(np.searchsorted(run.first_due_ms, stop_ms, side="left"))
        parts, count = [], 0
        for block in range(start, stop):
            rows = run.block(block, wait=wait)
            found = chosen(rows)
            found = found[~self._delays.state.is_done(found["number"], found["due_ms"])]
            parts.append(found)
            count += len(found)
            is_enough = count > messages_max or block - start == _BLOCKS_MAX
            if is_enough and block + 1 < stop:
                return joined(parts), (int(rows["due_ms"][-1]), int(rows["number"][-1]))
        return joined(parts), (_NEVER, _NEVER)

    def _messages(self, rows: Rows, *, wait: bool) -> tuple[DelayedMessage, ...]:
        """Return rows as they are shown; each is read, so this is a loop over a page."""
        fronts = self._waiting.fronts(rows, wait=wait)
        return tuple(self._message(row, *front) for row, front in zip(rows, fronts, strict=True))

    def _message(self, row: Rows, header: bytes, section: bytes) -> DelayedMessage:
        number, due_ms = int(row["number"]), int(row["due_ms"])
        topic, queue = self._waiting.places.place(int(row["place"]))
        properties = decode_properties(section)
        message_id = properties.get(UNIQ_KEY, "")
        epoch = self._waiting.epoch_of(number)
        handle = None
        if epoch is not None:
            handle = self._delays.handles.issue(
                topic=topic, due_ms=due_ms, message_id=message_id, number=number, epoch=epoch
            )
        return DelayedMessage(
            number=number,
            topic=topic,
            queue=queue,
            message_id=message_id,
            due_ms=due_ms,
            size_bytes=int(row["size_bytes"]),
            handle=handle,
            tag=properties.get(TAGS, ""),
            keys=properties.get(KEYS, ""),
            born_time_ms=int(np.frombuffer(header, dtype=RECORD_HEADER)["born_time_ms"][0]),
        )

    def status(self) -> DelayStatus:
        """Return the counters; what is in runs counts a block of up to 1,024 as its last one."""
        delivery, waiting = self._delivery, self._waiting
        now_ms = self._delays.now_ms()
        moments = now_ms + 1000 * np.array(_BUCKETS_S, dtype=np.int64)
        counts = waiting.waiting.counts(moments)
        for run in waiting.runs.values():
            counts += _counts(run, moments)
        pending = len(waiting)
        within = np.diff(np.concatenate(([0], counts, [pending])))
        return DelayStatus(
            pending=pending,
            delivered=delivery.delivered,
            cancelled=delivery.cancelled,
            sent_now=delivery.sent_now,
            without_topic=delivery.without_topic.total(),
            next_due_ms=waiting.next_ms if pending else None,
            late_ms=delivery.late_ms,
            clock_held_ms=self._delays.state.held_ms_max(),
            histogram=tuple(zip((*_BUCKETS_S, None), within.tolist(), strict=True)),
        )


def _counts(run: Run, moments_ms: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many of a run are not in memory and due at each moment or before: int64[n]."""
    left = np.cumsum((run.counts - run.dead)[run.cursor :])
    blocks = np.searchsorted(run.last_due_ms[run.cursor :], moments_ms, side="right")
    found: NDArray[np.int64] = np.concatenate(([0], left))[blocks]
    return found


def _is_behind(rows: Rows, position: tuple[int, int]) -> NDArray[np.bool_]:
    due_ms, numbers = rows["due_ms"], rows["number"]
    found: NDArray[np.bool_] = (due_ms > position[0]) | (
        (due_ms == position[0]) & (numbers > position[1])
    )
    return found


def _cursor(due_ms: int, number: int) -> str:
    return f"{due_ms}-{number}"


def _position(cursor: str) -> tuple[int, int]:
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise InvalidArgument("the cursor is none of this list")
    return int(match[1]), int(match[2])
