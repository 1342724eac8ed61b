"""The beginning of a log, and how it moves on: first written down, then unlinked.

Knows segments and the file that says where the log starts; not who needs what. Any step may be
the last before a crash: the file decides where the log starts, and `sweep` unlinks whatever is left
below, however often it is repeated and in whatever order the disk forgets names.
"""

from collections.abc import Callable

from apps.engine.codec.frame import BadFrame, decode_frame_header
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk, File
from apps.engine.files.refusals import write_refusal
from apps.engine.files.segments import Segments
from apps.engine.log.pins import Pins
from apps.engine.log.retained import Retained, store_retained
from apps.engine.log.tail import header_at


class LogFront:
    """The front of one open log."""

    def __init__(self, disk: Disk, segments: Segments, *, failpoints: Failpoints) -> None:
        """Bind to an open log's segments."""
        self.pins = Pins()
        self._disk = disk
        self._segments = segments
        self._failpoints = failpoints
        self._first_ms: dict[int, int] = {}

    @property
    def log_start(self) -> int:
        """Return the log offset of the first byte that is kept."""
        return self._segments.start

    @property
    def segment_bytes(self) -> int:
        """Return the size of a segment."""
        return self._segments.segment_bytes

    def base(self, log_offset: int) -> int:
        """Return where the segment that holds `log_offset` begins."""
        return self._segments.base(log_offset)

    def bases(self, end: int) -> list[int]:
        """Return where the segments begin that lie wholly before the one that holds `end`."""
        return list(range(self.log_start, self.base(end), self.segment_bytes))

    def first_ms(self, base: int) -> int | None:
        """Return when the first message of a segment was stored, wall time; None without any.

        May wait for the disk once for each segment; for a thread. The segment must be there.
        """
        known = self._first_ms.get(base)
        if known is None:
            try:
                header = decode_frame_header(header_at(self._segments, base), log_offset=base)
            except BadFrame:
                return None
            known = self._first_ms[base] = header.store_time_ms
        return known

    def known_first_ms(self, base: int) -> int | None:
        """Return the same without looking at the disk; None where `first_ms` was not asked."""
        return self._first_ms.get(base)

    # --- moving on, in this order --------------------------------------------------------------

    def store_start(self, retained: Retained) -> None:
        """Write down where the log starts from now on; on the disk when this returns.

        For a thread. Nobody may begin to read below any more. Raises StoreFull, WriteFailed or
        SyncFailed; where the log starts after a crash is then unknown, and both are right.
        """
        self._pass("retention.before_start")
        store_retained(self._disk, retained, failpoints=self._failpoints)
        self._pass("retention.after_start")

    def give_up(self, log_start: int) -> list[File]:
        """Begin at `log_start` in memory; return the files to close, once nobody reads below."""
        for base in [base for base in self._first_ms if base < log_start]:
            del self._first_ms[base]
        return self._segments.give_up(log_start)

    def sweep(self, needed_from: Callable[[], int | None]) -> int:
        """Unlink what lies below the start, oldest first; return how many segments that were.

        For a thread. `needed_from` is asked after the start is on the disk: from there on a reader
        of another process has a lease, which keeps files from that one on. Raises SyncFailed.
        """
        leased = needed_from()
        gone = [
            base
            for base in self._segments.given_up()
            if leased is None or base + self.segment_bytes <= leased
        ]
        for base in gone:
            self._pass("retention.before_unlink")
            self._segments.unlink(base)
            self._pass("retention.after_unlink")
        if gone:
            self._segments.settle_names()
        return len(gone)

    def _pass(self, name: str) -> None:
        try:
            self._failpoints.hit(name)
        except OSError as error:
            raise write_refusal(error, "cannot delete segments") from error
