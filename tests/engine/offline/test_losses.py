"""What became of messages that do not come: told apart by their entries and the log's start."""

from pathlib import Path

from apps.engine.failpoints import Failpoints
from apps.engine.files.posix import PosixDisk
from apps.engine.local import LocalEngine
from apps.engine.log.retained import Retained, store_retained
from apps.engine.offline.losses import fates
from apps.engine.offline.reading import read
from apps.engine.offline.view import StoreView
from apps.engine.types import AckMode
from tests.engine.offline.stores import CONFIG, publish, send, written

Told = list[tuple[int, int]]


def told(view: StoreView, start: int, stop: int) -> tuple[Told, Told]:
    """Return what is told as gone and as damaged while messages are read."""
    gone: Told = []
    damaged: Told = []
    wanted = view.cut("orders", 0, start, stop)
    for _ in read(
        view.store,
        wanted,
        on_loss=lambda first, last, _: gone.append((first, last)),
        on_damage=lambda first, last, _: damaged.append((first, last)),
    ):
        pass
    return gone, damaged


async def _tens(engine: LocalEngine) -> None:
    for ten in range(10):
        await send(engine, "orders", 0, *[b"%d" % (10 * ten + one) * 9 for one in range(10)])


def damage(path: Path, text: bytes, *, behind: bytes = b"") -> None:
    (segment,) = (path / "commitlog").iterdir()
    data = segment.read_bytes()
    at = data.index(text, data.index(behind))
    with segment.open("r+b") as file:
        file.seek(at)
        file.write(b"X")


def test_damage_in_the_log_is_told_from_entries_that_retention_took(tmp_path: Path) -> None:
    view = StoreView(written(tmp_path, _tens))
    sorted((tmp_path / "consumequeue" / "orders" / "0").iterdir())[0].unlink()
    damage(tmp_path, b"77" * 9)

    assert told(view, 5, 100) == ([(5, 59)], [(77, 77)])


def test_one_run_of_both_is_told_in_two(tmp_path: Path) -> None:
    view = StoreView(written(tmp_path, _tens))
    sorted((tmp_path / "consumequeue" / "orders" / "0").iterdir())[0].unlink()
    # The header of the frame that has 60 to 69.
    damage(tmp_path, b"rmq_sys_frame", behind=b"59" * 9)

    assert told(view, 60, 75) == ([(60, 63)], [(64, 69)])


def test_messages_below_the_start_of_the_log_are_gone(tmp_path: Path) -> None:
    view = StoreView(written(tmp_path, _tens))
    wanted = view.cut("orders", 0, 0, 100)
    border = view.cut("orders", 0, 40, 41)
    assert list(fates(view.store, wanted, 3, 60)) == [(3, 60, False)]

    log_start = view.log_offset(border) or CONFIG.segment_bytes
    retained = Retained(log_start=log_start, queues=(("orders", 0, 100),))
    store_retained(PosixDisk(tmp_path), retained, failpoints=Failpoints())

    assert list(fates(view.store, wanted, 3, 60)) == [(3, 60, True)]


async def test_damage_behind_the_queues_files_is_damage(tmp_path: Path) -> None:
    engine = await LocalEngine.open(tmp_path, CONFIG)
    try:
        publish(engine)
        await _tens(engine)
        await send(engine, "payments", 0, b"proof", ack=AckMode.ASYNC)
        view = StoreView(tmp_path)
        assert view.cut("orders", 0, 0, 100).tail_start == 0
        damage(tmp_path, b"77" * 9)

        assert told(view, 0, 100) == ([], [(77, 77)])
    finally:
        await engine.close()
