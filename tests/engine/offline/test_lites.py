"""Lite topics as a foreign reader sees them: their last entries are in the checkpoint alone."""

from pathlib import Path

from apps.engine.local import LocalEngine
from apps.engine.offline.reading import read
from apps.engine.offline.view import StoreView
from apps.engine.testing.contracts.lite import CATALOG, send
from apps.engine.testing.manualclock import ManualClock
from tests.engine.offline.stores import CONFIG


async def test_a_reader_finds_short_and_long_lite_topics_before_and_after_a_checkpoint(
    tmp_path: Path,
) -> None:
    engine = await LocalEngine.open(tmp_path, CONFIG)
    engine.publish_catalog(CATALOG)
    await send(engine, "short", "0", "1")
    await send(engine, "long", *map(str, range(80)))
    await engine._host.checkpoint()
    await send(engine, "long", "80")
    await send(engine, "short", "2")
    await engine._host.checkpoint()
    await send(engine, "short", "3")
    await engine.close()

    view = StoreView(tmp_path)
    found = {}
    for name in ("short", "long"):
        topic = f"%LITE%chats|{name}"
        (extent,) = view.extents(topic)
        wanted = view.cut(topic, 0, extent.min_offset, extent.max_offset)
        found[name] = [
            offset
            for block in read(view.store, wanted, on_loss=_none_is_lost)
            for offset in block.offsets.tolist()
        ]
    topics = view.topics()
    view.close()

    assert found == {"short": list(range(4)), "long": list(range(81))}
    assert {"%LITE%chats|short", "%LITE%chats|long"} <= set(topics)


async def test_a_lite_topic_that_is_gone_is_so_for_a_foreign_reader_too(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = await LocalEngine.open(tmp_path, CONFIG, clock=clock)
    engine.publish_catalog(CATALOG)
    await send(engine, "old", "0", "1")
    clock.advance(900_000)
    await send(engine, "young", "0")
    engine._host.broker.expire_lite()
    await engine.close()

    view = StoreView(tmp_path)
    extents = [view.extent(f"%LITE%chats|{name}", 0) for name in ("old", "young")]
    view.close()

    assert [(one.min_offset, one.max_offset) for one in extents] == [(2, 2), (0, 1)]


def _none_is_lost(first: int, last: int, reason: str) -> None:
    raise AssertionError(f"{first} to {last}: {reason}")
