"""Notices that the event loop stands still, and says so in its place. Knows sockets, no engine.

The log is written on the loop (ADR 20), so a file system that holds writes back holds every answer
too. A thread of its own looks at the loop's beat; while it finds the loop in a call of the disk it
takes new connections itself and answers what is true: alive, not ready, nothing is taken.
"""

import asyncio
import logging
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType

from apps.doors.guard.rawanswers import healthy_answer, raw_answer

_log = logging.getLogger("mqweb.broker")

TICK_S = 0.5
# So many ticks without a beat: a loop that is noticed after 2.5 s is told of within 3.
STILL_TICKS = 4
_BEATS_A_TICK = 2
_HEAD_BYTES_MAX = 16 * 1024
_ANSWER_S = 1.0
_CONNECTIONS_MAX = 256
_DISK_MODULES = "apps.engine.files."
_FRAMES_MAX = 100


class Stillness:
    """Decides by ticks and beats whether the loop stands still. Pure."""

    def __init__(self, tick_ms: int) -> None:
        """Take it that the loop goes."""
        self._tick_ms = tick_ms
        self._beats = -1
        self._missed = 0
        self._last_ms: int | None = None
        self._since_ms = 0
        self.is_still = False
        self.count = 0
        self.total_ms = 0

    def tick(self, beats: int, now_ms: int) -> bool:
        """Take the number of beats so far; return whether `is_still` has changed."""
        # Who was late himself stood still with the whole process, or the machine did.
        is_late = self._last_ms is not None and now_ms - self._last_ms > 3 * self._tick_ms
        self._last_ms = now_ms
        was_still = self.is_still
        if beats != self._beats or (is_late and not was_still):
            self._beats, self._missed, self.is_still = beats, 0, False
            if was_still:
                self.total_ms += now_ms - self._since_ms
            self._since_ms = now_ms
        else:
            self._missed += 1
            self.is_still = was_still or self._missed >= STILL_TICKS
            self.count += self.is_still and not was_still
        return was_still is not self.is_still

    def still_ms(self, now_ms: int) -> int:
        """Return for how long the loop has given no beat."""
        return now_ms - self._since_ms


class Watchdog:
    """The thread that looks at the loop it was made on, from `start` to `stop`."""

    def __init__(
        self,
        listening: socket.socket,
        *,
        tick_s: float = TICK_S,
        is_in_disk: Callable[[FrameType | None], bool] | None = None,
    ) -> None:
        """Look at the running loop; answer on another handle of its listening socket."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._listening = socket.socket(fileno=os.dup(listening.fileno()))
        self._tick_s = tick_s
        self._is_in_disk = is_in_disk or is_in_disk_code
        self._beats = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = threading.Event()
        self._answerer = _Answerer(self._listening)
        self._thread = threading.Thread(target=self._run, name="standstill", daemon=True)
        self.stillness = Stillness(int(tick_s * 1_000))

    def start(self) -> None:
        """Begin to look."""
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.join()
        self._answerer.close()
        self._listening.close()

    def _beat(self) -> None:
        self._beats += 1
        self._timer = self._loop.call_later(self._tick_s / _BEATS_A_TICK, self._beat)

    def _run(self) -> None:
        stillness = self.stillness
        while not self._ended.is_set():
            is_in_disk = stillness.is_still and self._is_in_disk(self._frame())
            if is_in_disk:
                detail = f"a write has taken {stillness.still_ms(_now_ms())} ms so far"
                self._answerer.serve(self._tick_s, detail, partial(self._is_at, self._beats))
            else:
                self._answerer.finish()
                self._ended.wait(self._tick_s)
            if stillness.tick(self._beats, _now_ms()):
                self._tell()

    def _is_at(self, beats: int) -> bool:
        return self._beats == beats

    def _tell(self) -> None:
        now_ms = _now_ms()
        if self.stillness.is_still:
            place = _place(self._frame())
            still_ms = self.stillness.still_ms(now_ms)
            _aside(lambda: _log.error("loop_stands_still", extra={"at": place, "ms": still_ms}))
        else:
            total_ms = self.stillness.total_ms
            _aside(lambda: _log.warning("loop_goes_on", extra={"total_ms": total_ms}))

    def _frame(self) -> FrameType | None:
        return sys._current_frames().get(self._loop_thread)


class _Answerer:
    """Answers new connections by a problem document, and `/healthz` by the truth."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._open: dict[socket.socket, _Half] = {}

    def serve(self, seconds: float, detail: str, is_still: Callable[[], bool]) -> None:
        """Take connections and answer them for so long, but at most while the loop stands still."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0 and is_still():
            self._turn(left_s, detail, is_taking=is_still)

    def finish(self) -> None:
        """Bring to their end the connections that were taken."""
        while self._open:
            self._turn(_ANSWER_S, "the disk has held back a write", is_taking=lambda: False)

    def close(self) -> None:
        """Close what is left."""
        for connection in list(self._open):
            self._end(connection)

    def _turn(self, seconds: float, detail: str, *, is_taking: Callable[[], bool]) -> None:
        with selectors.DefaultSelector() as selector:
            if is_taking() and len(self._open) < _CONNECTIONS_MAX:
                selector.register(self._listening, selectors.EVENT_READ)
            for connection in self._open:
                selector.register(connection, selectors.EVENT_READ)
            for key, _ in selector.select(min(seconds, 0.1)):
                if key.fileobj is self._listening:
                    # A loop that goes on answers by itself, and by more than a refusal.
                    if is_taking():
                        self._take()
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self._read(key.fileobj, detail)
        now_s = time.monotonic()
        for connection in [one for one, half in self._open.items() if half.end_s <= now_s]:
            self._end(connection)

    def _take(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:
            # The loop goes on and was first, or the client has left.
            return
        connection.setblocking(False)
        self._open[connection] = _Half(time.monotonic() + _ANSWER_S)

    def _read(self, connection: socket.socket, detail: str) -> None:
        half = self._open[connection]
        try:
            data = connection.recv(_HEAD_BYTES_MAX)
            if not data:
                self._end(connection)
                return
            if half.is_answered:
                return
            half.head += data
            if b"\r\n\r\n" in half.head or len(half.head) > _HEAD_BYTES_MAX:
                half.is_answered = True
                connection.sendall(_answer_to(bytes(half.head), detail))
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            self._end(connection)

    def _end(self, connection: socket.socket) -> None:
        del self._open[connection]
        connection.close()


class _Half:
    """A connection whose request comes or whose answer goes."""

    __slots__ = ("end_s", "head", "is_answered")

    def __init__(self, end_s: float) -> None:
        self.end_s = end_s
        self.head = bytearray()
        self.is_answered = False


def is_in_disk_code(frame: FrameType | None) -> bool:
    """Say whether a thread is in a call of the disk."""
    for _ in range(_FRAMES_MAX):
        if frame is None:
            return False
        if str(frame.f_globals.get("__name__", "")).startswith(_DISK_MODULES):
            return True
        frame = frame.f_back
    return False


def _answer_to(head: bytes, detail: str) -> bytes:
    target = head.split(b" ", 2)[1:2]
    if target == [b"/healthz"]:
        return healthy_answer()
    return raw_answer("sync_stuck", detail)


def _place(frame: FrameType | None) -> str:
    if frame is None:
        return "nowhere"
    return f"{frame.f_globals.get('__name__', '?')}:{frame.f_lineno}"


def _aside(work: Callable[[], None]) -> None:
    """Do what may hang as the loop does: the log may lie on the same disk."""
    threading.Thread(target=work, name="standstill-log", daemon=True).start()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
