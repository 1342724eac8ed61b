"""From the log to the lake and back, in Spark: copied once, read whole, whatever was cut off."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from apps.engine.config import EngineConfig
from apps.engine.local import LocalEngine
from apps.pipelines import lakepaths
from apps.pipelines.errors import PipelineError
from apps.pipelines.models import (
    RESULTS,
    ArchivedSegment,
    IngestPosition,
    LakeFile,
    PipelineRun,
    PipelineStream,
    RunInput,
    RunState,
    StreamBatch,
)
from apps.pipelines.place import Place
from apps.pipelines.services import publishing
from apps.pipelines.spark import execution, lake, logreading, staging, streaming
from apps.pipelines.spark.jobs import Window
from apps.pipelines.tables import TABLES
from tests.engine.offline.stores import CONFIG, publish, send, trimmed
from tests.spark.test_with_spark import finished

pytestmark = [pytest.mark.spark, pytest.mark.django_db]

BORN = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
ODD = "%odd|name"
TOPICS = {"orders": 2, ODD: 1}
QUEUES = ((ODD, 0), ("orders", 0), ("orders", 1))
EVER = Window(start=datetime(2020, 1, 1, tzinfo=UTC), end=datetime(2100, 1, 1, tzinfo=UTC))


class Killed(BaseException):
    """Stands for a kill: nobody catches it, and no clean-up of ours depends on it."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(lake=tmp_path / "lake", store=tmp_path / "store", server="", bodies=True)


def more(place: Place, count: int, *, body: int = 10) -> None:
    """Send so many messages to each of three queues, of two topics."""

    step = 50 if body < 100 else 2

    async def work() -> None:
        engine = await LocalEngine.open(place.store, CONFIG)
        publish(engine, TOPICS)
        for first in range(0, count, step):
            numbers = range(first, min(first + step, count))
            bodies = [(b"%d " % number) * body for number in numbers]
            for topic, queue in QUEUES:
                await send(engine, topic, queue, *bodies, TAGS="red", né="ü")
        await engine.close()

    asyncio.run(work())


def a_run(job: str, **changes: Any) -> PipelineRun:
    values = {
        "job": job,
        "window_start": EVER.start,
        "window_end": EVER.end,
        "key": f"key {PipelineRun.objects.count()}",
        "code_version": "v1",
        "trigger": "command",
        "requested_by": "test",
        "requested_at": BORN,
        "state": RunState.RUNNING,
        "worker": "worker-1",
        "started_at": BORN,
        **changes,
    }
    return PipelineRun.objects.create(**values)


def done(spark: Any, run: PipelineRun, place: Place) -> list[tuple[str, int | None]]:
    told: list[tuple[str, int | None]] = []
    execution.execute(spark, run, place, lambda *stage: told.append(stage))
    run.refresh_from_db()
    assert run.state == RunState.DONE
    return told


def offsets(spark: Any, place: Place) -> list[tuple[str, int, int]]:
    """Return what a reader of the lake sees."""
    rows = lake.read(spark, place.lake, lake.MESSAGES).select("topic", "queue", "queue_offset")
    return sorted(tuple(row) for row in rows.collect())


def expected(count: int) -> list[tuple[str, int, int]]:
    return [(*key, number) for key in QUEUES for number in range(count)]


