"""How long rows of runs are kept: results for a time, runs as long as the lake shows their work."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from apps.core.moments import moment, ms_of
from apps.pipelines.models import (
    RESULTS,
    IngestPosition,
    LakeFile,
    PipelineRun,
    PipelineStream,
    RunInput,
    StreamBatch,
)
from apps.pipelines.selectors.results import latest, scope_of_run
from apps.pipelines.services import forgetting
from apps.pipelines.services.forgetting import forget
from tests.web.pipelines.rows import NOW, file, row, run

pytestmark = pytest.mark.django_db

KEEP = timedelta(days=100)
OLD = NOW - timedelta(days=101)
NOW_MS = ms_of(NOW)
YOUNG = moment(NOW_MS) - timedelta(days=99)


def look(**changed: Any) -> int:
    """Forget what is old, until nothing more is found; return how much that was."""
    done, steps = 0, 0
    while (step := forget(now_ms=NOW_MS, keep=KEEP, **changed)).more:
        done, steps = done + step.done, steps + 1
        assert steps < 100
    return done + step.done


def old_run(job: str = "loss", **said: Any) -> PipelineRun:
    return run(job, **{"ended_at": OLD, **said})


def left() -> set[int]:
    return set(PipelineRun.objects.values_list("pk", flat=True))


def pks(*runs: PipelineRun) -> set[int]:
    return {one.pk for one in runs}


def rows_of(runs: Iterable[PipelineRun]) -> int:
    return sum(
        model._default_manager.filter(run__in=pks(*runs)).count() for model in RESULTS.values()
    )


def test_an_old_run_goes_with_what_it_found_out_and_a_younger_one_stays() -> None:
    gone = [old_run(), old_run(state="failed"), old_run(state="cancelled")]
    kept = [run("loss", ended_at=YOUNG), run("loss", state="running"), run("loss", state="queued")]
    for one in (gone[0], kept[0]):
        row("gold.loss_totals", one, topic="orders")
        row("gold.loss", one, topic="orders")
        RunInput.objects.create(
            run=one, table="t", topic="t", queue=0, first_offset=0, end_offset=1, rows=1
        )

    look()

    assert left() == pks(*kept)
    assert (rows_of(gone), rows_of(kept)) == (0, 2)
    assert RunInput.objects.get().run == kept[0]


def test_a_run_whose_file_is_in_the_lake_stays_without_its_results_and_says_so() -> None:
    made = old_run()
    row("gold.loss_totals", made, topic="orders")
    file(made, "gold/a.parquet", table="gold.loss_totals")

    look()

    made.refresh_from_db()
    assert made.results_deleted_at == NOW
    assert rows_of([made]) == 0
    assert latest("loss") is None
    assert list(scope_of_run(made).runs) == []


def test_what_a_file_was_compacted_from_is_known_as_long_as_the_file() -> None:
    first, second, third, other = (
        old_run("ingest"), old_run("compact"), old_run("compact"), old_run("ingest"),
    )  # fmt: skip
    gone = {"retired_at": OLD, "deleted_at": OLD}
    file(first, "a", retired_by=second, **gone)
    file(second, "b", retired_by=third, **gone)
    last = file(third, "c")
    # Of another topic: nothing that is left came of it.
    file(other, "d", topic="else", retired_by=third, **gone)

    look()

    assert left() == pks(first, second, third)
    assert set(LakeFile.objects.values_list("path", flat=True)) == {"a", "b", "c"}

    by = old_run("compact")
    LakeFile.objects.filter(pk=last.pk).update(retired_by=by, **gone)
    for _ in range(3):
        look()

    assert left() == set()
    assert not LakeFile.objects.exists()


def test_a_file_that_is_retired_and_still_there_keeps_its_run() -> None:
    made, by = old_run(), old_run()
    file(made, "a", retired_at=OLD, retired_by=by)

    look()

    assert left() == pks(made, by)


def test_a_run_that_moved_a_position_last_stays() -> None:
    made = old_run("ingest")
    IngestPosition.objects.create(
        table="t", store_id="s", topic="t", queue=0, next_offset=1, moved_at=OLD, run=made
    )

    look()

    assert left() == pks(made)


def test_batches_of_streams_go_by_their_age() -> None:
    stream = PipelineStream.objects.create(name="ingest")
    for number, ended_at in enumerate((OLD, OLD, YOUNG)):
        StreamBatch.objects.create(
            stream=stream, number=number, rows=1, duration_ms=1, ended_at=ended_at
        )

    done = look()

    assert done == 2
    assert StreamBatch.objects.get().number == 2


def test_much_is_deleted_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "RESULTS_PER_STEP", 2)
    for _ in range(5):
        row("gold.loss_totals", old_run(), topic="orders")

    step = forget(now_ms=NOW_MS, keep=KEEP, rows_max=1)
    assert (step.more, len(left())) == (True, 4)
    look(rows_max=1)

    assert left() == set()
