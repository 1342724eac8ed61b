"""Small JSON sends by REST: 64 keep-alive connections, each waits for its answer before the next.

Measured: requests per second and the time of each, from the write to the whole answer, in a closed
loop. The load generator is a process of its own that writes prepared bytes and reads status and
length only; no HTTP client library. The peers have no REST interface, so nothing is compared.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import cast

import uvloop

from benchmarks import isolated
from benchmarks.ours import Mqweb, MqwebClient
from benchmarks.readings import Reading, Work
from benchmarks.servers import HOST, ServerFailed
from benchmarks.settings import Settings, serving
from benchmarks.sides import PATIENCE_S, Durability

_CONNECTIONS = 64
_TOPIC = "orders"
_WARM_UP_S = 0.5
# A fixed width keeps every request equally long.
_NUMBER_DIGITS = 9


def measure(settings: Settings) -> Iterator[Reading]:
    """Yield a reading in each mode."""
    for _ in range(settings.repetitions):
        for durability in Durability:
            yield _reading(settings, durability)


def _reading(settings: Settings, durability: Durability) -> Reading:
    side = Mqweb()
    figures: dict[str, float] = {}
    count = 0
    try:
        with serving(settings, side, durability):
            client = side.mqweb_client()
            isolated.run(client.create, _TOPIC)
            seconds, took_ms, total = isolated.run(
                load, client.port, durability.value, settings.seconds
            )
            count = len(took_ms)
            fault = isolated.run(verify, client, total)
            percentiles = statistics.quantiles(took_ms, n=100)
            figures = {
                "requests/s": count / seconds,
                "p50 ms": percentiles[49],
                "p99 ms": percentiles[98],
                "max ms": max(took_ms),
            }
    except (ServerFailed, isolated.WorkFailed) as error:
        fault = str(error)
    return Reading(
        work=Work(
            title=f"REST, one small JSON message each, {_CONNECTIONS} connections, {durability}",
            headline="requests/s",
        ),
        side=side.name,
        is_ours=True,
        terms=side.terms(durability),
        count=count,
        figures=figures,
        fault=fault,
    )


def load(port: int, ack: str, seconds: float) -> tuple[float, list[float], int]:
    """Keep all connections busy; return the seconds, each request's ms, and how many were stored.

    The warm-up is in the last number only.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_load(port, ack, seconds))


async def _load(port: int, ack: str, seconds: float) -> tuple[float, list[float], int]:
    loop = asyncio.get_running_loop()
    generator = _Generator(port, ack)
    generator.begin_s = loop.time() + _WARM_UP_S
    generator.end_s = generator.begin_s + seconds
    connections: Sequence[_Connection] = [
        (await loop.create_connection(lambda: _Connection(generator), HOST, port))[1]
        for _ in range(_CONNECTIONS)
    ]
    async with asyncio.timeout(_WARM_UP_S + seconds + PATIENCE_S):
        await asyncio.gather(*(connection.ended for connection in connections))
    return seconds, generator.took_ms, generator.stored


class _Generator:
    """What all connections share: the numbers of the messages, and the readings."""

    def __init__(self, port: int, ack: str) -> None:
        self.begin_s = self.end_s = 0.0
        self.took_ms: list[float] = []
        self.stored = self._sent = 0
        body = b'{"messages":[{"body":"order %%0%dd","tag":"paid"}],"ack":"%b"}' % (
            _NUMBER_DIGITS,
            ack.encode(),
        )
        self._request = (
            b"POST /api/v1/topics/%b/messages HTTP/1.1\r\nHost: %b:%d\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (_TOPIC.encode(), HOST.encode(), port, len(body % 0))
        ) + body

    def next_request(self) -> bytes:
        """Return a request with a number of its own."""
        request = self._request % self._sent
        self._sent += 1
        return request


class _Connection(asyncio.Protocol):
    """One connection with one request at a time."""

    def __init__(self, generator: _Generator) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._generator = generator
        self._now = time.monotonic
        self._buffer = b""
        self._sent_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        # uvloop's transports have the methods without being subclasses.
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        """Take an answer; send the next request until the time is over."""
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        if len(self._buffer) < head_end + 4 + _content_length(self._buffer[:head_end]):
            return
        status, self._buffer = self._buffer[9:12], b""
        if status != b"201":
            self._end(RuntimeError(f"status {status!r}"))
            return
        now_s = self._now()
        generator = self._generator
        generator.stored += 1
        if generator.begin_s <= self._sent_s and now_s <= generator.end_s:
            generator.took_ms.append((now_s - self._sent_s) * 1000)
        if now_s < generator.end_s:
            self._send()
        else:
            self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell of a connection that was closed before its time."""
        if not self.ended.done():
            self._end(error or ConnectionError("closed by the server"))

    def _send(self) -> None:
        self._sent_s = self._now()
        self._transport.write(self._generator.next_request())

    def _end(self, error: Exception | None) -> None:
        if not self.ended.done():
            if error is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(error)
        self._transport.close()


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ValueError(f"an answer without a length: {head!r}")


def verify(client: MqwebClient, stored: int) -> str:
    """Take every message; say how they differ from the requests that were answered with 201."""
    _, found = client.consume(_TOPIC, stored)
    numbers = [int(body.rpartition(b" ")[2]) for body in found]
    if sorted(numbers) == list(range(stored)):
        return ""
    return f"{stored} stored, {len(numbers)} came, {len(set(numbers))} of them different"