def test_what_is_new_is_copied_once_whatever_is_cut_off(
    spark: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    more(place, 60)
    killed: list[int] = []

    def die(*_: Any) -> None:
        killed.append(1)
        raise Killed

    cut_off = a_run("ingest")
    with monkeypatch.context() as patch:
        # The files are in place and the rows in the transaction: now the worker dies.
        patch.setattr(publishing, "_finish", die)
        with pytest.raises(Killed):
            execution.execute(spark, cut_off, place, lambda *_: None)
    assert killed
    assert sorted(place.lake.rglob("part-*.parquet"))
    assert offsets(spark, place) == []

    first = a_run("ingest")
    told = done(spark, first, place)
    more(place, 20)
    second = a_run("ingest")
    done(spark, second, place)
    done(spark, a_run("ingest"), place)

    assert told[0] == ("reading the log", 180)
    assert offsets(spark, place) == expected(80)
    assert (first.rows_expected, first.rows_read, first.rows_written) == (180, 180, 180)
    assert second.rows_written == 60
    assert {one.next_offset for one in IngestPosition.objects.all()} == {80}
    assert sum(one.rows for one in RunInput.objects.filter(run=second)) == 60
    rows = lake.read(spark, place.lake, lake.MESSAGES, EVER, topics=[ODD]).collect()
    row = min(rows, key=lambda one: one["queue_offset"])
    assert (row["tag"], row["key"], bytes(row["body"])) == ("red", "k0", b"0 " * 10)
    assert row["properties"]["né"] == "ü"
    assert row["body_bytes"] == 20


def test_a_message_is_numbered_and_placed_by_what_it_says_of_itself(spark: Any) -> None:
    said = {
        "SEQ_PRODUCER": b"p", "SEQ_NUMBER": b"7", "SEQ_EPOCH": b"two", "RETRY_TOPIC": b"orders",
        "ORIGIN_QUEUE": b"1", "ORIGIN_OFFSET": b"x", "bad": b"a\xff",
    }  # fmt: skip
    rows = [
        _source_row("%RETRY%g", list(said.items())),
        _source_row("orders", [("ORIGIN_QUEUE", b"1"), ("twice", b"1"), ("twice", b"2")]),
        _source_row("orders", []),
    ]
    frame = spark.createDataFrame(rows, logreading.SOURCE_COLUMNS)
    for name, value in staging.SETTINGS.items():
        spark.conf.set(name, value)

    one, other, bare = logreading.messages_of(frame, bodies=False).collect()

    assert (one["producer"], one["epoch"], one["seq"]) == ("p", None, 7)
    assert (other["producer"], other["epoch"], other["seq"]) == ("idempotent", None, 3)
    origin = ("origin_topic", "origin_queue", "origin_offset")
    assert [one[name] for name in origin] == ["orders", 1, None]
    assert [other[name] for name in origin] == [None] * 3
    assert one["properties"]["bad"] == "a\ufffd"
    assert other["properties"] == {"ORIGIN_QUEUE": "1", "twice": "2"}
    assert bare["properties"] == {}
    assert [row["body_bytes"] for row in (one, other, bare)] == [4, 4, 4]
    assert one["body"] is None


def _source_row(topic: str, headers: list[tuple[str, bytes]]) -> tuple[Any, ...]:
    return (
        topic, 0, 5, 100, "id", b"key", None, None, "idempotent", 3, BORN, BORN, None, 0,
        "127.0.0.1:1", 200, headers, b"body",
    )  # fmt: skip


# --- jobs that work something out ----------------------------------------------------------------


def counts(names: list[str]) -> Callable[..., dict[str, Any]]:
    """Return a job's function: a row for each topic and producer it is given messages of."""

    def run(inputs: Any, window: Window) -> dict[str, Any]:
        messages = inputs["bronze.messages"]
        counted = messages.groupBy("topic").count()
        rows = counted.selectExpr(
            "topic", "0 as queue", f"explode(array({', '.join(map(repr, names))})) as producer",
            "0L as epoch", "count as first_seq", "count as last_seq", "1L as missing",
            "1L as next_offset", "timestamp '2026-01-01 00:00:00' as found_at",
        )  # fmt: skip
        totals = messages.sparkSession.createDataFrame(
            [], TABLES["gold.loss_totals"].ddl()
        )  # fmt: skip
        return {"gold.loss": rows, "gold.loss_totals": totals}

    return run


def test_what_a_job_found_is_published_checked_and_replaced(
    spark: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    more(place, 30)
    done(spark, a_run("ingest"), place)

    def found_by(names: list[str], **changes: Any) -> PipelineRun:
        monkeypatch.setattr(execution, "function_of", lambda _: counts(names))
        run = a_run("loss", topics=["orders"], **changes)
        done(spark, run, place)
        return run

    first = found_by(["p", "q"])
    again = found_by(["r"], replaces=first)
    refused = [
        (["p", "p"], {}, "2 times"),
        (["p", "q"], {"rows_max": 1}, "more than 1 rows"),
    ]
    for names, options, text in refused:
        monkeypatch.setattr(execution, "function_of", lambda _, names=names: counts(names))
        with pytest.raises(PipelineError, match=text):
            execution.execute(
                spark, a_run("loss", topics=["orders"]), place, lambda *_: None, **options
            )

    assert (first.rows_expected, first.rows_read, first.rows_written) == (60, 60, 2)
    model = RESULTS["Loss"].objects
    assert [(one.run, one.topic, one.producer, one.first_seq) for one in model.all()] == [
        (again, "orders", "r", 60)
    ]
    rows = lake.read(spark, place.lake, "gold.loss").collect()
    assert [(row["producer"], row["missing"]) for row in rows] == [("r", 1)]
    # A file that was changed behind the manifest's back is not read.
    file = LakeFile.objects.filter(table="bronze.messages", topic="orders").first()
    assert file is not None
    path = place.lake / file.path
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(PipelineError, match="cannot be read"):
        execution.execute(spark, a_run("loss"), place, lambda *_: None)


# --- the archive ---------------------------------------------------------------------------------


def test_what_the_log_has_dropped_is_read_from_the_archive(spark: Any, place: Place) -> None:
    more(place, 100, body=8_000)
    leases = place.store / "leases"
    first = a_run("archive", parameters={"segments": 1})
    done(spark, first, place)

    config = replace(CONFIG, retention_bytes=1)
    before = _trimmed(place, config)
    for _ in range(3):
        done(spark, a_run("archive"), place)
    after = _trimmed(place, config)

    size = CONFIG.segment_bytes
    assert (leases / "archive").exists()
    assert before == size
    assert after >= 2 * size
    segments = [(one.first_log_offset, one.end_log_offset) for one in _segments()]
    assert segments == [(base, base + size) for base in range(0, after, size)]
    done(spark, a_run("ingest"), place)
    assert offsets(spark, place) == expected(100)
    assert sum(one.rows for one in _segments()) == sum(
        file.rows for file in LakeFile.objects.filter(table="archive.messages")
    )


def _segments() -> Any:
    return ArchivedSegment.objects.all()


def _trimmed(place: Place, config: EngineConfig) -> int:
    """Have retention take what it may, and return where the log starts now."""
    for lease in (place.store / "leases").glob("spark-*"):
        # Nobody tells a source that a batch has ended: its lease is over after ten minutes.
        lease.unlink()
    return trimmed(place.store, config, TOPICS)


# --- streams -------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_stream_that_is_cut_off_before_it_publishes_copies_each_message_once(
    spark: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    more(place, 40)
    row = PipelineStream.objects.create(name="live", worker="w", lease_ends_at=BORN)
    fired: list[int] = []
    whole = publishing._add_files

    def cut_off(*args: Any, **owner: Any) -> Any:
        files = whole(*args, **owner)
        if owner["batch"] == 1 and not fired:
            fired.append(1)
            raise RuntimeError("the worker dies here")
        return files

    def run() -> None:
        finished(
            lambda: streaming.stream(
                spark, place, row, rows_a_batch=50, trigger={"availableNow": True}
            )
        )

    monkeypatch.setattr(publishing, "_add_files", cut_off)
    with pytest.raises(Exception, match="the worker dies here"):
        run()
    published = len(offsets(spark, place))
    run()
    batches = {one.number: one.rows for one in StreamBatch.objects.all()}
    files = LakeFile.objects.count()
    # The checkpoint is lost: all of it comes again.
    shutil.rmtree(lakepaths.checkpoint(place.lake, row.pk))
    run()
    more(place, 10)
    run()

    assert fired
    assert published == 50
    assert batches == {0: 50, 1: 50, 2: 20}
    assert LakeFile.objects.count() > files
    assert offsets(spark, place) == expected(50)
