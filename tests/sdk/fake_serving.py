"""How the fake broker is reached: real sockets, HTTP and the lane, and faults that are scripted.

Knows heads and bytes; what is answered is for who inherits it.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from tests.sdk.fake_bytes import refusal
from tests.sdk.fake_faults import Fault
from tests.sdk.fake_lane import PROTOCOL, carry

# What nobody releases is answered at the end of the run at the latest.
HELD_S_MAX = 120


class Serving:
    """A server on a free port of this machine, on a loop and a thread of its own."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.heads: list[str] = []
        self.under_way: Counter[str] = Counter()
        self.under_way_max: Counter[str] = Counter()
        self.answers_per_connection_max = 1_000_000_000
        self.has_lane = True
        self.lane_count = 0
        self.lane_requests: list[str] = []
        self.port = 0
        self._changed: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fault(self, match: str, action: str, **more: Any) -> Fault:
        fault = Fault(match, action, **more)
        self.faults.append(fault)
        return fault

    @contextmanager
    def running(self) -> Iterator[Self]:
        is_up = threading.Event()
        stop: list[Any] = []
        thread = threading.Thread(target=lambda: asyncio.run(self._main(is_up, stop)))
        thread.start()
        assert is_up.wait(60)
        try:
            yield self
        finally:
            for fault in self.faults:
                fault.release()
            assert self._loop is not None
            self._loop.call_soon_threadsafe(stop[0].set)
            thread.join(60)
            assert not thread.is_alive()

    async def _main(self, is_up: threading.Event, stop: list[Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        stop.append(asyncio.Event())
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        is_up.set()
        await stop[0].wait()
        # A connection of the last moment takes some turns of the loop to be accepted, and one that
        # is accepted after the server closed is left open by asyncio.
        for _ in range(10):
            await asyncio.sleep(0)
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for _ in range(3):
            await asyncio.sleep(0)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task that is cancelled before its first step closes nothing, so this is not one.
        self._writers.add(writer)
        task = asyncio.ensure_future(self._connection(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer_count = 0
        try:
            while answer_count < self.answers_per_connection_max:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                headers = dict(
                    line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line
                )
                if headers.get("upgrade") == PROTOCOL and self.has_lane:
                    self.lane_count += 1
                    await carry(self, head, reader, writer)
                    return
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                answer = await self.served(head, headers, body)
                if answer is None:
                    writer.transport.abort()
                    return
                writer.write(answer)
                await writer.drain()
                answer_count += 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def served(self, head: str, headers: dict[str, str], body: bytes) -> bytes | None:
        method, target, _ = head.split("\r\n", 1)[0].split(" ")
        line = f"{method} {target}"
        self.requests.append(line)
        self.heads.append(head)
        self.under_way[target] += 1
        self.under_way_max[target] = max(self.under_way_max[target], self.under_way[target])
        try:
            fault = self._fault_for(line)
            if fault is not None:
                fault.fired_count += 1
                fault.fired.set()
                if fault.action.startswith("hold"):
                    await asyncio.get_running_loop().run_in_executor(
                        None, fault.gate.wait, HELD_S_MAX
                    )
                if fault.action in ("reset_before", "hold_reset"):
                    return None
                if fault.action == "status":
                    return refusal(fault.status, fault.code, fault.retriable, fault.headers)
            answer = await self.answered(method, target, headers, body)
            return None if fault is not None and fault.action == "reset_after" else answer
        finally:
            self.under_way[target] -= 1

    def _fault_for(self, line: str) -> Fault | None:
        for fault in self.faults:
            if fault.match not in line or fault.fired_count >= fault.times:
                continue
            if not fault.skip:
                return fault
            fault.skip -= 1
        return None

    async def answered(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> bytes:
        raise NotImplementedError
