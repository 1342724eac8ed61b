"""Parts of a slice by tags: nothing wanted is left out, and what lies far from it is not read."""

from pathlib import Path

import numpy as np
import pytest

from apps.engine.codec.layout import QUEUE_ENTRY
from apps.engine.codec.tags import tag_hash
from apps.engine.local import LocalEngine
from apps.engine.offline.reading import read
from apps.engine.offline.tagged import parts_of
from apps.engine.offline.view import StoreView
from apps.engine.types import AckMode
from tests.engine.offline.stores import CONFIG, publish, send, written

TAGS = "aaabbbaabbbbbbbbbbac"


async def filled(engine: LocalEngine) -> None:
    for tag in TAGS:
        await send(engine, "orders", 0, b"x" * 1_000, b"y", ack=AckMode.ASYNC, TAGS=tag)
    await send(engine, "orders", 1, b"synced")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("store"), filled)


def parts(view: StoreView, *tags: str, gap_bytes: int = 2_500) -> list[tuple[int, int]]:
    wanted = view.cut("orders", 0, 0, view.extent("orders", 0).max_offset)
    hashes = frozenset(map(tag_hash, tags))
    found = list(parts_of(view.store, wanted, hashes, gap_bytes=gap_bytes))
    for part in found:
        blocks = read(view.store, part, on_loss=lambda *lost: pytest.fail(str(lost)))
        offsets = [offset for block in blocks for offset in block.offsets.tolist()]
        assert offsets == list(range(part.start, part.stop))
    return [(part.start, part.stop) for part in found]


def test_messages_far_from_those_that_are_wanted_are_no_part(store: Path) -> None:
    view = StoreView(store)

    assert parts(view, "a") == [(0, 6), (12, 16), (36, 38)]
    assert parts(view, "c") == [(38, 40)]
    assert parts(view, "a", "c") == [(0, 6), (12, 16), (36, 40)]
    assert parts(view, "none") == []


def test_messages_near_each_other_are_one_part(store: Path) -> None:
    view = StoreView(store)

    assert parts(view, "a", gap_bytes=5_000) == [(0, 16), (36, 38)]
    assert parts(view, "a", gap_bytes=1 << 20) == [(0, 38)]


def test_a_damaged_entry_is_in_a_part_whatever_its_tag_was(tmp_path: Path) -> None:
    view = StoreView(written(tmp_path, filled))
    (file,) = (tmp_path / "consumequeue" / "orders" / "0").iterdir()
    entries = np.fromfile(file, dtype=QUEUE_ENTRY)
    entries["size_bytes"][25] = entries["tag_hash"][25] = 0
    entries.tofile(file)
    wanted = view.cut("orders", 0, 0, 40)

    found = parts_of(view.store, wanted, frozenset([tag_hash("c")]), gap_bytes=2_500)

    assert [(part.start, part.stop) for part in found] == [(25, 26), (38, 40)]


def test_entries_that_were_removed_meanwhile_are_in_a_part(tmp_path: Path) -> None:
    async def work(engine: LocalEngine) -> None:
        for tag in "abbbb":
            await send(engine, "orders", 0, *[b"x"] * 30, TAGS=tag)

    view = StoreView(written(tmp_path, work))
    first, *_ = sorted((tmp_path / "consumequeue" / "orders" / "0").iterdir())
    first.unlink()
    wanted = view.cut("orders", 0, 5, 150)

    found = list(parts_of(view.store, wanted, frozenset([tag_hash("a")])))
    lost: list[tuple[int, int, str]] = []
    for part in found:
        assert not list(read(view.store, part, on_loss=lambda *one: lost.append(one)))

    assert [(part.start, part.stop) for part in found] == [(5, 64)]
    assert [one[:2] for one in lost] == [(5, 63)]


async def test_what_has_no_entries_in_files_is_a_part(tmp_path: Path) -> None:
    engine = await LocalEngine.open(tmp_path, CONFIG)
    try:
        publish(engine)
        await filled(engine)
        await engine._host.checkpoint()
        await send(engine, "orders", 0, b"z", TAGS="b")
        view = StoreView(tmp_path, is_unsynced_shown=True)

        assert parts(view, "c") == [(38, 40), (40, 41)]
    finally:
        await engine.close()
