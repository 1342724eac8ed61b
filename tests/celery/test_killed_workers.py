"""Workers and their children killed in the middle of a task: what is run again, and what is not.

Row D7 of the fault table. Without `acks_late` a task is acknowledged before it begins, so it is
lost with its worker: that is Celery's rule, and the same on every broker.
"""

import time
from dataclasses import dataclass

import pytest
from celery.exceptions import WorkerLostError

from tests.celery.conftest import Site
from tests.celery.effects import DEADLINE_S, Effect, wait_for
from tests.celery.workers import running

pytestmark = pytest.mark.process

# Long enough for a worker to be given all its tasks before Redis takes them for lost.
_VISIBILITY_S = 5.0
# What a broker may add to the time-out: Redis looks each second, a lease is looked at as it ends.
_NOTICED_S = 20.0
_COUNTDOWN_S = _VISIBILITY_S + 3
_FETCHED_AHEAD = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """What became of the tasks of a worker that was killed while another one lived."""

    killed_s: float
    doomed: str
    heir: str
    early: list[Effect]
    """Of a task that ran, acknowledged before it began."""
    late: list[Effect]
    """Of a task that ran, to be acknowledged when it has ended."""
    ahead: list[list[Effect]]
    """Of tasks that the killed worker had fetched and not begun."""
    delayed: list[Effect]
    """Of a task that the living worker held for longer than the visibility time-out."""
    ready_after_stop: int
    """How many tasks waited for a worker when the living one had been stopped."""


def aftermath_of_a_kill(site: Site, lane: str) -> Aftermath:
    """Kill a worker whose hands are full; return what happened to everything it had."""
    early, late, delayed, own = (f"{lane}-{part}" for part in ("early", "late", "delayed", "own"))
    effects, record = site.effects, site.task("record_late")
    doomed = site.lane_worker(
        lane, "-c", "2", "--prefetch-multiplier", "8", visibility_s=_VISIBILITY_S
    )
    heir = site.lane_worker(own, "-c", "2", visibility_s=_VISIBILITY_S)
    with running(doomed), running(heir):
        record.apply_async(kwargs={"key": delayed}, queue=own, countdown=_COUNTDOWN_S)
        site.task("hold").apply_async(kwargs={"key": early}, queue=lane)
        site.task("hold_late").apply_async(kwargs={"key": late}, queue=lane)
        effects.wait_for(early, "begun")
        effects.wait_for(late, "begun")
        for number in range(_FETCHED_AHEAD):
            record.apply_async(kwargs={"key": lane, "what": str(number)}, queue=lane)
        reserved = site.inspect(doomed).reserved
        wait_for(lambda: len(reserved()[doomed.name]) == _FETCHED_AHEAD, "it fetched ahead")
        wait_for(lambda: site.broker.held(lane) == _FETCHED_AHEAD + 1, "the early one is settled")

        doomed.kill()
        killed_s = time.monotonic()
        site.app.control.add_consumer(lane, destination=[heir.name])
        effects.gate(early).touch()
        effects.gate(late).touch()
        effects.wait_for(late)
        for number in range(_FETCHED_AHEAD):
            effects.wait_for(lane, str(number))
        effects.wait_for(delayed)
        # Due after every copy that was made of the delayed one.
        record.apply_async(kwargs={"key": lane, "what": "after"}, queue=own, countdown=1)
        effects.wait_for(lane, "after")
        for name in (lane, own):
            wait_for(lambda name=name: site.broker.held(name) == 0, "nothing is left to come back")

        record.apply_async(kwargs={"key": lane, "what": "never"}, queue=own, countdown=3_600)
        scheduled = site.inspect(heir).scheduled
        wait_for(lambda: scheduled()[heir.name], "the heir holds a task for an hour")
        heir.stop()
    return Aftermath(
        killed_s=killed_s,
        doomed=doomed.name,
        heir=heir.name,
        early=effects.of_key(early),
        late=effects.of_key(late),
        ahead=[effects.of(lane, str(number)) for number in range(_FETCHED_AHEAD)],
        delayed=effects.of_key(delayed),
        ready_after_stop=site.ready(own),
    )


def check_the_late_one(found: Aftermath) -> None:
    """Assert that the task ran again in time, and that its effect came once."""
    first, again, done = found.late
    assert [effect.what for effect in found.late] == ["begun", "begun", "done"]
    assert (first.worker, again.worker) == (found.doomed, found.heir)
    assert first.task_id == again.task_id == done.task_id
    assert 0 < again.at_s - found.killed_s <= _VISIBILITY_S + _NOTICED_S


@pytest.fixture(scope="module")
def aftermaths() -> dict[str, Aftermath]:
    """Keep one aftermath a broker: it takes a while to come about."""
    return {}


@pytest.fixture
def aftermath(site_of_long_run: Site, key: str, aftermaths: dict[str, Aftermath]) -> Aftermath:
    """Return what a kill led to, the same for all tests on a broker."""
    name = site_of_long_run.broker.name
    if name not in aftermaths:
        aftermaths[name] = aftermath_of_a_kill(site_of_long_run, key)
    return aftermaths[name]


def test_a_task_acknowledged_late_is_run_again_and_its_effect_comes_once(
    aftermath: Aftermath,
) -> None:
    check_the_late_one(aftermath)


def test_a_task_acknowledged_early_is_lost_with_its_worker(aftermath: Aftermath) -> None:
    assert [effect.what for effect in aftermath.early] == ["begun"]


def test_tasks_fetched_ahead_by_a_killed_worker_run_once_each(aftermath: Aftermath) -> None:
    assert [len(effects) for effects in aftermath.ahead] == [1] * _FETCHED_AHEAD
    assert {effect.worker for effects in aftermath.ahead for effect in effects} == {aftermath.heir}


def test_a_living_worker_keeps_what_it_holds_beyond_the_time_out(
    site_of_long_run: Site, aftermath: Aftermath
) -> None:
    """On Redis it is handed out again: kombu's transport extends nothing."""
    if site_of_long_run.broker.extends_visibility:
        assert len(aftermath.delayed) == 1
    else:
        assert len(aftermath.delayed) > 1


def test_a_stopped_worker_gives_back_what_it_held(aftermath: Aftermath) -> None:
    assert aftermath.ready_after_stop == 1


def test_a_dead_child_fails_its_task_unless_told_otherwise(site: Site, key: str) -> None:
    site.pair()

    result = site.task("die_once").delay(key=key)

    with pytest.raises(WorkerLostError, match="SIGKILL"):
        result.get(DEADLINE_S)
    assert [effect.what for effect in site.effects.of_key(key)] == ["begun"]


def test_a_dead_child_puts_its_task_back_when_told_to(site: Site, key: str) -> None:
    site.pair()

    site.task("die_once_and_return").delay(key=key)

    site.effects.wait_for(key)
    first, second, done = site.effects.of_key(key)
    assert [effect.what for effect in (first, second, done)] == ["begun", "begun", "done"]
    assert first.task_id == second.task_id
    assert first.pid != second.pid


@pytest.mark.crash
@pytest.mark.parametrize("number", range(10))
def test_many_kills_in_mid_task(site_of_long_run: Site, key: str, number: int) -> None:
    check_the_late_one(aftermath_of_a_kill(site_of_long_run, key))
