"""mqweb itself: the whole product, started by its one command, and its SDK as the client.

`manage.py runmq` starts PostgreSQL and `manage.py broker`, the process that is measured: uvicorn,
the HTTP door and the engine. Topics have four queues, the product's default.
"""

import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import mqclient
import psutil
from mqclient.values import AckMode

from benchmarks.pacing import ticks
from benchmarks.servers import HOST, Server, ServerFailed, free_port
from benchmarks.sides import PATIENCE_S, Durability, Pace, Terms, Variant

_MANAGE = Path(__file__).resolve().parent.parent / "manage.py"
_GROUP = "bench"
_QUEUE_COUNT = 4
_READY_S = 60.0
_LOOK_S = 0.1
# One call of `send_many` waits for all its batches; several calls bound what is in memory.
_SEND_MANY = 25_000
_FETCH = 4_096
_TIMEOUT_S = 60.0
_TERMS = {
    Durability.ASYNC: "answered when written, fdatasync every 500 ms",
    Durability.SYNC: "answered after fdatasync",
}


@dataclass(frozen=True, slots=True)
class MqwebClient:
    """One SDK client, by default as a user makes it."""

    port: int
    ack: AckMode
    is_piecemeal: bool = False
    """Send message by message into the producer's buffer, instead of many in one call."""
    is_by_position: bool = False
    """Read queues by position (LitePullConsumer), instead of by lease (SimpleConsumer)."""
    is_lane: bool = False
    """Send over the lane, instead of by HTTP."""

    def create(self, topic: str) -> None:
        """Make a topic of four queues."""
        with mqclient.Admin(self._server) as admin:
            admin.create_topic(topic, queue_count=_QUEUE_COUNT)

    def produce(self, topic: str, bodies: Sequence[bytes]) -> float:
        """Send with the producer's own batching; every result is looked at."""
        with self._producer() as producer:
            # The first send asks for the topic's queues and connects.
            started = time.perf_counter()
            if self.is_piecemeal:
                futures = [producer.send_async(topic, body) for body in bodies]
                producer.flush()
                for future in futures:
                    future.result()
            else:
                for start in range(0, len(bodies), _SEND_MANY):
                    producer.send_many(topic, bodies[start : start + _SEND_MANY])
            return time.perf_counter() - started

    def produce_batches(self, topic: str, bodies: Sequence[bytes], batch: int) -> float:
        """Wait for each call of `send_many`."""
        with self._producer(linger_ms=0.0) as producer:
            started = time.perf_counter()
            for start in range(0, len(bodies), batch):
                producer.send_many(topic, bodies[start : start + batch])
            return time.perf_counter() - started

    def consume(self, topic: str, count: int) -> tuple[float, list[bytes]]:
        """Take messages, parsed and checked, and settle them."""
        return self._pull(topic, count) if self.is_by_position else self._receive(topic, count)

    def one_by_one(self, topic: str, bodies: Sequence[bytes]) -> float:
        """Send each with `Producer.send`, which waits for nothing but the answer."""
        with self._producer(linger_ms=0.0, in_flight_max=1) as producer:
            started = time.perf_counter()
            for body in bodies:
                producer.send(topic, body)
            return time.perf_counter() - started

    def send_paced(self, topic: str, bodies: Sequence[bytes], pace: Pace) -> None:
        """Put what is due at each tick into the producer's buffer."""
        with self._producer() as producer:
            for due in ticks(pace, len(bodies)):
                for index in due:
                    producer.send_async(topic, bodies[index])

    def receive_stamped(self, topic: str, count: int) -> list[tuple[float, bytes]]:
        """Take messages as they come."""
        found: list[tuple[float, bytes]] = []
        with self._consumer(topic) as consumer:
            while len(found) < count and (messages := consumer.receive()):
                now_s = time.monotonic()
                found += [(now_s, message.body) for message in messages]
                consumer.ack(messages)
        return found

    @property
    def _server(self) -> str:
        return f"http://{HOST}:{self.port}"

    def _producer(self, **settings: Any) -> mqclient.Producer:  # By name, as the SDK takes them.
        return mqclient.Producer(
            self._server, ack=self.ack, timeout_s=_TIMEOUT_S, lane=self.is_lane, **settings
        )

    def _consumer(self, topic: str) -> mqclient.SimpleConsumer:
        wait_ms = int(PATIENCE_S * 1000)
        return mqclient.SimpleConsumer(
            topic, _GROUP, self._server, messages_max=_FETCH, wait_ms=wait_ms
        )

    def _receive(self, topic: str, count: int) -> tuple[float, list[bytes]]:
        bodies: list[bytes] = []
        with self._consumer(topic) as consumer:
            started = time.perf_counter()
            while len(bodies) < count and (messages := consumer.receive()):
                consumer.ack(messages)
                bodies += [message.body for message in messages]
            return time.perf_counter() - started, bodies

    def _pull(self, topic: str, count: int) -> tuple[float, list[bytes]]:
        bodies: list[bytes] = []
        with mqclient.LitePullConsumer(
            self._server, group=f"{_GROUP}-pull", poll_messages_max=_FETCH
        ) as consumer:
            started = time.perf_counter()
            consumer.assign(consumer.fetch_queues(topic))
            while len(bodies) < count and (messages := consumer.poll(PATIENCE_S)):
                bodies += [message.body for message in messages]
            consumer.commit()
            return time.perf_counter() - started, bodies


