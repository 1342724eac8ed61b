"""Opening and closing this process's engine, and what its failures mean for the process."""

import asyncio
import logging
import os
import socket
import sys
from dataclasses import dataclass

from apps.bridge import conf
from apps.bridge import engine as bridge
from apps.bridge.exits import Exit
from apps.engine.clock import SystemClock
from apps.engine.errors import CannotOpen, Damaged, EngineError, StoreLocked
from apps.engine.local import LocalEngine

_log = logging.getLogger("mqweb.broker")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the store could not be opened, and the exit code that says so."""

    error: EngineError
    code: Exit


class Stop:
    """The end of a process's serving: asked for by the server, carried out by the application."""

    def __init__(self) -> None:
        """Nothing has been asked for yet."""
        self.requested = asyncio.Event()
        self.finished = asyncio.Event()


_refusal: Refusal | None = None
_stop: Stop | None = None
_listening: socket.socket | None = None


def refusal() -> Refusal | None:
    """Return why the last opening failed; None when it did not."""
    return _refusal


def refuse(error: EngineError) -> None:
    """Have the process end as one that was set up wrongly, for a reason that is no store's."""
    global _refusal
    _refusal = Refusal(error, Exit.REFUSED)


def listens_on(listening: socket.socket) -> None:
    """Take note of the socket this process is reached by; whoever made it closes it."""
    global _listening
    _listening = listening


def listening() -> socket.socket | None:
    """Return the socket this process is reached by; None where no server runs."""
    return _listening


def expect_stop() -> Stop:
    """Return what `stop` will ask for; whoever takes it must set `finished` at the end."""
    global _stop
    _stop = Stop()
    return _stop


async def stop() -> None:
    """Ask the application to close what it has opened, and return when it has."""
    if _stop is not None:
        _stop.requested.set()
        await _stop.finished.wait()


async def open_engine() -> LocalEngine:
    """Open the store on the running loop and make its engine the one of this process.

    Raises EngineError and keeps it as `refusal()`.
    """
    global _refusal
    path = conf.store_path()
    path.mkdir(parents=True, exist_ok=True)
    try:
        engine = await LocalEngine.open(
            path,
            conf.engine_config(),
            clock=SystemClock(),
            failpoints=conf.failpoints(),
            on_fatal=end_process,
        )
    except EngineError as error:
        _refusal = Refusal(error, _exit_of(error))
        raise
    bridge.install(engine, asyncio.get_running_loop())
    report = engine.status().recovery
    _log.info(
        "store_opened",
        extra={
            "epoch": report.epoch,
            "clean": report.clean,
            "scanned_bytes": report.scanned_bytes,
            "cut_bytes": report.cut_bytes,
            "cut_reason": report.cut_reason,
        },
    )
    return engine


async def close_engine(engine: LocalEngine) -> None:
    """Take the engine out of service and close it."""
    bridge.remove()
    await engine.close()
    _log.info("store_closed")


def end_process(error: EngineError) -> None:
    """End the process at once: what the engine believes is no longer what the disk holds.

    Nothing is closed or flushed on the way; the next start recovers from the disk alone.
    """
    _log.critical("engine_failed", extra={"code": error.code, "detail": str(error)})
    sys.stderr.flush()
    os._exit(Exit.FATAL)


def _exit_of(error: EngineError) -> Exit:
    if isinstance(error, StoreLocked):
        return Exit.HELD
    return Exit.UNOPENABLE if isinstance(error, CannotOpen | Damaged) else Exit.FAILED
