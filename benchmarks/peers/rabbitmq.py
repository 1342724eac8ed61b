"""RabbitMQ with pika: a durable classic queue, persistent messages, prefetch 1,000, multiple acks.

Batches in `async` mode are published without confirms and timed until the queue counts them all;
in `sync` mode with up to 1,000 confirms outstanding. One by one always means confirmed.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.pacing import ticks
from benchmarks.peers import installed
from benchmarks.peers.rabbitmq_node import Node
from benchmarks.peers.rabbitmq_publish import Publication
from benchmarks.servers import HOST
from benchmarks.sides import PATIENCE_S, Durability, Pace, Terms, Variant

T = TypeVar("T")

_PREFETCH = 1000
_ACK_EVERY = 500
_ACK_EVERY_PACED = 50
_TERMS = {
    Durability.ASYNC: "persistent: batches unconfirmed until counted; single sends confirmed",
    Durability.SYNC: "persistent, publisher confirms: answered after fsync",
}


@dataclass(frozen=True, slots=True)
class RabbitClient:
    """One connection, one channel."""

    port: int
    is_confirmed: bool

    def create(self, topic: str) -> None:
        """Make an empty durable queue."""
        connection, channel = self._open()
        channel.queue_delete(topic)
        channel.queue_declare(topic, durable=True)
        connection.close()

    def produce(self, topic: str, bodies: Sequence[bytes]) -> float:
        """Publish on pika's asynchronous connection, the faster of the two."""
        return Publication(self._parameters(), topic, bodies, is_confirmed=self.is_confirmed).run()

    def produce_batches(self, topic: str, bodies: Sequence[bytes], batch: int) -> float:
        """Publish with so many confirms outstanding, also in `async` mode."""
        publication = Publication(
            self._parameters(), topic, bodies, is_confirmed=True, window=batch
        )
        return publication.run()

    def consume(self, topic: str, count: int) -> tuple[float, list[bytes]]:
        """Take what is pushed, acknowledging 500 at a time."""
        return self._take(topic, count, _ACK_EVERY, lambda body: body)

    def one_by_one(self, topic: str, bodies: Sequence[bytes]) -> float:
        """Publish, each confirmed before the next."""
        connection, channel = self._open()
        channel.confirm_delivery()
        persistent = self._persistent()
        started = time.perf_counter()
        for body in bodies:
            channel.basic_publish("", topic, body, persistent)
        seconds = time.perf_counter() - started
        connection.close()
        return seconds

    def send_paced(self, topic: str, bodies: Sequence[bytes], pace: Pace) -> None:
        """Publish what is due at each tick."""
        connection, channel = self._open()
        persistent = self._persistent()
        for due in ticks(pace, len(bodies)):
            for index in due:
                channel.basic_publish("", topic, bodies[index], persistent)
        connection.close()

    def receive_stamped(self, topic: str, count: int) -> list[tuple[float, bytes]]:
        """Take what is pushed, acknowledging 50 at a time."""
        stamped = self._take(topic, count, _ACK_EVERY_PACED, lambda body: (time.monotonic(), body))
        return stamped[1]

    def _take(
        self, topic: str, count: int, ack_every: int, keep: Callable[[bytes], T]
    ) -> tuple[float, list[T]]:
        """Collect what is pushed until `count` came, or nothing for a while; return the seconds."""
        connection, channel = self._open()
        found: list[T] = []

        def take(channel: Any, method: Any, _properties: Any, body: bytes) -> None:
            found.append(keep(body))
            if len(found) % ack_every == 0 or len(found) == count:
                channel.basic_ack(method.delivery_tag, multiple=True)

        channel.basic_qos(prefetch_count=_PREFETCH)
        started = time.perf_counter()
        channel.basic_consume(topic, take)
        seen, deadline_s = 0, time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline_s:
            connection.process_data_events(time_limit=1)
            if len(found) > seen:
                seen, deadline_s = len(found), time.monotonic() + PATIENCE_S
        seconds = time.perf_counter() - started
        connection.close()
        return seconds, found

    def _open(self) -> tuple[Any, Any]:  # pika has no annotations to check.
        import pika

        connection = pika.BlockingConnection(self._parameters())
        return connection, connection.channel()

    def _parameters(self) -> Any:
        import pika

        return pika.ConnectionParameters(HOST, self.port)

    def _persistent(self) -> Any:
        import pika

        return pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)


class RabbitMq:
    """A RabbitMQ node."""

    name = "RabbitMQ"

    def __init__(self) -> None:
        """Start nothing yet."""
        self._node: Node | None = None
        self._is_confirmed = False

    def missing(self) -> str:
        """Say what has to be installed."""
        return installed.missing("rabbitmq-server", "pika")

    def versions(self) -> str:
        """Return the versions of server and client."""
        return f"rabbitmq-server {Node.version()}, {installed.clients('pika')}"

    def terms(self, durability: Durability) -> Terms:
        """Say what a confirm means; a classic queue syncs before it confirms."""
        return Terms(text=_TERMS[durability])

    def start(self, durability: Durability, directory: Path) -> None:
        """Start a node of its own."""
        self._is_confirmed = durability is Durability.SYNC
        self._node = Node(directory)
        self._node.wait()

    def clients(self) -> Sequence[Variant]:
        """Return the one way to use it."""
        assert self._node is not None
        return [Variant("", "", RabbitClient(self._node.port, self._is_confirmed))]

    def stop(self) -> None:
        """Stop the node and the port mapper it started."""
        if self._node is not None:
            self._node.stop()
            self._node = None
