"""Nothing is worked out of half a window: what is not copied is copied first, or the run fails."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from apps.core.moments import moment
from apps.engine.codec.layout import TRACE_TOPIC
from apps.engine.local import LocalEngine
from apps.engine.offline.view import StoreView
from apps.engine.testing.manualclock import ManualClock
from apps.pipelines.models import IngestPosition, PipelineRun, RunState
from apps.pipelines.services import claims
from apps.pipelines.spark import copyfirst
from apps.pipelines.spark.copyfirst import CopyFirst
from apps.pipelines.spark.coverage import is_copied, is_copied_up_to
from tests.engine.offline.stores import publish, send, written
from tests.pipelines.runs import START, asked, ended

pytestmark = pytest.mark.django_db

STEP_MS = 1_000
SENT = 4


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Path:
    """Return a store with a message in each of two queues every second, and a trace of each."""

    async def fill(engine: LocalEngine) -> None:
        publish(engine, {"orders": 2, "empty": 1, TRACE_TOPIC: 1})
        for _ in range(SENT):
            for queue in (0, 1):
                await send(engine, "orders", queue, b"body")
            await send(engine, TRACE_TOPIC, 0, b"trace")
            clock.advance(STEP_MS)

    return written(tmp_path / "store", fill, clock=clock)


def copied(store: Path, topic: str, queue: int, upto: int) -> None:
    view = StoreView(store)
    store_id = view.store.identity.store_id.hex()
    view.close()
    IngestPosition.objects.update_or_create(
        store_id=store_id,
        topic=topic,
        queue=queue,
        defaults={"next_offset": upto, "moved_at": START},
    )


def copied_all(store: Path, upto: int) -> None:
    for topic, queue in (("orders", 0), ("orders", 1), (TRACE_TOPIC, 0)):
        copied(store, topic, queue, upto)


def after(clock: ManualClock, seconds: int) -> Any:
    """Return the moment so many seconds after the first message."""
    return moment(clock.wall_ms()) - timedelta(milliseconds=(SENT - seconds) * STEP_MS)


def test_a_window_is_copied_when_each_queue_is_copied_up_to_its_end(
    store: Path, clock: ManualClock
) -> None:
    copied_all(store, 2)

    covered = [is_copied_up_to(store, after(clock, seconds), []) for seconds in range(SENT + 1)]

    assert covered == [True, True, True, False, False]


@pytest.mark.parametrize(("topic", "queue"), [("orders", 0), ("orders", 1), (TRACE_TOPIC, 0)])
def test_one_queue_that_is_behind_is_enough(
    store: Path, clock: ManualClock, topic: str, queue: int
) -> None:
    copied_all(store, SENT)
    assert is_copied_up_to(store, after(clock, SENT), [])

    copied(store, topic, queue, SENT - 1)

    assert not is_copied_up_to(store, after(clock, SENT), [])
    assert not is_copied_up_to(store, after(clock, SENT), ["orders"])
    assert is_copied_up_to(store, after(clock, SENT), ["empty"]) is (topic == "orders")


def test_a_message_of_the_moment_in_which_the_window_ends_is_behind_it(
    store: Path, clock: ManualClock
) -> None:
    copied_all(store, 2)
    border = after(clock, 2)

    assert is_copied_up_to(store, border, [])
    assert not is_copied_up_to(store, border + timedelta(microseconds=1), [])


def a_run(clock: ManualClock, **changed: Any) -> PipelineRun:
    """Return a claimed run over all that was sent."""
    end = after(clock, SENT)
    asked(window_start=end - timedelta(hours=1), window_end=end, **changed)
    run = claims.claim("w")
    assert run is not None
    return run


def test_a_window_that_may_not_show_in_the_files_yet_is_not_taken_for_copied(
    store: Path, clock: ManualClock
) -> None:
    copied_all(store, SENT)
    run = a_run(clock)

    early = is_copied(run, store=store, clock=clock)
    clock.advance(int(claims.SETTLE / timedelta(milliseconds=1)))

    assert (early, is_copied(run, store=store, clock=clock)) == (False, True)


def test_what_reads_no_bronze_waits_for_nothing(store: Path, clock: ManualClock) -> None:
    assert is_copied(a_run(clock, job="rebalances"), store=store, clock=clock)


def test_beside_a_store_that_is_gone_the_lake_can_still_be_asked(
    tmp_path: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    run = a_run(clock)
    clock.advance(60_000)

    assert is_copied(run, store=tmp_path / "nothing", clock=clock)
    assert "coverage_unknown" in caplog.messages


class Turns:
    """Takes the part of a runner, and says of each run what came of it."""

    def __init__(self, answers: Iterator[bool]) -> None:
        self.carried: list[str] = []
        self.first = CopyFirst(then=self._carry, is_copied=lambda _run: next(answers))

    def _carry(self, _spark: object, run: PipelineRun) -> RunState:
        self.carried.append(run.job)
        ended(run, "done")
        return RunState.DONE

    def turn(self) -> RunState | None:
        """Claim and carry out as a worker does; None when nothing may begin."""
        run = claims.claim("w")
        return None if run is None else self.first.carry_out(None, run)


def test_what_is_not_copied_is_copied_first_and_then_worked_out() -> None:
    asked()
    turns = Turns(iter([False, True, True]))

    states = [turns.turn() for _ in range(4)]

    assert states == [RunState.QUEUED, RunState.DONE, RunState.DONE, None]
    assert turns.carried == ["ingest", "loss"]


def test_a_run_fails_where_its_copy_did_not_do() -> None:
    run = asked()
    turns = Turns(iter([False, True, False]))

    states = [turns.turn() for _ in range(4)]

    run.refresh_from_db()
    assert states == [RunState.QUEUED, RunState.DONE, RunState.FAILED, None]
    assert run.error.startswith("not_copied: bronze does not have all of the window yet")
    assert turns.carried == ["ingest"]


def test_asked_for_anew_it_is_copied_for_anew() -> None:
    asked()
    failing = Turns(iter([False, True, False]))
    for _ in range(3):
        failing.turn()
    asked()
    turns = Turns(iter([False, True, True]))

    states = [turns.turn() for _ in range(3)]

    assert states == [RunState.QUEUED, RunState.DONE, RunState.DONE]
    assert PipelineRun.objects.filter(job="ingest").count() == 2


def test_one_that_is_called_off_meanwhile_is_left_to_who_carries_runs_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked()
    monkeypatch.setattr(claims, "put_back", lambda _run: False)
    turns = Turns(iter([False]))

    assert (turns.turn(), turns.carried) == (RunState.DONE, ["loss"])


def test_while_the_database_is_away_nothing_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(_run: PipelineRun) -> bool:
        raise OperationalError("away")

    run = asked()
    claimed = claims.claim("w")
    assert claimed is not None
    # The test's own transaction is on this connection.
    monkeypatch.setattr(copyfirst.connection, "close", lambda: None)

    state = CopyFirst(then=lambda _s, _r: RunState.DONE, is_copied=away).carry_out(None, claimed)

    run.refresh_from_db()
    assert (state, run.state) == (RunState.INTERRUPTED, "running")
