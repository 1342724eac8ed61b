"""Many tasks through two workers: every task runs, and none twice unless something died."""

import threading
from collections import Counter

import pytest
from kombu.exceptions import OperationalError

from tests.celery.application import LANE
from tests.celery.conftest import Site
from tests.celery.effects import Effects, wait_for
from tests.celery.workers import Worker

pytestmark = pytest.mark.process

_DEADLINE_S = 300.0
_WORKERS = 2
_CHILDREN = 2
# A child has one task, and its worker fetches four ahead.
_HELD_MAX = _WORKERS * _CHILDREN * (4 + 1)
_RESTART_VISIBILITY_S = 5.0
_AHEAD = 50


def run_all(site: Site, key: str, count: int) -> None:
    """Send so many tasks one by one to two standing workers; assert that each ran once."""
    names = {worker.name for worker in site.pair()}

    for number in range(count):
        arguments = {"key": key, "what": str(number)}
        site.task("record").apply_async(kwargs=arguments, ignore_result=True)
    wait_for(lambda: len(_runs(site, key)) >= count, f"{count} runs", _DEADLINE_S)
    wait_for(lambda: site.broker.held(LANE) == 0, "all are acknowledged")

    runs = _runs(site, key)
    assert runs == Counter(str(number) for number in range(count))
    assert {effect.worker for effect in site.effects.of_key(key)} == names


def _runs(site: Site, key: str) -> Counter[str]:
    return Counter(effect.what for effect in site.effects.of_key(key))


def test_a_thousand_tasks_run_once_each(site_of_long_run: Site, key: str) -> None:
    run_all(site_of_long_run, key, 1_000)


@pytest.mark.longest
@pytest.mark.crash
def test_ten_thousand_tasks_run_once_each(site_of_long_run: Site, key: str) -> None:
    run_all(site_of_long_run, key, 10_000)


class Sender:
    """Sends numbered tasks in a thread, each until the broker has answered.

    Stays near the workers, so that whenever the broker dies it is sent to.
    """

    def __init__(self, site: Site, key: str, count: int) -> None:
        """Prepare; `start` sends."""
        self.sent = 0
        self.refused = 0
        self._site, self._key, self._count = site, key, count
        self._thread = threading.Thread(target=self._send)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def join(self) -> None:
        """Return when all are sent."""
        self._thread.join(_DEADLINE_S)
        assert not self._thread.is_alive()

    def _send(self) -> None:
        task = self._site.task("record_late")
        effects = Effects(self._site.directory)
        while self.sent < self._count:
            wait_for(lambda: self.sent - len(effects.of_key(self._key)) < _AHEAD, "workers keep up")
            arguments = {"key": self._key, "what": str(self.sent)}
            try:
                task.apply_async(kwargs=arguments, queue=self._key, ignore_result=True)
            except OperationalError:
                # Not answered, which is not the same as not stored.
                self.refused += 1
            else:
                self.sent += 1


class Crew:
    """Two workers of one lane; one that ends by itself is replaced, as a service manager would."""

    def __init__(self, site: Site, lane: str) -> None:
        """Start both."""
        self.replaced = 0
        self._site, self._lane = site, lane
        self._workers = [self._new(), self._new()]
        for worker in self._workers:
            worker.wait_until_ready()

    def mend(self) -> None:
        """Replace those that have ended."""
        for place, worker in enumerate(self._workers):
            if not worker.lives:
                self._workers[place] = self._new()
                self.replaced += 1

    def stop(self) -> None:
        """Stop both in order."""
        for worker in self._workers:
            worker.stop()

    def kill(self) -> None:
        """Leave nothing behind."""
        for worker in self._workers:
            if worker.lives:
                worker.kill()

    def _new(self) -> Worker:
        pool = ("-c", str(_CHILDREN))
        return self._site.lane_worker(self._lane, *pool, visibility_s=_RESTART_VISIBILITY_S)


def run_through_restarts(site: Site, key: str, *, count: int, kills: int) -> None:
    """Kill the broker while tasks are sent and run; assert that each ran, few of them twice.

    Kombu's Redis transport is allowed what it cannot hold: it takes a message off a list first, and
    notes who has it afterwards; and its worker may end when an acknowledgement meets a connection
    that is gone.
    """
    broker = site.broker
    sender, crew = Sender(site, key, count), Crew(site, key)

    def has_run(wanted: int) -> bool:
        crew.mend()
        return len(_runs(site, key)) >= wanted

    try:
        sender.start()
        for number in range(1, kills + 1):
            wanted = number * count // (kills + 1)
            wait_for(lambda wanted=wanted: has_run(wanted), f"{wanted} runs")
            assert sender.sent < count, "the kill came too late to hit the sender"
            site.kill_broker()
        allowed = kills * _WORKERS * broker.lost_by_a_worker
        wait_for(lambda: has_run(count - allowed), "the tasks ran", _DEADLINE_S)
        sender.join()
        wait_for(lambda: broker.held(key) == 0, "all are acknowledged")
        if broker.workers_survive:
            assert crew.replaced == 0
            crew.stop()
    finally:
        crew.kill()

    runs = _runs(site, key)
    lost, again = count - len(runs), sum(runs.values()) - len(runs)
    print(
        f"{count} tasks, {kills} kills: {sender.refused} sends refused, {lost} tasks lost, "
        f"{again} run again, {crew.replaced} workers replaced"
    )
    assert again <= kills * _HELD_MAX + sender.refused


def test_a_broker_killed_in_the_middle_loses_no_task(site_of_long_run: Site, key: str) -> None:
    run_through_restarts(site_of_long_run, key, count=600, kills=1)


@pytest.mark.longest
@pytest.mark.crash
def test_a_broker_killed_many_times_loses_no_task(site_of_long_run: Site, key: str) -> None:
    run_through_restarts(site_of_long_run, key, count=6_000, kills=6)