class Mqweb:
    """The product, as `manage.py runmq` starts it."""

    name = "mqweb"

    def __init__(self) -> None:
        """Start nothing yet."""
        self._server: Server | None = None
        self._port = 0
        self.grpc_port = 0
        self._ack = AckMode.ASYNC

    def missing(self) -> str:
        """Return nothing: this repository is the product."""
        return ""

    def versions(self) -> str:
        """Return the version of the client, which is the product's."""
        return f"mqclient {metadata.version('mqclient')}"

    def terms(self, durability: Durability) -> Terms:
        """Say what an acknowledgement means."""
        return Terms(text=_TERMS[durability])

    def start(self, durability: Durability, directory: Path) -> None:
        """Start the whole product; return when it is ready."""
        self._port, self.grpc_port = free_port(), free_port()
        self._ack = AckMode(durability.value)
        flags = {
            "--data": str(directory / "data"),
            "--port": str(self._port),
            "--ack": durability.value,
            "--log-level": "WARNING",
        }
        command = [sys.executable, str(_MANAGE), "runmq"]
        command += [part for item in flags.items() for part in item]
        environ = {"MQWEB_GRPC_PORT": str(self.grpc_port)}
        self._server = Server(command, directory=directory, environ=environ)
        self._server.wait_for(self._port)
        self._wait_until_ready()

    def mqweb_client(self) -> MqwebClient:
        """Return the client as a user makes it."""
        return MqwebClient(self._port, self._ack)

    @property
    def pid(self) -> int:
        """Return the broker's process, a child of the one that was started."""
        assert self._server is not None
        for process in psutil.Process(self._server.pid).children(recursive=True):
            if "broker" in process.cmdline():
                return process.pid
        raise ServerFailed("there is no broker")

    def clients(self) -> Sequence[Variant]:
        """Return the two ways to send, by HTTP and over the lane, and the two ways to read."""
        many = self.mqweb_client()
        piecemeal = replace(many, is_piecemeal=True, is_by_position=True)
        many_lane, piecemeal_lane = replace(many, is_lane=True), replace(piecemeal, is_lane=True)
        return [
            Variant("Producer.send_many", "SimpleConsumer", many),
            Variant("Producer.send_async", "LitePullConsumer", piecemeal),
            Variant("Producer.send_many, lane", "", many_lane, single="lane"),
            Variant("Producer.send_async, lane", "", piecemeal_lane),
        ]

    def stop(self) -> None:
        """Stop the product."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def _wait_until_ready(self) -> None:
        deadline_s = time.monotonic() + _READY_S
        while time.monotonic() < deadline_s:
            try:
                urllib.request.urlopen(f"http://{HOST}:{self._port}/readyz", timeout=5).close()
            except urllib.error.URLError:
                time.sleep(_LOOK_S)
            else:
                return
        raise ServerFailed(f"not ready after {_READY_S:.0f} s")
