"""NATS JetStream with nats-py: asynchronous publish, file storage, fetch of 500 and ack.

Better than usual on purpose: the consumer acknowledges a whole fetch with one message (AckAll), and
everything but bulk publishing, where uvloop was no faster than asyncio's own loop, runs on it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.pacing import ticks_async
from benchmarks.peers import installed
from benchmarks.servers import HOST, Server, free_port
from benchmarks.sides import PATIENCE_S, Durability, Pace, Terms, Variant

T = TypeVar("T")

_PENDING = 1000
_FETCH = 500
_ACK_EVERY_PACED = 50
_DURABLE = "d"


@dataclass(frozen=True, slots=True)
class NatsClient:
    """One connection on one event loop."""

    port: int

    def create(self, topic: str) -> None:
        """Make a stream in files, with one durable consumer."""
        _run(self._create(topic))

    def produce(self, topic: str, bodies: Sequence[bytes]) -> float:
        """Publish with up to 1,000 acknowledgements outstanding."""
        return asyncio.run(self._produce(topic, bodies))

    def produce_batches(self, topic: str, bodies: Sequence[bytes], batch: int) -> float:
        """Publish so many, and wait until all are acknowledged."""
        return asyncio.run(self._produce_batches(topic, bodies, batch))

    def consume(self, topic: str, count: int) -> tuple[float, list[bytes]]:
        """Fetch 500 at a time and acknowledge them."""
        return _run(self._consume(topic, count))

    def one_by_one(self, topic: str, bodies: Sequence[bytes]) -> float:
        """Publish, each acknowledged before the next."""
        return _run(self._one_by_one(topic, bodies))

    def send_paced(self, topic: str, bodies: Sequence[bytes], pace: Pace) -> None:
        """Publish what is due at each tick."""
        _run(self._send_paced(topic, bodies, pace))

    def receive_stamped(self, topic: str, count: int) -> list[tuple[float, bytes]]:
        """Take messages from a push consumer, acknowledging 50 at a time."""
        return _run(self._receive_stamped(topic, count))

    async def _create(self, topic: str) -> None:
        async with self._jetstream() as jetstream:
            await jetstream.add_stream(name=topic, subjects=[topic], storage="file")
            await _subscribe(jetstream, topic)

    async def _produce(self, topic: str, bodies: Sequence[bytes]) -> float:
        async with self._jetstream() as jetstream:
            started = time.perf_counter()
            publish = jetstream.publish_async
            for body in bodies:
                # A refused message is missed by the consumer's check; its future is not kept.
                await publish(topic, body)
            await jetstream.publish_async_completed()
            return time.perf_counter() - started

    async def _produce_batches(self, topic: str, bodies: Sequence[bytes], batch: int) -> float:
        async with self._jetstream() as jetstream:
            started = time.perf_counter()
            for start in range(0, len(bodies), batch):
                for body in bodies[start : start + batch]:
                    await jetstream.publish_async(topic, body)
                await jetstream.publish_async_completed()
            return time.perf_counter() - started

    async def _consume(self, topic: str, count: int) -> tuple[float, list[bytes]]:
        async with self._jetstream() as jetstream:
            subscription = await _subscribe(jetstream, topic)
            bodies: list[bytes] = []
            started = time.perf_counter()
            while len(bodies) < count:
                try:
                    messages = await subscription.fetch(_FETCH, timeout=PATIENCE_S)
                except TimeoutError:
                    break
                await messages[-1].ack()
                bodies += [message.data for message in messages]
            await jetstream._nc.flush()
            return time.perf_counter() - started, bodies

    async def _one_by_one(self, topic: str, bodies: Sequence[bytes]) -> float:
        async with self._jetstream() as jetstream:
            started = time.perf_counter()
            for body in bodies:
                await jetstream.publish(topic, body)
            return time.perf_counter() - started

    async def _send_paced(self, topic: str, bodies: Sequence[bytes], pace: Pace) -> None:
        async with self._jetstream() as jetstream:
            async for due in ticks_async(pace, len(bodies)):
                for index in due:
                    await jetstream.publish_async(topic, bodies[index])
            await jetstream.publish_async_completed()

    async def _receive_stamped(self, topic: str, count: int) -> list[tuple[float, bytes]]:
        found: list[tuple[float, bytes]] = []
        async with self._jetstream() as jetstream:
            subscription = await jetstream.subscribe(topic, manual_ack=True, config=_acking_all())
            while len(found) < count:
                try:
                    message = await subscription.next_msg(PATIENCE_S)
                except TimeoutError:
                    break
                found.append((time.monotonic(), message.data))
                if len(found) % _ACK_EVERY_PACED == 0:
                    await message.ack()
        return found

    @asynccontextmanager
    async def _jetstream(self) -> AsyncIterator[Any]:  # nats-py has no annotations to check.
        import nats

        connection = await nats.connect(f"nats://{HOST}:{self.port}")
        try:
            yield connection.jetstream(publish_async_max_pending=_PENDING)
        finally:
            await connection.close()


async def _subscribe(jetstream: Any, topic: str) -> Any:
    return await jetstream.pull_subscribe(topic, _DURABLE, config=_acking_all())


def _acking_all() -> Any:
    from nats.js.api import AckPolicy, ConsumerConfig

    return ConsumerConfig(ack_policy=AckPolicy.ALL, max_ack_pending=20 * _FETCH)


def _run(work: Coroutine[Any, Any, T]) -> T:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


class Nats:
    """A nats-server with JetStream."""

    name = "NATS JetStream"

    def __init__(self) -> None:
        """Start nothing yet."""
        self._server: Server | None = None
        self._port = 0

    def missing(self) -> str:
        """Say what has to be installed."""
        return installed.missing("nats-server", "nats", "uvloop")

    def versions(self) -> str:
        """Return the versions of server and client."""
        server = installed.output_of("nats-server", "--version").split(":")[-1].strip()
        return f"nats-server {server}, {installed.clients('nats-py', 'uvloop')}"

    def terms(self, durability: Durability) -> Terms:
        """Say that a stream is synced every two minutes, which this version cannot change."""
        text = "file storage: answered when written, fsync every 2 minutes"
        return Terms(text=text, is_weaker=durability is Durability.SYNC)

    def start(self, durability: Durability, directory: Path) -> None:
        """Start on a free port; both modes are the same."""
        del durability
        self._port = free_port()
        address = ["-a", HOST, "-p", str(self._port)]
        program = installed.program("nats-server")
        command = [program, *address, "-js", "-sd", str(directory / "jetstream")]
        self._server = Server(command, directory=directory)
        self._server.wait_for(self._port)

    def clients(self) -> Sequence[Variant]:
        """Return the one way to use it."""
        return [Variant("", "", NatsClient(self._port))]

    def stop(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.stop()
            self._server = None
