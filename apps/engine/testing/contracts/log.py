"""What the commit log promises on any disk. Knows the log and the disk seam."""

from collections.abc import Sequence

import numpy as np
import pytest

from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import Record, decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.errors import BatchTooLarge, StoreDamaged
from apps.engine.files.backend import Disk
from apps.engine.log.commitlog import AppendedFrame, CommitLog, RecordRun
from apps.engine.testing.manualclock import ManualClock

SMALL = EngineConfig(
    segment_bytes=65_536, batch_bytes_max=16_384, body_bytes_max=8_192, reserve_bytes=0
)


def run_of(bodies: Sequence[bytes], *, queue: int = 0, queue_offset: int = 0) -> RecordRun:
    """Return records with the given bodies as one queue's run."""
    records = [encode_record(topic=b"orders", queue=queue, body=body) for body in bodies]
    sizes = np.array([len(record) for record in records], dtype=np.int32)
    return RecordRun(
        payload=bytearray(b"".join(records)),
        sizes=sizes,
        starts=starts_of(sizes),
        queue_offset=queue_offset,
    )


def records_of(log: CommitLog) -> list[Record]:
    """Return every record of the log, in order."""
    return [
        decode_record(frame.payload, start)
        for frame in log.frames(log.log_start)
        for start in starts_of(frame.header.sizes).tolist()
    ]


def bodies_of(log: CommitLog) -> list[bytes]:
    """Return the body of every record of the log, in order."""
    return [record.body for record in records_of(log)]


