"""A run holds the log while it reads, and retention takes it afterwards."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.engine.errors import StoreFull
from apps.engine.local import LocalEngine
from apps.engine.offline.leasing import ReaderLease
from apps.pipelines.spark import holding
from tests.engine.offline.stores import CONFIG, publish, send, trimmed, written

TOPICS = {"orders": 1}
BODY_BYTES = 20_000
TAKES_ALL = replace(CONFIG, retention_bytes=1)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a stopped store of four segments and a bit."""

    async def work(engine: LocalEngine) -> None:
        publish(engine, TOPICS)
        for _ in range(4 * CONFIG.segment_bytes // (2 * BODY_BYTES)):
            await send(engine, "orders", 0, *[bytes(BODY_BYTES)] * 2)

    return written(tmp_path, work)


def test_retention_takes_nothing_that_a_run_reads_and_all_of_it_at_its_end(store: Path) -> None:
    with holding.holding(store, "run-7", CONFIG.segment_bytes + 5):
        during = trimmed(store, TAKES_ALL, TOPICS)
        assert [path.name for path in (store / "leases").iterdir()] == ["run-7"]
    after = trimmed(store, TAKES_ALL, TOPICS)

    assert during == CONFIG.segment_bytes
    assert after >= 3 * CONFIG.segment_bytes
    assert list((store / "leases").iterdir()) == []


def test_a_hold_that_cannot_be_renewed_once_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[str] = []

    def keep(self: Any) -> None:
        kept.append(self._owner)
        if len(kept) == 1:
            raise StoreFull("no room")

    monkeypatch.setattr(ReaderLease, "keep", keep)
    monkeypatch.setattr(holding, "_KEEP_EVERY_S", 0.001)
    with holding.holding(tmp_path, "run-7", 0):
        while len(kept) < 2:
            pass

    assert {*kept} == {"run-7"}
    assert "lease_not_renewed" in caplog.messages
