"""How much room the disk has, and whether sends may use it. Knows figures; no files, no frames.

Three limits, and sends stop at the first that is met: a reserve in bytes, a mark in percent, and
what the system says when a segment is asked for, which knows of quotas. What the engine writes
itself - acknowledgements, offsets, locks - is bound by the last alone.
"""

import logging
import threading

from apps.engine.clock import Clock
from apps.engine.errors import StoreFull
from apps.engine.files.backend import Disk
from apps.engine.types import RoomState

_log = logging.getLogger(__name__)

# Reading the free space is a system call; so long one reading serves all appends.
_READING_AGE_MS_MAX = 100
# A segment the system refused is asked for again after this; so long nobody else asks.
_ASK_AGAIN_MS = 1_000
# A disk at its limit would be full and not full by turns: room counts as back when it is a little
# more than was missing.
_PERCENT_BACK = 1.0
_RESERVE_SHARE_BACK = 8
# From here on an operator should look.
_LOW_SEGMENTS = 2
_LOW_PERCENT = 5.0


class Room:
    """The disk's room as appends see it. `state` and `reason` are the last reading's.

    `look` and `may_extend` may be called from threads.
    """

    def __init__(
        self,
        disk: Disk,
        *,
        reserve_bytes: int,
        disk_percent_max: int,
        segment_bytes: int,
        clock: Clock,
    ) -> None:
        """Keep `reserve_bytes` from sends, and all of the disk above `disk_percent_max` percent."""
        self.reserve_bytes = reserve_bytes
        self.state = RoomState.OK
        self.reason = ""
        self._disk = disk
        self._percent_max = disk_percent_max
        self._segment_bytes = segment_bytes
        self._clock = clock
        self._mutex = threading.Lock()
        self._free_bytes = 0
        self._total_bytes = 0
        self._read_ms: int | None = None
        self._shortage = ""
        self._denial = ""
        self._asked_ms: int | None = None

    @property
    def is_denied(self) -> bool:
        """Say whether the last segment that an append needed could not be had."""
        return bool(self._denial)

    def check(self) -> None:
        """Raise StoreFull when clients may write nothing. Reads the disk at most every 100 ms."""
        read_ms = self._read_ms
        if read_ms is None or self._clock.monotonic_ms() - read_ms >= _READING_AGE_MS_MAX:
            self.look()
        if self._shortage:
            raise StoreFull(self._shortage)

    def look(self) -> None:
        """Read the disk, and log when sends begin to be refused or to be taken."""
        free_bytes, total_bytes = self._disk.free_bytes(), self._disk.total_bytes()
        with self._mutex:
            self._free_bytes, self._total_bytes = free_bytes, total_bytes
            self._read_ms = self._clock.monotonic_ms()
            self._shortage = self._missing(0, is_back=bool(self._shortage))
            self._settle()

    def may_extend(self, *, is_internal: bool) -> None:
        """Raise StoreFull unless the system may be asked for a segment, now."""
        asked_ms = self._asked_ms
        if asked_ms is not None and self._clock.monotonic_ms() - asked_ms < _ASK_AGAIN_MS:
            raise StoreFull(self._denial)
        if is_internal:
            return
        self.look()
        shortage = self._shortage or self._missing(self._segment_bytes, is_back=False)
        if shortage:
            raise StoreFull(shortage)

    def denied(self, refusal: StoreFull, *, was_asked: bool) -> None:
        """Take note that an append lacks a segment; `was_asked` says that the system refused it."""
        with self._mutex:
            self._denial = str(refusal)
            if was_asked:
                self._asked_ms = self._clock.monotonic_ms()
            self._settle()

    def granted(self) -> None:
        """Take note that there is another segment."""
        if self._denial:
            with self._mutex:
                self._denial, self._asked_ms = "", None
                self._settle()

    def _missing(self, needed_bytes: int, *, is_back: bool) -> str:
        """Return what keeps clients from using so many bytes more; empty where nothing does.

        With `is_back` they were kept from it, and there must be a little more.
        """
        free_bytes = self._free_bytes - needed_bytes
        reserve_bytes = self.reserve_bytes
        percent_max = float(self._percent_max)
        if is_back:
            reserve_bytes += reserve_bytes // _RESERVE_SHARE_BACK
            percent_max -= _PERCENT_BACK
        if free_bytes < reserve_bytes:
            return (
                f"{self._free_bytes} bytes are free, {self.reserve_bytes} are kept in reserve"
                + (f", a segment takes {needed_bytes}" if needed_bytes else "")
            )
        if self._percent(free_bytes) > percent_max and self._percent_max < 100:
            return (
                f"{self._percent(self._free_bytes):.1f} % of the disk are used, "
                f"sends stop at {self._percent_max} %"
                + (f", a segment takes {needed_bytes} bytes" if needed_bytes else "")
            )
        return ""

    def _percent(self, free_bytes: int) -> float:
        return 100.0 * (1.0 - free_bytes / self._total_bytes) if self._total_bytes else 0.0

    def _settle(self) -> None:
        """Take over what is known as the state, and say so where sends begin or cease to stop."""
        before = self.state
        self.reason = self._shortage or self._denial
        if self.reason:
            self.state = RoomState.FULL
        else:
            low_bytes = self.reserve_bytes + _LOW_SEGMENTS * self._segment_bytes
            is_near_mark = (
                self._percent_max < 100
                and self._percent(self._free_bytes) > self._percent_max - _LOW_PERCENT
            )
            is_low = self._free_bytes < low_bytes or is_near_mark
            self.state = RoomState.LOW if is_low else RoomState.OK
        if (self.state is RoomState.FULL) == (before is RoomState.FULL):
            return
        if self.state is RoomState.FULL:
            _log.warning("disk_full", extra={"reason": self.reason})
        else:
            _log.info("disk_has_room", extra={"free_bytes": self._free_bytes})
