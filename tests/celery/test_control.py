"""What reaches workers beside tasks: remote control and its replies, events, and fan-out."""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError
from kombu import Exchange

from tests.celery.application import NEWS
from tests.celery.conftest import Site
from tests.celery.effects import DEADLINE_S, wait_for

pytestmark = pytest.mark.process

_REPLY_S = 10.0


def test_ping_is_answered_by_every_worker(site: Site) -> None:
    names = {worker.name for worker in site.pair()}

    answers = site.app.control.ping(limit=len(names), timeout=_REPLY_S)

    assert {name for answer in answers for name in answer} == names
    assert all(reply == {"ok": "pong"} for answer in answers for reply in answer.values())


def test_inspect_tells_what_runs_and_what_can_run(site: Site, key: str) -> None:
    first, second = site.pair()
    result = site.task("hold").delay(key=key)
    (begun,) = site.effects.wait_for(key, "begun")

    inspect = site.inspect(first, second)
    active, registered = inspect.active(), inspect.registered()
    site.effects.gate(key).touch()

    running = [(name, task["id"]) for name, found in active.items() for task in found]
    assert running == [(begun.worker, result.id)]
    assert set(registered) == {first.name, second.name}
    assert all("runs.record" in names for names in registered.values())
    assert result.get(DEADLINE_S) is True


def test_a_task_revoked_before_its_time_is_never_run(site: Site, key: str) -> None:
    inspect = site.inspect(*site.pair())
    result = site.task("record").apply_async(kwargs={"key": key}, countdown=3)
    wait_for(lambda: _is_scheduled(inspect.scheduled(), result.id), "a worker holds the task")

    site.app.control.revoke(result.id, reply=True, timeout=_REPLY_S, limit=2)

    with pytest.raises(TaskRevokedError):
        result.get(DEADLINE_S)
    assert site.effects.of(key) == []


def _is_scheduled(answers: dict[str, Any] | None, task_id: str) -> bool:
    entries = [entry for found in (answers or {}).values() for entry in found]
    return any(entry["request"]["id"] == task_id for entry in entries)


def test_a_running_task_is_terminated(site: Site, key: str) -> None:
    site.pair()
    result = site.task("hold").delay(key=key)
    (begun,) = site.effects.wait_for(key, "begun")

    result.revoke(terminate=True, signal="SIGKILL")

    with pytest.raises(TaskRevokedError):
        result.get(DEADLINE_S)
    wait_for(lambda: not _lives(begun.pid), "the child process is gone")
    assert site.effects.of(key) == []
    # The place in the pool is filled again.
    assert site.task("add").delay(1, 2).get(DEADLINE_S) == 3


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_broadcast_is_run_once_by_each_worker(site: Site, key: str) -> None:
    names = Counter(worker.name for worker in site.pair())

    # A sender that has not declared the exchange would take it for a direct one.
    exchange = Exchange(NEWS, type="fanout")
    site.task("record").apply_async(
        kwargs={"key": key}, exchange=exchange, routing_key=NEWS, declare=[exchange]
    )

    site.effects.wait_for(key, count=2)
    site.task("add").delay(1, 2).get(DEADLINE_S)
    assert Counter(effect.worker for effect in site.effects.of(key)) == names


def test_a_watcher_sees_what_becomes_of_a_task(site: Site, key: str) -> None:
    site.pair()
    with watching(site) as events:
        wait_for(lambda: "worker-heartbeat" in {event["type"] for event in events}, "a heartbeat")

        result = site.task("record").delay(key=key)
        result.get(DEADLINE_S)

        wait_for(lambda: "task-succeeded" in _seen(events, result.id), "the end is seen")

    seen = _seen(events, result.id)
    assert seen == ["task-received", "task-started", "task-succeeded"]


def _seen(events: list[dict[str, Any]], task_id: str) -> list[str]:
    return [event["type"] for event in events if event.get("uuid") == task_id]


@contextmanager
def watching(site: Site) -> Iterator[list[dict[str, Any]]]:
    """Collect all events while the block runs."""
    events: list[dict[str, Any]] = []
    with site.app.connection_for_read() as connection:
        receiver = site.app.events.Receiver(connection, handlers={"*": events.append})
        thread = threading.Thread(target=receiver.capture, kwargs={"limit": None, "wakeup": True})
        thread.start()
        try:
            yield events
        finally:
            receiver.should_stop = True
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
