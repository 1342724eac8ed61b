"""Which messages with a delay of their own wait no more, and by how much the clock jumped.

Knows numbers and milliseconds; no log, no files and no clock. What is delivered in order of due
times need not be kept one by one: one number and one due time say it of all below (`settle`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.careevents import TimerDone, TimerEvent
from apps.engine.broker.eventbytes import offsets_of, runs_of
from apps.engine.delaytypes import Recall

# How long after its due time it is known whether a message was delivered or cancelled.
REMEMBERED_MS = 24 * 3_600_000
# Jumps that are told apart; of more, the oldest two count as one.
_JUMPS_MAX = 64
_NONE = np.empty(0, dtype=np.int64)


class TimerState:
    """Ends of messages by number, and the clock's jumps.

    `bands` are (end, due): all messages of a band, up to its end and from that of the one before,
    have ended that are due then or before. There is more than one after the clock jumped, since
    what came before a jump is delivered later. `delivered` are others that were delivered in order:
    for each step the last due time, and the numbers. `early` and `cancelled` have the due times of
    those that ended before their time.
    """

    def __init__(self) -> None:
        """Start with none."""
        self.bands: list[tuple[int, int]] = [(0, -1)]
        self.delivered: list[tuple[int, NDArray[np.int64]]] = []
        self.early: dict[int, int] = {}
        self.cancelled: dict[int, int] = {}
        self.jumps: list[tuple[int, int, int]] = []

    def apply(self, event: TimerEvent) -> None:
        """Carry out an event."""
        if not isinstance(event, TimerDone):
            self.jumps.append((event.number, event.log_offset, event.jump_ms))
            if len(self.jumps) > _JUMPS_MAX:
                # Nothing is held back for less than it was.
                (_, _, first_ms), (number, log_offset, second_ms) = self.jumps[:2]
                self.jumps[:2] = [(number, log_offset, max(second_ms, first_ms + second_ms))]
            return
        numbers = offsets_of(event.runs)
        if event.outcome is Recall.CANCELLED:
            self.cancelled.update(dict.fromkeys(numbers.tolist(), event.due_ms))
        elif event.is_early:
            self.early.update(dict.fromkeys(numbers.tolist(), event.due_ms))
        else:
            self.delivered.append((event.due_ms, numbers))

    # --- what has ended ------------------------------------------------------------------------

    @property
    def floor_number(self) -> int:
        """Return the end of the last band."""
        return self.bands[-1][0]

    @property
    def floor_due_ms(self) -> int:
        """Return the due time up to which all messages of all bands have ended."""
        return min(due_ms for _, due_ms in self.bands)

    def settle(self, number: int, now_ms: int) -> None:
        """Note that all messages below `number` have ended that may be delivered by `now_ms`."""
        last_number, last_ms = self.bands[-1]
        jumped_at = self.jumps[-1][0] if self.jumps else 0
        is_closed = last_number <= jumped_at
        if not is_closed and (number < last_number or now_ms < last_ms):
            # The clock went back a little; what was said before is still true.
            return
        if len(self.bands) > 1 or self.jumps:
            by_then_ms = now_ms - self.held_ms_max()
            closed = self.bands if is_closed else self.bands[:-1]
            bands = [(end, max(due_ms, by_then_ms)) for end, due_ms in closed]
            if jumped_at > bands[-1][0] if bands else jumped_at > 0:
                bands.append((jumped_at, by_then_ms))
            if number > jumped_at:
                bands.append((number, now_ms))
            # Of neighbours that say the same the last one speaks for both.
            following = [*bands[1:], (-1, -1)]
            self.bands = [
                band for band, after in zip(bands, following, strict=True) if band[1] != after[1]
            ]
        else:
            self.bands = [(number, now_ms)]
        if self.delivered:
            self.delivered = [
                (last_ms, numbers)
                for last_ms, numbers in self.delivered
                if not self._is_below(numbers, np.full(len(numbers), last_ms)).all()
            ]

    def _is_below(self, numbers: NDArray[np.int64], due_ms: NDArray[np.int64]) -> NDArray[np.bool_]:
        ends = np.array([end for end, _ in self.bands] + [1 << 62])
        dues = np.array([due for _, due in self.bands] + [-1])
        below: NDArray[np.bool_] = due_ms <= dues[np.searchsorted(ends, numbers, side="right")]
        return below

    def is_done(self, numbers: NDArray[np.int64], due_ms: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of each message whether it waits no more: bool[n]."""
        done = self._is_below(numbers, due_ms)
        for ended in (self.early, self.cancelled):
            if ended:
                done |= np.isin(numbers, np.fromiter(ended, dtype=np.int64))
        if self.delivered:
            known = np.concatenate([found for _, found in self.delivered])
            done |= np.isin(numbers, known)
        return done

    def end_of(self, number: int, due_ms: int) -> Recall | None:
        """Return how a message ended; None for one that waits. Old ones are UNKNOWN."""
        one = np.array([number])
        if self._is_below(one, np.array([due_ms + REMEMBERED_MS]))[0]:
            return Recall.UNKNOWN
        if number in self.cancelled:
            return Recall.CANCELLED
        is_delivered = number in self.early or self._is_below(one, np.array([due_ms]))[0]
        if is_delivered or any((found == number).any() for _, found in self.delivered):
            return Recall.DELIVERED
        return None

    def delivered_until_ms(self) -> int:
        """Return the due time of the last that was delivered in order, as far as known."""
        return max(
            due_ms for due_ms in (*(d for _, d in self.bands), *(d for d, _ in self.delivered))
        )

    def apart_due_ms(self) -> NDArray[np.int64]:
        """Return the due times, ascending, of those that ended before their time."""
        return np.sort(np.array([*self.early.values(), *self.cancelled.values()], dtype=np.int64))

    def frozen(self) -> "TimerState":
        """Return a copy that does not change, for a thread."""
        copy = TimerState()
        copy.bands = list(self.bands)
        copy.delivered, copy.jumps = list(self.delivered), list(self.jumps)
        copy.early, copy.cancelled = dict(self.early), dict(self.cancelled)
        return copy

    def _forget(self) -> None:
        """Drop what the floor says as well: early ones below it, cancelled ones a day below."""

        def kept(ended: dict[int, int], after_ms: int) -> dict[int, int]:
            if not ended:
                return ended
            numbers = np.fromiter(ended.keys(), dtype=np.int64)
            dues = np.fromiter(ended.values(), dtype=np.int64)
            is_kept = ~self._is_below(numbers, dues + after_ms)
            return dict(zip(numbers[is_kept].tolist(), dues[is_kept].tolist(), strict=True))

        self.early = kept(self.early, 0)
        self.cancelled = kept(self.cancelled, REMEMBERED_MS)

    # --- the clock -----------------------------------------------------------------------------

    def held_ms(self, log_offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return by how much records at these log offsets are held back: int64[n]."""
        return _held(log_offsets, [(end, jump_ms) for _, end, jump_ms in self.jumps])

    def held_ms_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return by how much messages with these numbers are held back: int64[n]."""
        return _held(numbers, [(end, jump_ms) for end, _, jump_ms in self.jumps])

    def held_ms_max(self) -> int:
        """Return by how much anything is held back at most."""
        total_ms = most_ms = 0
        for _, _, jump_ms in reversed(self.jumps):
            total_ms += jump_ms
            most_ms = max(most_ms, total_ms)
        return most_ms

    def forget_jumps(self, number: int, log_offset: int) -> None:
        """Forget the jumps before which nothing was accepted that still waits.

        All that waits has `number` or a higher one, and lies at `log_offset` or behind.
        """
        while self.jumps and self.jumps[0][0] <= number and self.jumps[0][1] <= log_offset:
            del self.jumps[0]

    # --- checkpoints ---------------------------------------------------------------------------

    def dump(self) -> dict[str, object]:
        """Return everything as plain values, for the checkpoint."""
        self._forget()
        return {
            "bands": [list(band) for band in self.bands],
            "delivered": [[last_ms, runs_of(found).tolist()] for last_ms, found in self.delivered],
            "early": _pairs(self.early),
            "cancelled": _pairs(self.cancelled),
            "jumps": [list(jump) for jump in self.jumps],
        }

    def load(self, content: dict[str, Any]) -> None:
        """Take up what `dump` gave. Raises KeyError, TypeError or ValueError for anything else."""
        self.bands = [(int(end), int(due_ms)) for end, due_ms in content["bands"]] or [(0, -1)]
        self.delivered = [
            (int(last_ms), offsets_of(np.array(runs, dtype=np.int64).reshape(-1, 2)))
            for last_ms, runs in content["delivered"]
        ]
        self.early = {int(number): int(due_ms) for number, due_ms in content["early"]}
        self.cancelled = {int(number): int(due_ms) for number, due_ms in content["cancelled"]}
        self.jumps = [(int(a), int(b), int(c)) for a, b, c in content["jumps"]]


def _held(values: NDArray[np.int64], jumps: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Add up the jumps that came after each value; what the clock gave back is not held."""
    total_ms = np.zeros(len(values), dtype=np.int64)
    for end, jump_ms in jumps:
        total_ms[values < end] += jump_ms
    return np.maximum(total_ms, 0)


def _pairs(ended: dict[int, int]) -> list[list[int]]:
    return [[number, due_ms] for number, due_ms in ended.items()]
