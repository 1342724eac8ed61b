"""Compacted topics in the lake: each message that was kept, once; what was replaced is no loss."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow.parquet as pq

from apps.engine.local import LocalEngine
from apps.engine.types import CatalogSnapshot, Cleanup, TopicSpec
from apps.pipelines.models import IngestPosition, PipelineRun, PipelineStream, RunInput
from apps.pipelines.place import Place
from apps.pipelines.selectors import lake as selector
from apps.pipelines.spark import ingesting, lake, logreading, streaming
from tests.engine.local.compacting import Model, compact, put
from tests.engine.offline.stores import CONFIG, send
from tests.spark.lake.test_lake import BORN, a_run, done

pytestmark = [pytest.mark.spark, pytest.mark.django_db]

KEYS = 5
TOPICS = {
    "t": TopicSpec(name="t", queue_count=2, cleanup=Cleanup.COMPACT),
    "u": TopicSpec(name="u", queue_count=1),
}
COMPACTING = replace(CONFIG, compaction_look_ms=3_600_000, compaction_messages_min=1)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(lake=tmp_path / "lake", store=tmp_path / "store", server="", bodies=True)


class Broker:
    """The store of a compacted topic `t` and a plain one `u`; it runs while it has to."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.model = Model()

    def send(self, count: int, *, body: int = 10) -> None:
        """Send so many messages to one queue of `t`, of five keys in turn, and a third to `u`."""

        async def work(engine: LocalEngine) -> None:
            for _ in range(count):
                number = len(self.model.sent[0])
                pair = (f"k{number % KEYS}", b"x" * body)
                await put(engine, self.model, pair)
                if number % 3 == 0:
                    await send(engine, "u", 0, pair[1])

        self._run(work)

    def compact(self) -> None:
        """Run a round."""
        self._run(compact)

    def _run(self, work: Callable[[LocalEngine], Awaitable[None]]) -> None:
        async def run() -> None:
            engine = await LocalEngine.open(self.place.store, COMPACTING)
            try:
                engine.publish_catalog(CatalogSnapshot(version=1, topics=TOPICS))
                await work(engine)
            finally:
                await engine.close()

        asyncio.run(run())


def copied(place: Place, topic: str = "t") -> list[int]:
    """Return the offsets that a reader of the lake sees."""
    offsets: list[int] = []
    for file in selector.files_of(lake.MESSAGES, topics=[topic]):
        rows = pq.read_table(place.lake / file.path, partitioning=None)
        assert set(rows.column("is_compacted").to_pylist()) == {topic == "t"}
        offsets += rows.column("queue_offset").to_pylist()
    return sorted(offsets)


def test_each_message_that_was_kept_is_copied_once_and_the_archive_has_none(
    spark: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(place)
    # A segment and more, for the archive.
    broker.send(60, body=30_000)
    broker.compact()
    broker.send(6)
    rounds: list[int] = []
    look = logreading.kept_now

    def after_a_round(*given: Any) -> Any:
        # The broker goes on between the copy and the look at what is kept.
        if not rounds:
            rounds.append(1)
            broker.compact()
        return look(*given)

    monkeypatch.setattr(logreading, "kept_now", after_a_round)
    first = a_run("ingest")
    told = done(spark, first, place)
    whole = [*range(55, 66)]
    assert rounds
    assert copied(place) == whole

    broker.send(6)
    broker.compact()
    second = a_run("ingest", topics=["t"])
    done(spark, second, place)
    done(spark, a_run("archive"), place)

    # 66 was replaced by 71 before it was copied; what was copied before stays.
    assert copied(place) == [*whole, *range(67, 72)]
    assert told[0] == ("reading the log", len(whole) + 22)
    assert (first.rows_expected, first.rows_read, first.rows_written) == (33, 33, 33)
    assert (second.rows_expected, second.rows_written) == (5, 5)
    read = RunInput.objects.get(run=second, queue=0)
    assert (read.first_offset, read.end_offset, read.rows) == (66, 72, 5)
    assert IngestPosition.objects.get(topic="t", queue=0).next_offset == 72
    archive = PipelineRun.objects.get(job="archive")
    assert set(archive.inputs.values_list("topic", flat=True)) == {"u"}
    assert "'passedOver': ['t']" in str(archive.lineage)


def test_a_stream_publishes_what_was_not_replaced_before_it_came(
    spark: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The publisher is given batches as Spark gives them, without the offsets they are of."""
    # This thread's has the test's transaction.
    monkeypatch.setattr(streaming, "close_old_connections", int)
    broker = Broker(place)
    row = PipelineStream.objects.create(name="live", worker="w", lease_ends_at=BORN)
    broker.send(13)
    store_id = ingesting.plan(place.store, ["t"]).store_id
    publish = streaming.BatchPublisher(row, place, store_id)

    publish(logreading.read(spark, place.store, {("t", 0): (0, 13), ("u", 0): (0, 5)}), 0)
    broker.send(13)
    broker.compact()
    publish(logreading.read(spark, place.store, {("t", 0): (13, 26), ("u", 0): (5, 9)}), 1)

    assert copied(place) == [*range(13), *range(21, 26)]
    assert copied(place, "u") == [*range(9)]
    assert IngestPosition.objects.get(topic="t", queue=0).next_offset == 26
    # Streams and jobs have one position: nothing is left to be copied.
    assert ingesting.plan(place.store, ["t", "u"]).ranges == {}
