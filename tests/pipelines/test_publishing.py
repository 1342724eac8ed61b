"""Publishing against the database, with files that are any bytes: all of it visible, or nothing."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from apps.pipelines import lakepaths
from apps.pipelines.errors import LakeDamaged, NotReconciled, PipelineError, PositionMoved, RunLost
from apps.pipelines.models import (
    RESULTS,
    IngestPosition,
    LakeFile,
    PipelineRun,
    PipelineStream,
    RunInput,
    RunState,
    StreamBatch,
)
from apps.pipelines.selectors import lake as selector
from apps.pipelines.services import publishing, tidying
from apps.pipelines.services.publications import InputRange, Move, Publication, StagedFile

pytestmark = pytest.mark.django_db

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def a_run(job: str = "ingest", **changes: Any) -> PipelineRun:
    values = {
        "job": job,
        "window_start": AT - timedelta(hours=1),
        "window_end": AT,
        "key": f"key {PipelineRun.objects.count()}",
        "code_version": "v1",
        "trigger": "command",
        "requested_by": "test",
        "requested_at": AT,
        "state": RunState.RUNNING,
        "worker": "worker-1",
        "started_at": AT,
        **changes,
    }
    return PipelineRun.objects.create(**values)


def a_file(lake: Path, name: str = "a", *, table: str = "bronze.messages", **changes: Any) -> Any:
    path = lake / lakepaths.STAGING / "any" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(name.encode())
    values = {
        "topic": "orders",
        "day": date(2026, 3, 1),
        "rows": 10,
        "first_at": AT - timedelta(hours=1),
        "last_at": AT,
        **changes,
    }
    return StagedFile(table=table, path=path, size_bytes=len(name), **values)


def a_move(first: int | None, end: int, *, queue: int = 0) -> Move:
    return Move(
        table="bronze.messages",
        store_id="s" * 32,
        topic="orders",
        queue=queue,
        known=first,
        next_offset=end,
    )


def a_publication(*files: StagedFile, **changes: Any) -> Publication:
    rows = sum(file.rows for file in files)
    values = {"rows_expected": rows, "rows_read": rows, "rows_made": rows, **changes}
    return Publication(files=files, **values)


def publish(run: PipelineRun, publication: Publication, lake: Path, at: datetime = AT) -> Any:
    return publishing.publish(run, publication, lake=lake, at=at)


def parquet_below(lake: Path) -> list[str]:
    return sorted(path.relative_to(lake).as_posix() for path in lake.rglob("part-*"))


def test_files_rows_positions_and_the_run_become_visible_together(tmp_path: Path) -> None:
    run = a_run()
    ranges = [InputRange(table="bronze.messages", topic="orders", end_offset=10, rows=10)]

    done = publish(
        run,
        a_publication(a_file(tmp_path), inputs=ranges, moves=[a_move(None, 10)]),
        tmp_path,
        AT + timedelta(seconds=90),
    )

    run.refresh_from_db()
    (file,) = LakeFile.objects.all()
    assert file.path == f"bronze/messages/topic=orders/dt=2026-03-01/part-{run.pk}-0.parquet"
    assert (tmp_path / file.path).read_bytes() == b"a"
    assert (run.state, run.published, run.rows_written) == (RunState.DONE, True, 10)
    assert (run.duration_ms, run.ended_at) == (90_000, AT + timedelta(seconds=90))
    assert IngestPosition.objects.get().next_offset == 10
    assert RunInput.objects.get().run == done
    (told,) = run.lineage["outputs"]
    assert told["outputFacets"] == {"rowCount": 10, "size": 1, "files": [file.path]}
    assert run.lineage["inputs"][0]["inputFacets"]["offsets"] == {"0": [0, 10]}


@pytest.mark.parametrize("topic", ["%RETRY%billing", "%DLQ%billing", "a|b", "..", "|" * 127])
def test_a_topics_name_never_leaves_its_directory(tmp_path: Path, topic: str) -> None:
    publish(a_run(), a_publication(a_file(tmp_path, topic=topic)), tmp_path)

    path = LakeFile.objects.get().path
    assert path.count("/") == 4
    assert set(path).isdisjoint("|*?[]{}\\ ")
    assert (tmp_path / path).is_file()
    assert "topic=%25RETRY%25billing" in path or topic != "%RETRY%billing"


class Broken(Exception):
    pass


@pytest.mark.parametrize("step", ["_move_positions", "_add_files", "_copy", "_finish"])
def test_what_breaks_on_the_way_leaves_nothing_that_anybody_sees(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fired = []

    def broken(*_: Any, **__: Any) -> None:
        fired.append(step)
        raise Broken

    run = a_run("loss")
    publication = a_publication(
        a_file(tmp_path), moves=[a_move(None, 10)], results={"gold.loss": [_loss(1)]}
    )
    monkeypatch.setattr(publishing, step, broken)

    with pytest.raises(Broken), transaction.atomic():
        publish(run, publication, tmp_path)

    assert fired == [step]
    assert not LakeFile.objects.exists()
    assert not IngestPosition.objects.exists()
    assert not RESULTS["Loss"].objects.exists()
    run.refresh_from_db()
    assert (run.state, run.published) == (RunState.RUNNING, False)


def _loss(first: int, producer: str = "p") -> tuple[Any, ...]:
    return ("orders", 0, producer, 0, first, first, 1, 17, AT)


def test_a_run_that_was_cut_off_behind_its_files_publishes_them_when_it_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run()
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "_finish", lambda *_: (_ for _ in ()).throw(Broken))
        with pytest.raises(Broken), transaction.atomic():
            publish(run, a_publication(a_file(tmp_path), moves=[a_move(None, 10)]), tmp_path)
    assert len(parquet_below(tmp_path)) == 1

    publish(run, a_publication(a_file(tmp_path, "b"), moves=[a_move(None, 10)]), tmp_path)

    (file,) = LakeFile.objects.all()
    assert parquet_below(tmp_path) == [file.path]
    assert (tmp_path / file.path).read_bytes() == b"b"


def test_a_second_execution_of_a_run_publishes_nothing_and_touches_no_file(tmp_path: Path) -> None:
    run = a_run()
    publish(run, a_publication(a_file(tmp_path)), tmp_path)

    with pytest.raises(RunLost, match="is done"):
        publish(run, a_publication(a_file(tmp_path, "late")), tmp_path)

    assert (tmp_path / LakeFile.objects.get().path).read_bytes() == b"a"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"worker": "worker-2"}, "of worker worker-2"),
        ({"cancel_requested": True}, "was cancelled"),
        ({"state": RunState.INTERRUPTED, "ended_at": AT}, "is interrupted"),
    ],
)
def test_a_worker_that_lost_its_run_publishes_nothing(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    run = a_run()
    PipelineRun.objects.filter(pk=run.pk).update(**changes)

    with pytest.raises(RunLost, match=text):
        publish(run, a_publication(a_file(tmp_path)), tmp_path)

    assert parquet_below(tmp_path) == []
    assert not LakeFile.objects.exists()


@pytest.mark.parametrize("count", ["rows_expected", "rows_read", "rows_made"])
def test_a_row_too_few_anywhere_publishes_nothing(tmp_path: Path, count: str) -> None:
    with pytest.raises(NotReconciled):
        publish(a_run(), a_publication(a_file(tmp_path), **{count: 11}), tmp_path)

    assert not LakeFile.objects.exists()


@pytest.mark.parametrize("known", [None, 5, 11])
def test_who_copies_the_same_messages_later_publishes_nothing(
    tmp_path: Path, known: int | None
) -> None:
    publish(a_run(), a_publication(a_file(tmp_path), moves=[a_move(None, 10)]), tmp_path)

    with pytest.raises(PositionMoved) as told:
        publish(a_run(), a_publication(a_file(tmp_path), moves=[a_move(known, 20)]), tmp_path)

    assert told.value.retriable
    assert IngestPosition.objects.get().next_offset == 10
    publish(a_run(), a_publication(a_file(tmp_path), moves=[a_move(10, 20)]), tmp_path)
    assert IngestPosition.objects.get().next_offset == 20


def test_a_rerun_takes_the_place_of_files_and_rows_at_once(tmp_path: Path) -> None:
    first = a_run("loss")
    gold = {"table": "gold.loss", "topic": ""}
    publish(
        first,
        a_publication(a_file(tmp_path, **gold), results={"gold.loss": [_loss(1), _loss(5)]}),
        tmp_path,
    )
    again = a_run("loss", replaces=first)

    publish(
        again,
        a_publication(a_file(tmp_path, **gold), results={"gold.loss": [_loss(7)]}),
        tmp_path,
    )

    assert [file.run for file in selector.files_of("gold.loss")] == [again]
    assert LakeFile.objects.get(run=first).retired_by == again
    assert [row.first_seq for row in RESULTS["Loss"].objects.all()] == [7]


def test_texts_are_stored_whatever_is_in_them(tmp_path: Path) -> None:
    longs = ["x" * 400 + "1", "x" * 400 + "2", 'a\tb\\N"\n', "nul\0"]

    publish(
        a_run("loss"),
        a_publication(results={"gold.loss": [_loss(1, text) for text in longs]}),
        tmp_path,
    )

    found = [row.producer for row in RESULTS["Loss"].objects.order_by("id")]
    assert found[2:] == ['a\tb\\N"\n', "nul\ufffd"]
    assert len({*found}) == 4
    assert max(map(len, found)) == 255


def test_a_file_that_is_retired_meanwhile_stops_who_would_take_its_place(tmp_path: Path) -> None:
    publish(a_run(), a_publication(a_file(tmp_path)), tmp_path)
    old = LakeFile.objects.get()
    publish(a_run("compact"), a_publication(a_file(tmp_path), retires=[old.pk]), tmp_path)

    with pytest.raises(LakeDamaged):
        publish(a_run("compact"), a_publication(a_file(tmp_path), retires=[old.pk]), tmp_path)

    assert selector.files_of("bronze.messages").count() == 1


def test_readers_get_the_files_of_their_time_and_topics(tmp_path: Path) -> None:
    hour = timedelta(hours=1)
    for number in range(3):
        begin = AT + number * hour
        for topic in ("orders", "payments"):
            file = a_file(
                tmp_path, f"{topic}{number}", topic=topic, first_at=begin, last_at=begin + hour / 2
            )
            publish(a_run(), a_publication(file), tmp_path)

    found = selector.files_of(
        "bronze.messages", start=AT + hour, end=AT + 2 * hour, topics=["orders"]
    )

    assert [(file.topic, file.first_at) for file in found] == [("orders", AT + hour)]
    assert selector.files_of("bronze.messages").count() == 6


# --- streams -------------------------------------------------------------------------------------


def test_a_batch_and_its_positions_are_published_together_and_once(tmp_path: Path) -> None:
    stream = PipelineStream.objects.create(name="s", worker="w", lease_ends_at=AT)

    def batch(move: Move, worker: str = "w") -> None:
        stream.worker = worker
        publishing.publish_batch(
            stream,
            3,
            a_publication(a_file(tmp_path), moves=[move]),
            lake=tmp_path,
            at=AT,
            token="t0",
            duration_ms=5,
        )

    batch(a_move(None, 10))
    for move, worker in ((a_move(None, 10), "w"), (a_move(10, 20), "another")):
        with pytest.raises(PipelineError):
            batch(move, worker)

    (file,) = LakeFile.objects.all()
    assert (file.stream, file.batch, file.run) == (stream, 3, None)
    assert file.path.endswith(f"/part-s{stream.pk}-3-t0-0.parquet")
    assert StreamBatch.objects.get().rows == 10


# --- what is left --------------------------------------------------------------------------------


def test_what_nobody_reads_goes_and_nothing_else(tmp_path: Path) -> None:
    done, running, dead = a_run(), a_run(), a_run(state=RunState.INTERRUPTED, ended_at=AT)
    publish(done, a_publication(a_file(tmp_path)), tmp_path)
    kept = LakeFile.objects.get()
    for run in (running, dead):
        lakepaths.staging(tmp_path, run.pk, "t").mkdir(parents=True)
        (tmp_path / kept.path).with_name(f"part-{run.pk}-0.parquet").write_bytes(b"x")

    removed = tidying.tidy(tmp_path, at=AT)

    assert (removed.staging, removed.orphans, removed.retired) == (1, 1, 0)
    assert lakepaths.staging(tmp_path, running.pk, "t").is_dir()
    assert {Path(path).name for path in parquet_below(tmp_path)} == {
        f"part-{done.pk}-0.parquet",
        f"part-{running.pk}-0.parquet",
    }


def test_a_retired_file_stays_for_those_who_read_it_and_then_goes(tmp_path: Path) -> None:
    publish(a_run(), a_publication(a_file(tmp_path)), tmp_path)
    file = LakeFile.objects.get()
    publish(a_run("compact"), a_publication(retires=[file.pk]), tmp_path)

    assert tidying.tidy(tmp_path, at=AT + DAY / 2).retired == 0
    assert (tmp_path / file.path).exists()
    assert tidying.tidy(tmp_path, at=AT + 2 * DAY).retired == 1
    assert not (tmp_path / file.path).exists()
    file.refresh_from_db()
    assert file.deleted_at == AT + 2 * DAY
