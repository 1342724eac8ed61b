"""What a reader of the files sees, and when: nothing that a power cut could take back."""

from pathlib import Path

import pytest

from apps.engine.errors import ForeignSegment, InvalidArgument, StoreDamaged, UnknownTopic
from apps.engine.files.posix import PosixDisk
from apps.engine.local import LocalEngine
from apps.engine.log.segmentleases import SegmentLeases
from apps.engine.offline.leasing import ReaderLease
from apps.engine.offline.view import StoreView
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import AckMode
from tests.engine.offline.stores import CONFIG, publish, send, written


@pytest.fixture
async def engine(tmp_path: Path):  # type: ignore[no-untyped-def]
    engine = await LocalEngine.open(tmp_path, CONFIG)
    publish(engine)
    yield engine
    await engine.close()


def ends(view: StoreView, topic: str = "orders") -> list[int]:
    view.refresh()
    return [extent.max_offset for extent in view.extents(topic)]


async def test_what_was_written_and_not_synced_is_not_seen(
    engine: LocalEngine, tmp_path: Path
) -> None:
    view = StoreView(tmp_path)

    await send(engine, "orders", 0, b"one", ack=AckMode.ASYNC)

    assert ends(view) == [0, 0]


async def test_a_later_frame_proves_that_one_was_synced_before_any_checkpoint(
    engine: LocalEngine, tmp_path: Path
) -> None:
    view = StoreView(tmp_path)
    await send(engine, "orders", 0, b"one", b"two", ack=AckMode.SYNC)
    assert ends(view) == [0, 0], "nothing on the disk says so yet"

    await send(engine, "payments", 1, b"other", ack=AckMode.ASYNC)

    assert ends(view) == [2, 0]
    assert ends(view, "payments") == [0, 0]


async def test_who_asks_for_it_sees_what_is_only_written(
    engine: LocalEngine, tmp_path: Path
) -> None:
    view = StoreView(tmp_path, is_unsynced_shown=True)

    await send(engine, "orders", 0, b"one", ack=AckMode.ASYNC)

    assert ends(view) == [1, 0]


def test_a_stopped_store_shows_everything(tmp_path: Path) -> None:
    async def work(engine: LocalEngine) -> None:
        await send(engine, "orders", 1, b"one", b"two", ack=AckMode.ASYNC)

    assert ends(StoreView(written(tmp_path, work))) == [0, 2]


async def test_what_a_checkpoint_has_written_out_is_not_walked_again(
    engine: LocalEngine, tmp_path: Path
) -> None:
    await send(engine, "orders", 0, *[b"%d" % number for number in range(100)])
    view = StoreView(tmp_path)
    await send(engine, "orders", 0, b"last", ack=AckMode.ASYNC)
    assert ends(view) == [100, 0]

    await engine._host.checkpoint()

    assert ends(view) == [101, 0]
    assert view.cut("orders", 0, 0, 101).frames == b""


async def test_a_frame_that_is_torn_ends_the_view_and_a_later_look_goes_on(
    engine: LocalEngine, tmp_path: Path
) -> None:
    await send(engine, "orders", 0, b"first" * 100)
    await send(engine, "orders", 0, b"second" * 100, ack=AckMode.ASYNC)
    (segment,) = (tmp_path / "commitlog").iterdir()
    data = segment.read_bytes()
    torn = data.rindex(b"second") - 50
    with segment.open("r+b") as file:
        file.seek(torn)
        file.write(bytes(56))
    view = StoreView(tmp_path, is_unsynced_shown=True)
    assert ends(view) == [1, 0]

    with segment.open("r+b") as file:
        file.seek(torn)
        file.write(data[torn : torn + 56])

    assert ends(view) == [2, 0]


async def test_damage_of_what_was_synced_is_an_error(engine: LocalEngine, tmp_path: Path) -> None:
    await send(engine, "orders", 0, b"first" * 100)
    await send(engine, "orders", 0, b"second" * 100)
    await send(engine, "orders", 0, b"third" * 100, ack=AckMode.ASYNC)
    (segment,) = (tmp_path / "commitlog").iterdir()
    data = segment.read_bytes()
    frame = data.index(b"rmq_sys_frame", data.index(b"first"))
    with segment.open("r+b") as file:
        file.seek(frame)
        file.write(b"X")
    view_end = StoreView(tmp_path)
    # Nothing behind the place is readable, so nothing proves that it was ever synced.
    assert ends(view_end) == [0, 0]
    view_end.synced_offset = frame + 1

    with pytest.raises(StoreDamaged, match="the log was synced up to"):
        view_end.refresh()


def test_a_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="holds no store"):
        StoreView(tmp_path)
    with pytest.raises(InvalidArgument, match="no directory"):
        StoreView(tmp_path / "absent")


def test_a_segment_of_another_store_is_refused(tmp_path: Path) -> None:
    async def work(engine: LocalEngine) -> None:
        await send(engine, "orders", 0, b"one")

    ours, theirs = written(tmp_path / "a", work), written(tmp_path / "b", work)
    (segment,) = (theirs / "commitlog").iterdir()
    (ours / "commitlog" / segment.name).write_bytes(segment.read_bytes())

    with pytest.raises(ForeignSegment):
        StoreView(ours)


def test_an_unknown_topic_is_an_error_and_patterns_leave_inner_topics_out(tmp_path: Path) -> None:
    async def work(engine: LocalEngine) -> None:
        await send(engine, "orders", 0, b"one")
        # Numbers of producers are told in the journal, a topic of the broker's own.
        await send(engine, "orders", 0, b"two", PRODUCER_ID="p", PRODUCER_SEQ="1")

    view = StoreView(written(tmp_path, work))

    assert view.matching(".*") == ["orders", "payments"]
    assert view.extents("rmq_sys_consumer_state")[0].max_offset > 0
    with pytest.raises(UnknownTopic):
        view.extents("absent")
    with pytest.raises(InvalidArgument, match="no regular expression"):
        view.matching("(")


def test_the_view_changes_nothing_in_the_store(tmp_path: Path) -> None:
    async def work(engine: LocalEngine) -> None:
        await send(engine, "orders", 0, b"one")

    written(tmp_path, work)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    StoreView(tmp_path).refresh()

    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_a_lease_is_taken_renewed_and_given_back(tmp_path: Path) -> None:
    clock = ManualClock()
    leases = SegmentLeases(PosixDisk(tmp_path), clock)
    lease = ReaderLease(tmp_path, "spark-a", lease_ms=1_000, clock=clock)

    lease.take(100)
    first = leases.in_force()
    clock.advance(400)
    lease.keep()
    unchanged = leases.in_force()
    clock.advance(200)
    lease.keep()
    renewed = leases.in_force()
    lease.release()

    assert [(one.owner, one.log_offset) for one in first] == [("spark-a", 100)]
    assert unchanged == first
    assert renewed[0].until_ms == first[0].until_ms + 600
    assert leases.in_force() == []


def test_leases_of_the_dead_are_forgotten_an_hour_after_their_end(tmp_path: Path) -> None:
    clock = ManualClock()
    ReaderLease(tmp_path, "spark-dead", lease_ms=1_000, clock=clock).take(0)
    ReaderLease(tmp_path, "other", lease_ms=1_000, clock=clock).take(0)
    lease = ReaderLease(tmp_path, "spark-b", lease_ms=1_000, clock=clock)
    clock.advance(3_600_000)
    assert lease.forget_abandoned("spark-") == 0

    clock.advance(1_001)

    assert lease.forget_abandoned("spark-") == 1
    assert [path.name for path in (tmp_path / "leases").iterdir()] == ["other"]
