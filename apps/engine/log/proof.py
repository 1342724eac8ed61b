"""What of the log is proven to be what was written, since it was opened. Knows frames, no queues.

Everything that was verified when the log was opened or written since counts as proven. The rest is
proven when it is first read, a stretch of frames at a time and in a thread: the checksum of a frame
covers all of it, and a record alone cannot prove its properties.
"""

import threading
from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from apps.engine.files.backend import NotCached
from apps.engine.files.segments import Segments
from apps.engine.log.damage import starts_before
from apps.engine.log.quarantine import Quarantine, unreadable
from apps.engine.log.walking import walk
from apps.engine.types import QuarantinedRange

# What is read ahead of what was asked for: reading on in the log must not prove frame by frame.
STRETCH_BYTES = 1 << 20


class Proof:
    """Proven stretches of one log. `prove` may run in several threads, one waits for the other."""

    def __init__(
        self, segments: Segments, *, store_id: bytes, quarantine: Quarantine, proven_from: int
    ) -> None:
        """Start with what was verified or will be written: `proven_from` and all behind it."""
        self.proven_from = proven_from
        self.proven_bytes = 0
        self._segments = segments
        self._store_id = store_id
        self._quarantine = quarantine
        self._mutex = threading.Lock()
        # Starts and ends of stretches, ascending; replaced whole, so that readers need no lock.
        self._stretches: tuple[list[int], list[int]] = ([], [])
        self._found: tuple[QuarantinedRange, ...] = ()

    def check(
        self, log_offsets: NDArray[np.int64], sizes: NDArray[np.int32], *, wait: bool
    ) -> None:
        """Return when the records are proven.

        Raises Unreadable where some are damaged, and NotCached where `wait` is false and not all
        were proven before.
        """
        first, stop = int(log_offsets.min()), int((log_offsets + sizes).max())
        if not self._has(first, stop):
            spans = zip(log_offsets.tolist(), (log_offsets + sizes).tolist(), strict=True)
            for start, end in spans:  # Apart in the log: each is in a stretch of its own.
                while start < end and not self._has(start, end):
                    if not wait:
                        raise NotCached(f"the log at {start} is not proven")
                    start = max(start, self.prove(start, end))
        self._refuse_bad(log_offsets, sizes, first, stop)

    def _refuse_bad(
        self, log_offsets: NDArray[np.int64], sizes: NDArray[np.int32], first: int, stop: int
    ) -> None:
        known = [*self._quarantine.touching(first, stop)]
        known += [one for one in self._found if one.log_offset < stop and first < one.end]
        bad = [
            one
            for one in known
            if ((log_offsets < one.end) & (log_offsets + sizes > one.log_offset)).any()
        ]
        if bad:
            raise unreadable(bad)

    def prove(self, log_offset: int, stop: int) -> int:
        """Verify the frames from the one that has `log_offset` to `stop` and a stretch further.

        Returns where the proven stretch ends; what is damaged in it is told by `check`. For a
        thread: a megabyte takes 1 to 3 ms where it is cached, far longer where each message is a
        frame of its own.
        """
        with self._mutex:
            at = self._end_of(log_offset)
            return at if at >= stop else self._walk(max(log_offset, at), stop)

    def examine(self, log_offset: int, *, stop: int) -> list[QuarantinedRange]:
        """Verify the frame that has `log_offset` whatever was proven before; return what is bad."""
        with self._mutex:
            found, _, _ = self._walked(log_offset, min(log_offset + 1, stop))
        return [one for one in found if one.log_offset <= log_offset < one.end]

    def _walk(self, log_offset: int, stop: int) -> int:
        border = self._segments.base(log_offset) + self._segments.segment_bytes
        goal = min(max(stop, log_offset + STRETCH_BYTES), border, self.proven_from)
        found, start, end = self._walked(log_offset, goal)
        self._found += tuple(found)
        self._add(start, max(end, goal))
        self.proven_bytes += end - start
        return max(end, goal)

    def _walked(self, log_offset: int, goal: int) -> tuple[list[QuarantinedRange], int, int]:
        """Walk from a frame at or before `log_offset`; return what is bad, and from where to where.

        A start that was found by its bytes may be a forgery in a body: what seems damaged from
        there must seem so from the segment's own start, too.
        """
        base = self._segments.base(log_offset)
        known = self._start_at(log_offset)
        starts = starts_before(self._segments, log_offset, store_id=self._store_id)
        start = next(starts) if known is None else known
        while True:
            found: list[QuarantinedRange] = []
            end = start
            for frame in walk(
                self._segments,
                start=start,
                stop=goal,
                store_id=self._store_id,
                quarantine=self._quarantine,
                found=found.append,
            ):
                end = frame.end
            if not found or start == base or known is not None:
                return found, start, end
            start = base

    def _start_at(self, log_offset: int) -> int | None:
        """Return the end of a proven stretch right before a place: a frame starts there."""
        starts, ends = self._stretches
        at = bisect_right(starts, log_offset) - 1
        if at >= 0 and log_offset - STRETCH_BYTES <= ends[at] <= log_offset:
            is_same = self._segments.base(ends[at]) == self._segments.base(log_offset)
            return ends[at] if is_same else None
        return None

    def _has(self, start: int, stop: int) -> bool:
        return start >= self.proven_from or self._end_of(start) >= min(stop, self.proven_from)

    def _end_of(self, log_offset: int) -> int:
        """Return where the stretch that has a place ends; the place itself where none has it."""
        if log_offset >= self.proven_from:
            return self._segments.end
        starts, ends = self._stretches
        at = bisect_right(starts, log_offset) - 1
        return max(ends[at], log_offset) if at >= 0 else log_offset

    def _add(self, start: int, end: int) -> None:
        starts, ends = self._stretches
        keep = [i for i in range(len(starts)) if ends[i] < start or starts[i] > end]
        gone = [i for i in range(len(starts)) if not (ends[i] < start or starts[i] > end)]
        start = min([start, *(starts[i] for i in gone)])
        end = max([end, *(ends[i] for i in gone)])
        pairs = sorted([*((starts[i], ends[i]) for i in keep), (start, end)])
        self._stretches = ([pair[0] for pair in pairs], [pair[1] for pair in pairs])

    def settled(self) -> None:
        """Forget what was found: it is in quarantine now."""
        known = self._quarantine
        with self._mutex:
            self._found = tuple(
                one for one in self._found if not known.touching(one.log_offset, one.end)
            )
