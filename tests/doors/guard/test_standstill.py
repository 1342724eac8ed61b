"""A loop that stands still: noticed, told in its place, and left alone when it goes on."""

import asyncio
import http.client
import json
import logging
import socket
import threading
from types import FrameType

import pytest

from apps.doors.guard import standstill
from apps.doors.guard.standstill import STILL_TICKS, Stillness, Watchdog, is_in_disk_code

TICK_MS = 500
HANG_S = 30


def test_a_loop_without_a_beat_for_some_ticks_stands_still_until_the_next() -> None:
    stillness = Stillness(TICK_MS)
    now_ms = 0
    assert not stillness.tick(1, now_ms)
    changes = []
    for _ in range(STILL_TICKS + 5):
        now_ms += TICK_MS
        changes.append(stillness.tick(1, now_ms))

    assert changes == [False] * (STILL_TICKS - 1) + [True] + [False] * 5
    assert (stillness.is_still, stillness.count) == (True, 1)
    assert stillness.tick(2, now_ms + TICK_MS)
    assert (stillness.is_still, stillness.total_ms) == (False, now_ms + TICK_MS)


def test_a_loop_that_beats_or_a_whole_process_that_was_stopped_does_not_stand_still() -> None:
    stillness = Stillness(TICK_MS)
    now_ms = 0
    for beats in range(100):
        now_ms += TICK_MS
        assert not stillness.tick(beats // STILL_TICKS, now_ms)
    for _ in range(20):
        # The thread itself comes back after a minute.
        now_ms += 60_000
        assert not stillness.tick(30, now_ms)
    assert stillness.count == 0


def test_a_call_of_the_disk_is_known_by_its_module() -> None:
    def frame_in(module: str) -> FrameType:
        scope: dict[str, object] = {"__name__": module}
        exec("import sys\ndef call():\n    return (lambda: sys._getframe())()", scope)
        found = scope["call"]()  # type: ignore[operator]
        assert isinstance(found, FrameType)
        return found

    assert is_in_disk_code(frame_in("apps.engine.files.posix"))
    assert not is_in_disk_code(frame_in("apps.engine.broker.pop"))
    assert not is_in_disk_code(None)


class Asked(threading.Thread):
    """Asks for a path in a connection of its own."""

    def __init__(self, port: int, path: str) -> None:
        super().__init__()
        self._port, self._path = port, path
        self.status, self.document = 0, {}

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=HANG_S)
        connection.request("GET", self._path)
        answer = connection.getresponse()
        self.status, self.document = answer.status, json.loads(answer.read())
        connection.close()


async def test_new_connections_are_told_the_truth_while_the_loop_hangs_in_the_disk(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    port = listening.getsockname()[1]
    taken = 0

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        taken += 1
        writer.close()

    server = await asyncio.start_server(take, sock=listening)
    is_hanging = True
    watchdog = Watchdog(listening, tick_s=0.01, is_in_disk=lambda _frame: is_hanging)
    watchdog.start()
    asked = [Asked(port, path) for path in ("/healthz", "/readyz", "/api/v1/topics/t/messages")]
    with caplog.at_level(logging.WARNING):
        for thread in asked:
            thread.start()
        # Nothing is awaited: the loop stands still here.
        for thread in asked:
            thread.join(HANG_S)
        # A slow machine may make the loop late again; that is no call of the disk.
        is_hanging = False
        while watchdog.stillness.is_still:
            await asyncio.sleep(0.001)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        while not taken:
            await asyncio.sleep(0.001)
        watchdog.stop()
        for thread in threading.enumerate():
            if thread.name == "standstill-log":
                thread.join()

    assert [(one.status, one.document.get("code")) for one in asked] == [
        (200, None), (503, "sync_stuck"), (503, "sync_stuck"),
    ]  # fmt: skip
    assert taken == 1
    assert watchdog.stillness.count >= 1
    assert {record.message for record in caplog.records} >= {"loop_stands_still", "loop_goes_on"}
    writer.close()
    server.close()
    await server.wait_closed()


async def test_who_says_nothing_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standstill, "_ANSWER_S", 60.0)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    watchdog = Watchdog(listening, tick_s=0.01, is_in_disk=lambda _frame: True)
    watchdog.start()
    silent = [socket.create_connection(listening.getsockname()) for _ in range(20)]
    asked = Asked(listening.getsockname()[1], "/healthz")
    asked.start()
    asked.join(HANG_S)
    assert asked.status == 200
    for connection in silent:
        connection.close()
    while watchdog.stillness.is_still:
        await asyncio.sleep(0.001)
    watchdog.stop()
    listening.close()


def test_who_comes_when_the_loop_goes_on_is_left_to_the_loop() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        answerer = standstill._Answerer(listening)
        with socket.create_connection(listening.getsockname()):
            # Still when it began to wait, and no more when somebody had come.
            answers = iter((True, True, False, False))
            answerer.serve(HANG_S, "held", lambda: next(answers))

            assert list(answers) == []
            taken, _ = listening.accept()
            taken.close()
        answerer.close()
