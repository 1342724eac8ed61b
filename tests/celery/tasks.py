"""The tasks of the runs. Each notes what it does, so that a test can count effects.

Registered with one application at a time: what Celery shares would reach every application of the
process, the product's own too.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import Celery, Task

from tests.celery.effects import Effect, Effects

_LOOK_S = 0.02
_registrations: list[Callable[[Celery], Task]] = []


class Temporary(Exception):
    """What is worth another attempt."""


def register(app: Celery) -> None:
    """Give an application all tasks of this module."""
    for registration in _registrations:
        registration(app)


def _task(**options: Any) -> Callable[[Callable[..., object]], Callable[..., object]]:
    def kept(function: Callable[..., object]) -> Callable[..., object]:
        name = f"runs.{function.__name__}"
        _registrations.append(
            lambda app: app.task(name=name, shared=False, bind=True, **options)(function)
        )
        return function

    return kept


def _effects(task: Task) -> Effects:
    return Effects(Path(task.app.conf["effects_directory"]))


def _note(task: Task, key: str, what: str) -> None:
    request = task.request
    _effects(task).note(
        Effect(
            key=key,
            what=what,
            task_id=request.id,
            attempt=request.retries,
            pid=os.getpid(),
            worker=request.hostname,
            at_s=time.monotonic(),
        )
    )


def _hold(task: Task, key: str) -> bool:
    """Note the beginning, wait for the gate, then do what must be done once for a key."""
    _note(task, key, "begun")
    effects = _effects(task)
    while not effects.gate(key).exists():
        time.sleep(_LOOK_S)
    is_first = effects.happens_first(key)
    if is_first:
        _note(task, key, "done")
    return is_first


def _die_once(task: Task, key: str) -> str:
    _note(task, key, "begun")
    if _effects(task).happens_first(f"death-{key}"):
        os.kill(os.getpid(), signal.SIGKILL)
    _note(task, key, "done")
    return key


@_task()
def record(self: Task, key: str, what: str = "done") -> str:
    """Note that it ran; acknowledged before it began, as is Celery's default."""
    _note(self, key, what)
    return key


@_task(acks_late=True)
def record_late(self: Task, key: str, what: str = "done") -> str:
    """Note that it ran; acknowledged when it has ended."""
    _note(self, key, what)
    return key


@_task()
def add(self: Task, augend: int, addend: int) -> int:
    """Return a sum."""
    return augend + addend


@_task()
def total(self: Task, numbers: list[int]) -> int:
    """Return the sum of a group's results."""
    return sum(numbers)


@_task(autoretry_for=(Temporary,), retry_kwargs={"max_retries": 3, "countdown": 0.5})
def flaky(self: Task, key: str, failures: int) -> str:
    """Fail so many times."""
    _note(self, key, "begun")
    if self.request.retries < failures:
        raise Temporary(f"attempt {self.request.retries}")
    return key


@_task()
def hold(self: Task, key: str) -> bool:
    """Hold at a gate; acknowledged before it began."""
    return _hold(self, key)


@_task(acks_late=True)
def hold_late(self: Task, key: str) -> bool:
    """Hold at a gate; acknowledged when it has ended."""
    return _hold(self, key)


@_task(acks_late=True)
def die_once(self: Task, key: str) -> str:
    """Kill the child process that runs it, the first time."""
    return _die_once(self, key)


@_task(acks_late=True, reject_on_worker_lost=True)
def die_once_and_return(self: Task, key: str) -> str:
    """Kill the child process that runs it, the first time, and be put back for that."""
    return _die_once(self, key)


@_task(rate_limit="5/s")
def limited(self: Task, key: str) -> None:
    """Note that it ran, at most five times a second in one worker."""
    _note(self, key, "done")
