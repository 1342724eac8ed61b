"""A key index whose file does not verify is made again by the engine itself, while it runs."""

import asyncio

import pytest

from apps.engine.local import LocalEngine, mender
from apps.engine.searchtypes import SearchRequest
from tests.engine.local.compacting import Model, compacting, put

_PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def looked_after_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mender, "_LOOK_S", 0.001)
    monkeypatch.setattr(mender, "_AGAIN_S", 0.001)


async def found(engine: LocalEngine, key: str) -> tuple[int, bool]:
    result = await engine.search(SearchRequest(topic="t", key=key))
    return len(result.blocks), result.scan_incomplete


async def test_a_search_that_meets_damage_has_the_file_made_again() -> None:
    store, model = compacting(), Model()
    async with store.opened() as engine:
        await put(engine, model, ("a", b"1"), ("b", b"2"), ("a", b"3"))
        (file,) = engine._host.broker.index.newest_first()
    async with store.opened() as engine:
        store.disk.remove(file.path)
        engine._host.broker.index._cache.close()

        assert await found(engine, "a") == (0, True), "the fault fired"
        async with asyncio.timeout(_PATIENCE_S):
            while engine._host.broker.index._damaged:
                await asyncio.sleep(0.001)

        assert await found(engine, "a") == (2, False)
        await put(engine, model, ("a", b"4"))
        assert await found(engine, "a") == (3, False)
    async with store.opened() as engine:
        assert engine._host.broker.index.rebuilt_from is None
        assert await found(engine, "a") == (3, False)
