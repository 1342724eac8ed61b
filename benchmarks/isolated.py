"""Client work in fresh processes: one measurement's heap and loop are not the next one's."""

import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any, Generic, TypeVar, cast

Answer = TypeVar("Answer")

_CONTEXT = multiprocessing.get_context("spawn")
_TIMEOUT_S = 300.0
_BARRIER_S = 60.0


class WorkFailed(Exception):
    """The client process raised, died or hung; the text says which."""


def barrier(parties: int) -> Barrier:
    """Return a barrier that processes started here can wait at."""
    return _CONTEXT.Barrier(parties, timeout=_BARRIER_S)


class Running(Generic[Answer]):
    """A function at work in a process of its own."""

    def __init__(self, function: Callable[..., Answer], *arguments: object) -> None:
        """Start the process; function and arguments must be importable and picklable."""
        self._name = function.__name__
        self._answers, sender = _CONTEXT.Pipe(duplex=False)
        self._process = _CONTEXT.Process(target=_work, args=(sender, function, arguments))
        self._process.start()
        sender.close()

    def result(self, timeout_s: float = _TIMEOUT_S) -> Answer:
        """Wait for the answer; raise WorkFailed when there is none."""
        try:
            if not self._answers.poll(timeout_s):
                raise WorkFailed(f"{self._name} took longer than {timeout_s:.0f} s")
            answer, failure = self._answers.recv()
        except EOFError as error:
            raise WorkFailed(f"the process of {self._name} died") from error
        finally:
            self.stop()
        if failure:
            raise WorkFailed(f"{self._name}: {failure}")
        return cast("Answer", answer)

    def stop(self) -> None:
        """End the process if it still runs."""
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._answers.close()


def run(function: Callable[..., Answer], *arguments: object) -> Answer:
    """Carry out a function in a fresh process, after the disk has taken what earlier ones wrote."""
    os.sync()
    return Running(function, *arguments).result()


def _work(sender: Connection, function: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    try:
        answer = function(*arguments)
    # The one place where a client process ends; whatever happened is told to the parent.
    except Exception:
        sender.send((None, traceback.format_exc()))
    else:
        sender.send((answer, ""))
    sender.close()
