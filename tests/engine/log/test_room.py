"""When a disk counts as full, what goes on then, and when it has room again. No real disk."""

import logging

import pytest

from apps.engine.config import EngineConfig
from apps.engine.errors import StoreFull, WriteFailed
from apps.engine.failpoints import Failpoints
from apps.engine.log.commitlog import CommitLog
from apps.engine.testing.contracts.log import bodies_of, run_of
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import RoomState

SEGMENT = 65_536
RESERVE = 100_000
CONFIG = EngineConfig(
    segment_bytes=SEGMENT,
    batch_bytes_max=16_384,
    body_bytes_max=8_192,
    reserve_bytes=RESERVE,
    disk_percent_max=100,
)


class Bench:
    def __init__(self, capacity_bytes: int, *, failpoints: str = "", percent_max: int = 100):
        self.disk = SimulatedDisk(capacity_bytes=capacity_bytes)
        self.clock = ManualClock()
        self.failpoints = Failpoints(failpoints)
        config = EngineConfig(
            segment_bytes=SEGMENT,
            batch_bytes_max=16_384,
            body_bytes_max=8_192,
            reserve_bytes=RESERVE if percent_max == 100 else 0,
            disk_percent_max=percent_max,
        )
        self.log = CommitLog.open(
            self.disk, config=config, clock=self.clock, failpoints=self.failpoints
        )

    def send(self, size_bytes: int = 4_000) -> None:
        self.log.append([run_of([bytes(size_bytes)])])

    def fill(self) -> int:
        for count in range(5_000):
            try:
                self.send()
            except StoreFull:
                return count
        raise AssertionError("the disk was never full")

    @property
    def state(self) -> RoomState:
        return self.log.room.state


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "apps.engine.log.room"]


def test_acknowledgements_go_on_for_long_when_no_segment_can_be_had() -> None:
    bench = Bench(2 * SEGMENT + RESERVE - 1)
    bench.fill()
    left = bench.log._segments.end - bench.log.written_offset

    count = 0
    while True:
        try:
            bench.log.append([run_of([bytes(100)])], is_internal=True)
        except StoreFull:
            break
        count += 1

    # An eighth of a segment was left to them, and then the reserve on the disk holds one more.
    assert left >= SEGMENT // 8
    assert count > (SEGMENT + SEGMENT // 8) // 600
    assert bench.disk.faults["full"]


def test_a_refused_send_has_not_touched_the_log() -> None:
    bench = Bench(2 * SEGMENT + RESERVE - 1)
    count = bench.fill()
    end, content, segments = bench.log.written_offset, bench.disk.content(), bench.log._segments.end

    with pytest.raises(StoreFull, match=r"a segment takes 65536"):
        bench.send()

    assert (bench.log.written_offset, bench.log._segments.end) == (end, segments)
    assert bench.disk.content() == content
    assert len(bodies_of(bench.log)) == count


def test_the_state_says_full_once_and_room_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench(5 * SEGMENT + RESERVE)
    bench.log.room.look()
    assert bench.state is RoomState.OK

    bench.fill()
    for _ in range(5):
        bench.clock.advance(1_000)
        bench.log.room.look()
        with pytest.raises(StoreFull):
            bench.send()
    assert bench.state is RoomState.FULL
    assert "kept in reserve" in bench.log.room.reason

    bench.disk.capacity_bytes += 10 * SEGMENT
    bench.clock.advance(100)
    bench.send()

    assert bench.state is RoomState.OK
    assert bench.log.room.reason == ""
    assert events(caplog) == ["disk_full", "disk_has_room"]


def test_room_at_the_edge_does_not_flap(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench(SEGMENT + RESERVE)
    for turn in range(20):
        bench.disk.capacity_bytes += 1_000 if turn % 2 else -1_000
        bench.clock.advance(100)
        bench.log.room.look()

    assert events(caplog) == ["disk_full"]
    bench.disk.capacity_bytes += RESERVE // 8 + 1_000
    bench.log.room.look()
    assert events(caplog) == ["disk_full", "disk_has_room"]
    assert bench.state is RoomState.LOW


@pytest.mark.parametrize("percent_max", [50, 90, 99])
def test_sends_stop_at_the_mark_and_go_on_below_it(percent_max: int) -> None:
    bench = Bench(100 * SEGMENT, percent_max=percent_max)
    bench.fill()

    used = 100 - 100 * bench.disk.free_bytes() / bench.disk.total_bytes()

    assert percent_max - 2 < used <= percent_max
    assert bench.state is RoomState.FULL
    assert f"sends stop at {percent_max} %" in bench.log.room.reason
    bench.log.append([run_of([b"an acknowledgement"])], is_internal=True)
    bench.disk.capacity_bytes *= 2
    bench.clock.advance(100)
    bench.send()


def test_what_others_write_counts_for_the_mark() -> None:
    bench = Bench(20 * SEGMENT, percent_max=90)
    bench.send()
    bench.disk.open("of somebody else", create=True).allocate(18 * SEGMENT)

    bench.clock.advance(100)
    with pytest.raises(StoreFull, match=r"95.* % of the disk are used"):
        bench.send()


def test_a_quota_that_no_figure_shows_is_asked_again_each_second_only() -> None:
    bench = Bench(1 << 40, failpoints="files.allocate=full(2)")
    bench.fill()
    assert (bench.state, bench.failpoints.fired["files.allocate"]) == (RoomState.FULL, 1)

    for _ in range(50):
        with pytest.raises(StoreFull, match="cannot allocate"):
            bench.send(8_000)
    assert bench.failpoints.fired["files.allocate"] == 1
    bench.clock.advance(1_000)
    with pytest.raises(StoreFull):
        bench.send(8_000)
    assert bench.failpoints.fired["files.allocate"] == 2

    bench.failpoints._actions.clear()
    bench.clock.advance(1_000)
    bench.log.create_ahead()

    assert bench.state is RoomState.OK
    bench.send(8_000)


def test_a_full_disk_under_a_written_segment_is_no_promise_that_nothing_changed() -> None:
    bench = Bench(1 << 40, failpoints="log.after_write=full(2)")
    bench.send()

    with pytest.raises(WriteFailed):
        bench.send()

    assert bench.failpoints.fired["log.after_write"] == 1