class CommitLogContract:
    """Inherit, supply `disk`, and the log's promises are tested on it."""

    @pytest.fixture
    def disk(self) -> Disk:
        """Return an empty disk."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return the clock every opening uses."""
        return ManualClock()

    def opened(self, disk: Disk, clock: ManualClock) -> CommitLog:
        """Open the log of `disk`."""
        return CommitLog.open(disk, config=SMALL, clock=clock)

    def test_a_new_log_is_empty(self, disk: Disk, clock: ManualClock) -> None:
        log = self.opened(disk, clock)

        assert (log.log_start, log.written_offset, log.synced_offset) == (0, 0, 0)
        assert (log.epoch, len(log.store_id)) == (1, 32)
        assert bodies_of(log) == []
        log.close(clean=True)

    def test_records_read_back_in_order_with_the_brokers_stamps(
        self, disk: Disk, clock: ManualClock
    ) -> None:
        log = self.opened(disk, clock)

        frame = log.append([run_of([b"a", b"b"], queue=1, queue_offset=7), run_of([b"c"], queue=2)])

        found = records_of(log)
        assert [(r.body, r.queue, r.queue_offset) for r in found] == [
            (b"a", 1, 7),
            (b"b", 1, 8),
            (b"c", 2, 0),
        ]
        assert found[0].log_offset == frame.run_log_offsets[0]
        assert found[2].log_offset == frame.run_log_offsets[1]
        assert {r.store_time_ms for r in found} == {frame.store_time_ms} == {clock.wall_ms()}
        assert {r.store_host for r in found} == {b"\x7f\x00\x00\x01\x00\x00\x1f\x40"}
        assert frame.end == log.written_offset == found[2].log_offset + found[2].size_bytes
        log.close(clean=True)

    def test_only_a_sync_moves_the_synced_offset(self, disk: Disk, clock: ManualClock) -> None:
        log = self.opened(disk, clock)
        frame = log.append([run_of([b"a"])])
        before = log.synced_offset

        log.sync()

        assert (before, log.synced_offset) == (0, frame.end)
        assert log.begin_sync() is None
        log.close(clean=True)

    def test_what_is_written_during_a_sync_is_not_covered_by_it(
        self, disk: Disk, clock: ManualClock
    ) -> None:
        log = self.opened(disk, clock)
        covered = log.append([run_of([b"a"])])
        ticket = log.begin_sync()
        assert ticket is not None
        log.append([run_of([b"b"])])

        ticket.run()
        log.finish_sync(ticket)

        assert log.synced_offset == covered.end < log.written_offset
        log.close(clean=True)

    def test_a_log_goes_on_over_many_segments(self, disk: Disk, clock: ManualClock) -> None:
        log = self.opened(disk, clock)
        bodies = [bytes((number,)) * (50 * number) for number in range(150)]

        for body in bodies:
            log.append([run_of([body])])

        assert log.written_offset > 8 * SMALL.segment_bytes
        assert bodies_of(log) == bodies
        log.close(clean=True)

    def test_no_frame_lies_in_two_segments(self, disk: Disk, clock: ManualClock) -> None:
        log = self.opened(disk, clock)

        frames = [log.append([run_of([bytes(5000)])]) for _ in range(40)]

        segments = [
            (f.log_offset // SMALL.segment_bytes, (f.end - 1) // SMALL.segment_bytes)
            for f in frames
        ]
        assert all(first == last for first, last in segments)
        assert segments[-1][0] >= 3
        log.close(clean=True)

    def test_a_frame_that_fills_a_segment_is_taken_and_a_larger_one_refused(
        self, disk: Disk, clock: ManualClock
    ) -> None:
        log = self.opened(disk, clock)
        around = 168 + 4 + 91 + len("orders") + 8
        log.append([run_of([b"before"])])

        with pytest.raises(BatchTooLarge):
            log.append([run_of([bytes(SMALL.segment_bytes - around + 1)])])
        frame = log.append([run_of([bytes(SMALL.segment_bytes - around)])])
        log.append([run_of([b"behind"])])

        assert frame.log_offset == SMALL.segment_bytes
        assert frame.end == 2 * SMALL.segment_bytes - 8
        assert [len(body) for body in bodies_of(log)] == [6, SMALL.segment_bytes - around, 6]
        log.close(clean=True)

    @pytest.mark.parametrize(("spare_bytes", "segment"), [(7, 1), (8, 0), (9, 0)])
    def test_a_frame_leaves_room_for_a_filler_or_goes_to_the_next_segment(
        self, disk: Disk, clock: ManualClock, spare_bytes: int, segment: int
    ) -> None:
        log = self.opened(disk, clock)
        around = 168 + 4 + 91 + len("orders")
        first = log.append([run_of([bytes(30_000)])])
        left = SMALL.segment_bytes - first.end

        second = log.append([run_of([bytes(left - around - spare_bytes)])])
        log.append([run_of([b"behind"])])

        assert second.log_offset // SMALL.segment_bytes == segment
        assert len(bodies_of(log)) == 3
        log.close(clean=False)
        log = self.opened(disk, clock)
        assert len(bodies_of(log)) == 3
        log.close(clean=True)

    def test_chosen_records_come_in_the_order_asked_for(
        self, disk: Disk, clock: ManualClock
    ) -> None:
        log = self.opened(disk, clock)
        for number in range(60):
            log.append([run_of([bytes((number, part)) * 400 for part in range(4)])])
        records = records_of(log)
        chosen = [*records[::3], *records[5:9], records[0], *records[200:]]

        payload = log.read_records(
            np.array([record.log_offset for record in chosen], dtype=np.int64),
            np.array([record.size_bytes for record in chosen], dtype=np.int32),
            wait=True,
        )

        starts = starts_of(np.array([r.size_bytes for r in chosen], dtype=np.int32)).tolist()
        assert [decode_record(payload, start) for start in starts] == chosen
        assert log.written_offset > 2 * SMALL.segment_bytes
        log.close(clean=True)

    def test_the_header_between_two_frames_is_not_read_as_a_record(
        self, disk: Disk, clock: ManualClock
    ) -> None:
        log = self.opened(disk, clock)
        frames = [log.append([run_of([body])]) for body in (b"one", b"two")]
        log_offsets = np.array([f.run_log_offsets[0] for f in frames], dtype=np.int64)
        sizes = np.array([f.end - f.run_log_offsets[0] for f in frames], dtype=np.int32)

        payload = log.read_records(log_offsets, sizes, wait=True)

        assert len(payload) == sizes.sum()
        assert decode_record(payload, int(sizes[0])).body == b"two"
        log.close(clean=True)

    def test_reading_nothing_gives_nothing(self, disk: Disk, clock: ManualClock) -> None:
        log = self.opened(disk, clock)

        payload = log.read_records(
            np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), wait=True
        )

        assert bytes(payload) == b""
        log.close(clean=True)

    @pytest.mark.parametrize("log_offset", [-1, 1_000, 1 << 40])
    def test_reading_outside_of_the_log_is_an_error(
        self, disk: Disk, clock: ManualClock, log_offset: int
    ) -> None:
        log = self.opened(disk, clock)
        log.append([run_of([b"a"])])

        with pytest.raises(StoreDamaged):
            log.read_records(
                np.array([log_offset], dtype=np.int64), np.array([98], dtype=np.int32), wait=True
            )
        log.close(clean=True)

    def test_a_clean_stop_leaves_nothing_to_scan(self, disk: Disk, clock: ManualClock) -> None:
        log = self.opened(disk, clock)
        end = self.some(log).end
        log.close(clean=True)

        log = self.opened(disk, clock)

        assert log.recovery.clean
        assert (log.recovery.scanned_bytes, log.recovery.log_end) == (0, end)
        assert (log.epoch, log.synced_offset, log.written_offset) == (2, end, end)
        assert bodies_of(log) == [b"0", b"1", b"2"]
        log.close(clean=True)

    def test_an_unclean_stop_loses_nothing_that_was_written(
        self, disk: Disk, clock: ManualClock
    ) -> None:
        log = self.opened(disk, clock)
        end = self.some(log).end
        log.close(clean=False)

        log = self.opened(disk, clock)

        assert not log.recovery.clean
        assert (log.recovery.scanned_bytes, log.recovery.scanned_records) == (end, 3)
        assert (log.recovery.cut_bytes, log.synced_offset) == (0, end)
        assert bodies_of(log) == [b"0", b"1", b"2"]
        log.close(clean=True)

    def test_recovery_begins_at_the_checkpoint(self, disk: Disk, clock: ManualClock) -> None:
        log = self.opened(disk, clock)
        synced = self.some(log).end
        log.sync()
        log.checkpoint()
        end = log.append([run_of([b"3"])]).end
        log.close(clean=False)

        log = self.opened(disk, clock)

        assert (log.recovery.scanned_bytes, log.recovery.scanned_records) == (end - synced, 1)
        assert bodies_of(log) == [b"0", b"1", b"2", b"3"]
        log.close(clean=True)

    @pytest.mark.parametrize("clean", [True, False])
    def test_store_times_never_fall_even_when_the_clock_does(
        self, disk: Disk, clock: ManualClock, clean: bool
    ) -> None:
        log = self.opened(disk, clock)
        first = self.some(log).store_time_ms
        clock.set_wall(first - 3_600_000)
        second = log.append([run_of([b"x"])]).store_time_ms
        log.close(clean=clean)

        log = self.opened(disk, clock)
        third = log.append([run_of([b"y"])]).store_time_ms

        assert first == second == third
        log.close(clean=True)

    def test_an_existing_store_keeps_its_segment_size(self, disk: Disk, clock: ManualClock) -> None:
        log = self.opened(disk, clock)
        self.some(log)
        log.close(clean=True)

        other = EngineConfig(segment_bytes=1 << 20, batch_bytes_max=16_384, body_bytes_max=8_192)
        log = CommitLog.open(disk, config=other, clock=clock)

        with pytest.raises(BatchTooLarge):
            log.append([run_of([bytes(SMALL.segment_bytes)])])
        assert bodies_of(log) == [b"0", b"1", b"2"]
        log.close(clean=True)

    def some(self, log: CommitLog) -> AppendedFrame:
        """Append three records in two frames; return the second."""
        log.append([run_of([b"0", b"1"])])
        return log.append([run_of([b"2"])])
