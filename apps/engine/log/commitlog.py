"""The commit log: frames of records in the order they came, and how far they are on the disk.

Knows frames, segments and syncs; nothing of topics, queues or who waits. `append`, `begin_sync`,
`finish_sync` and `commit_pool` belong to one thread; `SyncTicket.run`, `create_ahead`, `checkpoint`
and reading records may happen in others.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from apps.engine.clock import Clock
from apps.engine.codec.frame import FrameHeader, frame_header_bytes
from apps.engine.codec.ids import host_bytes
from apps.engine.codec.layout import FILLER_BYTES
from apps.engine.config import EngineConfig
from apps.engine.errors import (
    BatchTooLarge,
    Busy,
    Damaged,
    EngineError,
    StoreDamaged,
    StoreFull,
    SyncFailed,
    WriteFailed,
)
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk
from apps.engine.files.refusals import write_refusal
from apps.engine.files.segments import Segments
from apps.engine.log import opening
from apps.engine.log.assembly import RecordRun, assemble, filler, sizes_of
from apps.engine.log.checkpoint import LogCheckpoint, store_checkpoint
from apps.engine.log.front import LogFront
from apps.engine.log.gather import gather
from apps.engine.log.held import HeldBytes
from apps.engine.log.marks import Marks
from apps.engine.log.opening import Beside, OpenedLog, at_once
from apps.engine.log.pool import Pool
from apps.engine.log.proof import Proof
from apps.engine.log.quarantine import Quarantine
from apps.engine.log.room import Room
from apps.engine.log.syncticket import SyncTicket
from apps.engine.log.tail import FRAME_RECORDS_MAX, Frame
from apps.engine.log.walking import stretches
from apps.engine.log.warmth import Warmth
from apps.engine.types import QuarantinedRange, RecoveryReport

# The share of a segment that sends leave to the engine's own frames when no other can be made.
_OWN_SHARE = 8

__all__ = ["AppendedFrame", "CommitLog", "RecordRun"]


# Not frozen: one is made for every write, and freezing a class triples what making one costs.
@dataclass(slots=True, kw_only=True)
class AppendedFrame:
    """Where a frame went. `run_log_offsets` has the first record of each run, in order."""

    log_offset: int
    end: int
    run_log_offsets: list[int]
    store_time_ms: int


class CommitLog:
    """An open log. `open` makes or recovers it; the caller holds the store's lock."""

    def __init__(
        self,
        disk: Disk,
        opened: OpenedLog,
        *,
        config: EngineConfig,
        clock: Clock,
        failpoints: Failpoints,
    ) -> None:
        """Go on where recovery ended; use `open`."""
        self.epoch: int = opened.recovery.epoch
        self.store_id: str = opened.store_id.hex()
        self.recovery: RecoveryReport = opened.recovery
        self._settled = opened.settled
        self.written_offset: int = opened.recovery.log_end
        self.synced_offset: int = opened.recovery.log_end
        self._disk = disk
        self._segments: Segments = opened.segments
        self._pool: Pool | None = None
        if config.flush_pool_bytes:
            self._pool = Pool(opened.segments, pool_bytes=config.flush_pool_bytes)
        # Where frames are written to, and read from.
        self._bytes: Segments | Pool = self._pool or opened.segments
        self.front = LogFront(disk, opened.segments, failpoints=failpoints)
        self.checkpointed_offset: int = opened.recovery.log_end
        self._clock = clock
        self._failpoints = failpoints
        self._store_id = opened.store_id
        self._store_time_ms = opened.store_time_ms
        self._store_host = host_bytes(config.store_host, config.store_port)
        self.held = HeldBytes(bytes_max=config.answers_bytes_max)
        self.room = Room(
            disk,
            reserve_bytes=config.reserve_bytes,
            disk_percent_max=config.disk_percent_max,
            segment_bytes=opened.segments.segment_bytes,
            clock=clock,
        )
        self.warmth = Warmth(opened.segments, log_offset=opened.recovery.log_end)
        self._ticket: SyncTicket | None = None
        self._failure: Damaged | None = None
        self._ahead_of = 0
        self.marks = Marks()
        self.quarantine: Quarantine = opened.quarantine
        self._proof = Proof(
            opened.segments,
            store_id=opened.store_id,
            quarantine=opened.quarantine,
            proven_from=opened.scanned_from,
        )

    @classmethod
    def open(
        cls,
        disk: Disk,
        *,
        config: EngineConfig,
        clock: Clock,
        failpoints: Failpoints | None = None,
        beside: Beside = at_once,
    ) -> Self:
        """Make the log, or recover it.

        With another `beside` only reading is allowed before `settle`. Raises StoreDamaged,
        ForeignSegment or UnknownFormat with nothing changed on the disk; StoreFull, WriteFailed or
        SyncFailed, after which it may be tried again.
        """
        failpoints = failpoints or Failpoints()
        opened = opening.open_log(
            disk,
            segment_bytes=config.segment_bytes,
            clock=clock,
            failpoints=failpoints,
            beside=beside,
        )
        return cls(disk, opened, config=config, clock=clock, failpoints=failpoints)

    def settle(self) -> None:
        """Return when the disk has the log as it was found, and where it ends.

        Raises StoreFull, WriteFailed or SyncFailed, with the files closed.
        """
        try:
            self._settled()
        except EngineError:
            self._segments.close()
            raise

    @property
    def log_start(self) -> int:
        """Return the log offset of the first byte that is kept."""
        return self._segments.start

    # --- writing -------------------------------------------------------------------------------

    def append(self, runs: Sequence[RecordRun], *, is_internal: bool = False) -> AppendedFrame:
        """Stamp the runs and write them as one frame, in one write.

        An internal frame may use the reserve, on the disk and in the last segment. Raises
        BatchTooLarge, or StoreFull with the log as it was, or WriteFailed, after which every append
        fails.
        """
        if self._failure is not None:
            raise type(self._failure)(f"the log failed: {self._failure}") from self._failure
        sizes = sizes_of(runs)
        count, payload_bytes = len(sizes), 0
        for run in runs:
            payload_bytes += len(run.payload)
        frame_bytes = frame_header_bytes(count) + payload_bytes
        if count > FRAME_RECORDS_MAX:
            raise BatchTooLarge(f"a frame is at most {FRAME_RECORDS_MAX} records, not {count}")
        if frame_bytes + FILLER_BYTES > self._segments.segment_bytes:
            raise BatchTooLarge(
                f"a frame of {frame_bytes} bytes does not fit a segment of "
                f"{self._segments.segment_bytes}"
            )
        try:
            log_offset = self._place(frame_bytes, is_internal=is_internal)
            header = FrameHeader(
                epoch=self.epoch,
                log_offset=log_offset,
                synced_log_offset=self.synced_offset,
                store_time_ms=max(self._clock.wall_ms(), self._store_time_ms),
                store_id=self._store_id,
                sizes=sizes,
                payload_bytes=payload_bytes,
                payload_crc=0,
            )
            return self._write(runs, header, log_offset + frame_bytes)
        except Damaged as error:
            self._failure = error
            raise

    def _place(self, frame_bytes: int, *, is_internal: bool) -> int:
        """Return where a frame goes, in a segment that has room for it. Raises StoreFull."""
        log_offset = self.written_offset
        if not is_internal:
            self.room.check()
        left = self._segments.segment_bytes - log_offset % self._segments.segment_bytes
        if frame_bytes + FILLER_BYTES > left:
            self._roll(left, is_internal=is_internal)
            log_offset += left
        elif not is_internal and self._segments.end - log_offset - frame_bytes < self._own_bytes:
            self._extend(self._segments.end + 1, is_internal=False)
        return log_offset

    def _write(self, runs: Sequence[RecordRun], header: FrameHeader, end: int) -> AppendedFrame:
        buffers, run_log_offsets = assemble(
            runs, header, store_host=self._store_host, marks=self.marks
        )
        log_offset, store_time_ms = header.log_offset, header.store_time_ms
        has_failpoints = self._failpoints.is_planned
        if has_failpoints:
            self._pass("log.before_write")
        self._bytes.write(log_offset, buffers)
        if has_failpoints:
            self._pass("log.after_write", is_written=True)
        self._store_time_ms = store_time_ms
        self.written_offset = end
        return AppendedFrame(
            log_offset=log_offset,
            end=end,
            run_log_offsets=run_log_offsets,
            store_time_ms=store_time_ms,
        )

    def _roll(self, left: int, *, is_internal: bool) -> None:
        """Close the segment with a filler. The next one is made first: that may find no room."""
        self._pass("log.before_roll")
        next_end = self.written_offset + left + self._segments.segment_bytes
        if self._segments.end < next_end:
            self._extend(next_end, is_internal=is_internal)
        self._bytes.write(self.written_offset, [filler(left)])
        self._pass("log.after_roll")

    @property
    def _own_bytes(self) -> int:
        """Return how much of what is allocated sends leave to the engine's own frames.

        Room on the disk is of no use to them where it is less than a segment.
        """
        return min(self.room.reserve_bytes, self._segments.segment_bytes // _OWN_SHARE)

    def _extend(self, end: int, *, is_internal: bool) -> None:
        was_asked = False
        try:
            self.room.may_extend(is_internal=is_internal)
            was_asked = True
            self._segments.extend(end)
        except StoreFull as refusal:
            self.room.denied(refusal, was_asked=was_asked)
            raise
        self.room.granted()

    def _pass(self, name: str, *, is_written: bool = False) -> None:
        try:
            self._failpoints.hit(name)
        except OSError as error:
            refusal = write_refusal(error, "cannot write the log")
            # A whole frame is on the disk: "full" would promise that it is not.
            raise (WriteFailed(str(refusal)) if is_written else refusal) from error

    @property
    def wants_segment(self) -> bool:
        """Say whether the last segment is half full and `create_ahead` was not called for it."""
        end = self._segments.end
        left = end - self.written_offset
        return left < self._segments.segment_bytes // 2 and end != self._ahead_of

    def create_ahead(self) -> None:
        """Make the next segment before an append must wait for it; for a thread.

        Does nothing where the room for it is in the reserve, or files cannot be opened. Raises
        WriteFailed or SyncFailed.
        """
        self._ahead_of = self._segments.end
        try:
            self.room.may_extend(is_internal=False)
            self._segments.extend(self._segments.end + 1)
            self.room.granted()
        except Busy:
            # The append that needs the segment asks again and tells its client.
            return
        except Damaged as error:
            self._failure = error
            raise

    # --- the pool ------------------------------------------------------------------------------

    @property
    def pooled_bytes(self) -> int:
        """Return how much of what is written lies in the pool alone."""
        return 0 if self._pool is None else self._pool.pooled_bytes

    @property
    def pool_commits(self) -> int:
        """Return how many writes the pool has made of what was written."""
        return 0 if self._pool is None else self._pool.commit_count

    def commit_pool(self) -> None:
        """Give the system what the pool has gathered. Raises WriteFailed, as `append` does then."""
        if self._pool is None:
            return
        try:
            self._pool.commit()
        except Damaged as error:
            self._failure = error
            raise

    # --- syncing -------------------------------------------------------------------------------

    def begin_sync(self) -> SyncTicket | None:
        """Return what would bring all that is written to the disk; None when it is there.

        Only one at a time. Raises SyncFailed when a sync failed before.
        """
        assert self._ticket is None, "a sync is under way"
        if isinstance(self._failure, SyncFailed):
            raise SyncFailed("a sync failed before") from self._failure
        if self.synced_offset == self.written_offset:
            return None
        self.commit_pool()
        files = self._segments.files(self.synced_offset, self.written_offset)
        self._ticket = SyncTicket(self.written_offset, files, self._failpoints)
        return self._ticket

    def finish_sync(self, ticket: SyncTicket) -> None:
        """Take over the outcome of a ticket that was run. Raises SyncFailed when it failed."""
        assert ticket is self._ticket
        assert ticket.is_done or ticket.failure is not None
        self._ticket = None
        if ticket.failure is not None:
            self._failure = ticket.failure
            raise ticket.failure
        self.synced_offset = ticket.target

    def sync(self) -> None:
        """Return when all that is written is on the disk. Raises SyncFailed."""
        ticket = self.begin_sync()
        if ticket is not None:
            with suppress(SyncFailed):  # `finish_sync` raises it again.
                ticket.run()
            self.finish_sync(ticket)

    # --- reading -------------------------------------------------------------------------------

    def read_records(
        self, log_offsets: NDArray[np.int64], sizes: NDArray[np.int32], *, wait: bool
    ) -> memoryview:
        """Return the records end to end, in the order asked for.

        Neighbours are one read, so ask in log order. The frames they are in are verified once,
        when they are first read. Raises NotCached when `wait` is false and the disk would have to
        be waited for, Unreadable for records that are damaged, StoreDamaged for offsets outside
        of the log.
        """
        if len(sizes):
            first, stop = int(log_offsets.min()), int((log_offsets + sizes).max())
            if first < self.log_start or stop > self.written_offset or int(sizes.min()) < 0:
                raise StoreDamaged(
                    f"the log holds {self.log_start} to {self.written_offset}, "
                    f"not {first} to {stop}"
                )
            if first < self._proof.proven_from or self.quarantine.ranges:
                self._proof.check(log_offsets, sizes, wait=wait)
        return gather(self._bytes, log_offsets, sizes, wait=wait, take=self.held.take)

    def warm(self, log_offsets: NDArray[np.int64], sizes: NDArray[np.int32]) -> None:
        """Wait for the disk, so that `read_records` of the same need not; for a thread.

        What was deleted meanwhile is passed over: whoever reads again finds that out.
        """
        is_kept = log_offsets >= self.log_start
        self.read_records(log_offsets[is_kept], sizes[is_kept], wait=True)

    def frames(self, log_offset: int) -> Iterator[Frame]:
        """Iterate over the frames from `log_offset` on; see `stretches`."""
        for stretch in self.stretches(log_offset):
            yield from stretch

    def stretches(self, log_offset: int) -> Iterator[list[Frame]]:
        """Iterate over the frames from `log_offset` to what is written now, many at a time.

        It must be where a frame starts or the log ends. Frames are valid until the next are asked
        for. What is damaged on the way goes into quarantine, and frames that cannot be read are
        not among those that come. What is pooled is committed first, so this belongs to the
        appending thread.
        """
        self.commit_pool()
        return stretches(
            self._segments,
            start=log_offset,
            stop=self.written_offset,
            store_id=self._store_id,
            quarantine=self.quarantine,
            found=self.isolate,
        )

    def examine(self, log_offset: int) -> list[QuarantinedRange]:
        """Return what is damaged at a place of the log, whatever was proven before."""
        return self._proof.examine(log_offset, stop=self.written_offset)

    def isolate(self, found: QuarantinedRange) -> bool:
        """Put a damaged range into quarantine; False where it is known to be there.

        Raises StoreFull, WriteFailed or SyncFailed.
        """
        is_new = self.quarantine.add(replace(found, found_ms=self._clock.wall_ms()))
        self._proof.settled()
        return is_new

    # --- stopping ------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write down how far the log is synced, so that recovery starts there; for a thread.

        Raises StoreFull, WriteFailed or SyncFailed; recovery then starts at the one before.
        """
        self._store_checkpoint(clean=False)

    def close(self, *, clean: bool) -> None:
        """Close the files; with `clean`, sync before and mark that there is nothing to recover.

        A log that failed is never marked. Raises SyncFailed, or what `checkpoint` raises.
        """
        try:
            if clean and self._failure is None:
                self.sync()
                self._store_checkpoint(clean=True)
        finally:
            self._segments.close()

    def _store_checkpoint(self, *, clean: bool) -> None:
        # Read before the time: a frame synced in between is then no later than it.
        synced_offset = self.synced_offset
        checkpoint = LogCheckpoint(
            epoch=self.epoch,
            log_start=self.log_start,
            synced_offset=synced_offset,
            clean=clean,
            store_time_ms=self._store_time_ms,
        )
        store_checkpoint(self._disk, checkpoint, failpoints=self._failpoints)
        self.checkpointed_offset = synced_offset
