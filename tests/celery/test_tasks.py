"""One task at a time: retried, delayed, urgent, limited."""

import time
from datetime import timedelta
from itertools import pairwise

import pytest
from celery.exceptions import TaskRevokedError
from celery.exceptions import TimeoutError as NoResult

from tests.celery.conftest import Site
from tests.celery.effects import DEADLINE_S, wait_for
from tests.celery.tasks import Temporary
from tests.celery.workers import running

pytestmark = pytest.mark.process

_COUNTDOWN_S = 1.0
# An ETA is a moment of the wall clock, which is steered; effects carry the monotonic one.
_CLOCKS_DIFFER_S = 0.05


def test_a_task_that_fails_twice_is_attempted_three_times(site: Site, key: str) -> None:
    site.pair()

    result = site.task("flaky").delay(key=key, failures=2)

    assert result.get(DEADLINE_S) == key
    attempts = site.effects.of(key, "begun")
    assert [effect.attempt for effect in attempts] == [0, 1, 2]
    gaps_s = [later.at_s - earlier.at_s for earlier, later in pairwise(attempts)]
    assert min(gaps_s) >= 0.5 - _CLOCKS_DIFFER_S


def test_a_task_that_always_fails_is_attempted_four_times_and_fails(site: Site, key: str) -> None:
    site.pair()

    result = site.task("flaky").delay(key=key, failures=100)

    with pytest.raises(Temporary):
        result.get(DEADLINE_S)
    assert [effect.attempt for effect in site.effects.of(key, "begun")] == [0, 1, 2, 3]


def test_a_countdown_is_never_early_and_runs_once(site: Site, key: str) -> None:
    site.pair()
    sent_s = time.monotonic()

    result = site.task("record").apply_async(kwargs={"key": key}, countdown=_COUNTDOWN_S)

    result.get(DEADLINE_S)
    (effect,) = site.effects.of(key)
    assert effect.at_s - sent_s >= _COUNTDOWN_S - _CLOCKS_DIFFER_S


def test_an_eta_is_kept_in_the_order_of_times_and_not_of_sending(site: Site, key: str) -> None:
    site.pair()
    found = []
    # A machine that is slow for a while runs what is due close together in any order: then it
    # gets more time between them, which helps nobody who goes by the order of sending.
    for gap_s in (0.4, 1.6, 6.4):
        name = f"{key}-{gap_s}"
        now = site.app.now()
        for number, gaps in enumerate((4, 2, 3)):
            site.task("record").apply_async(
                kwargs={"key": name, "what": str(number)}, eta=now + timedelta(seconds=gaps * gap_s)
            )
        for what in ("0", "1", "2"):
            site.effects.wait_for(name, what)
        effects = sorted(site.effects.of_key(name), key=lambda effect: effect.at_s)
        found.append([effect.what for effect in effects])
        if found[-1] == ["1", "2", "0"]:
            return
    pytest.fail(f"never in the order of times: {found}")


def test_an_expired_task_is_not_run(site: Site, key: str) -> None:
    site.pair()

    expired = site.task("record").apply_async(kwargs={"key": key}, expires=-1)
    site.task("record").delay(key=key, what="after").get(DEADLINE_S)

    with pytest.raises(TaskRevokedError, match="expired"):
        expired.get(DEADLINE_S)
    assert site.effects.of(key) == []


def test_urgent_tasks_run_first(site: Site, key: str) -> None:
    urgent_first = sorted((0, 3, 6, 9), reverse=site.broker.urgent > site.broker.lenient)
    for step in (6, 0, 9, 3):
        for number in range(3):
            site.task("record").apply_async(
                kwargs={"key": key, "what": f"{step}-{number}"}, priority=step, queue=key
            )

    one_at_a_time = ("-c", "1", "--prefetch-multiplier", "1")
    with running(site.lane_worker(key, *one_at_a_time, visibility_s=60)):
        for step in urgent_first:
            for number in range(3):
                site.effects.wait_for(key, f"{step}-{number}")

    order = [effect.what for effect in site.effects.of_key(key)]
    assert order == [f"{step}-{number}" for step in urgent_first for number in range(3)]


def test_a_rate_limit_spaces_the_tasks_of_each_worker(site: Site, key: str) -> None:
    workers = site.pair()
    sent_s = time.monotonic()
    for _ in range(10):
        site.task("limited").delay(key=key)

    effects = site.effects.wait_for(key, count=10)

    assert sum(effect.worker in {worker.name for worker in workers} for effect in effects) == 10
    for worker in workers:
        times_s = sorted(effect.at_s for effect in effects if effect.worker == worker.name)
        # Five a second: one may begin at once, each other waits for the bucket to fill again. On a
        # busy machine any may begin late, and the next be closer to it for that.
        for number, at_s in enumerate(times_s):
            assert at_s - sent_s >= number * 0.2 - _CLOCKS_DIFFER_S


def test_a_task_nobody_takes_has_no_result_yet(site: Site, key: str) -> None:
    result = site.task("record").apply_async(kwargs={"key": key}, queue=key)

    with pytest.raises(NoResult):
        result.get(0.2)
    assert site.broker.held(key) == 1


@pytest.mark.crash
@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_other_pools_keep_the_same_promises(site: Site, key: str, pool: str) -> None:
    with running(site.lane_worker(key, "-P", pool, visibility_s=60)) as worker:
        for number in range(50):
            arguments = {"key": key, "what": str(number)}
            site.task("record_late").apply_async(kwargs=arguments, queue=key)
        for number in range(50):
            site.effects.wait_for(key, str(number))
        wait_for(lambda: site.broker.held(key) == 0, "all are acknowledged")
        worker.stop()

    assert len(site.effects.of_key(key)) == 50
