"""What tests of messages share: an engine with a log, on a loop of its own as the broker has it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from django.test import Client

from apps.bridge import engine as bridge
from apps.console.audience import audience
from apps.console.board import board
from apps.console.clockwork import ClockworkWatch
from apps.console.deathwatch import DeathWatch
from apps.console.feed import Feed
from apps.console.pipelines.watch import PipelinesWatch
from apps.console.sparklines import LastHour
from apps.engine.clock import SystemClock
from apps.engine.codec.ids import MessageIds
from apps.engine.codec.properties import UNIQ_KEY, encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.config import EngineConfig
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.types import (
    AckMode,
    Appended,
    CatalogSnapshot,
    ReceiveRequest,
    ReceiveResult,
    RecordBatch,
    TopicSpec,
)

Answer = TypeVar("Answer")

CONFIG = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0)


class Log:
    """An engine that pages and services ask, and what a test puts in."""

    def __init__(self, path: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._ids = MessageIds()
        self._clock = SystemClock()
        self.engine = self.run(LocalEngine.open(path, CONFIG))
        bridge.install(self.engine, self._loop)
        self._version = 0
        watch = ClockworkWatch(clock=self._clock, worker_processes=2)
        self._feed = Feed(
            clock=self._clock,
            clockwork=watch,
            last_hour=LastHour(),
            deaths=DeathWatch(clock=self._clock),
            pipelines=PipelinesWatch(clock=self._clock),
        )
        self.publish("orders", "other")

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Await something where the engine lives."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def call(self, work: Callable[[], Answer]) -> Answer:
        """Call something where the engine lives."""

        async def called() -> Answer:
            return work()

        return self.run(called())

    def close(self) -> None:
        bridge.remove()
        self.run(self.engine.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def publish(self, *names: str, queue_count: int = 2) -> None:
        """Let topics be there, and no others."""
        self._version += 1
        specs = {name: TopicSpec(name=name, queue_count=queue_count) for name in names}
        snapshot = CatalogSnapshot(version=self._version, topics=specs)
        self.call(lambda: self.engine.publish_catalog(snapshot))

    def send(
        self, body: bytes = b"body", *, topic: str = "orders", queue: int = 0, **properties: str
    ) -> str:
        """Send a message and return its id."""
        message_id = properties.setdefault(UNIQ_KEY, self._ids.new(wall_ms=self._clock.wall_ms()))
        self.append(body, topic=topic, queue=queue, **properties)
        return message_id

    def append(
        self, body: bytes = b"body", *, topic: str = "orders", queue: int = 0, **properties: str
    ) -> Appended:
        """Send a message with these properties and no others."""
        record = encode_record(
            topic=topic.encode(),
            queue=queue,
            body=body,
            properties=encode_properties(properties),
            born_time_ms=self._clock.wall_ms(),
            born_host=b"\x0a\x00\x00\x01\x00\x00\x1f\x90",
        )
        batch = RecordBatch(
            topic=topic,
            queue=queue,
            payload=bytearray(record),
            sizes=np.array([len(record)], dtype=np.int32),
        )
        (stored,) = self.run(self.engine.append([batch], ack=AckMode.SYNC))
        return stored

    def receive(self, group: str = "billing", topic: str = "orders") -> ReceiveResult:
        """Have a group be given what it is due."""
        request = ReceiveRequest(group=group, topics=(topic,), client_id="worker@1#a")
        return self.run(self.engine.receive(request))

    def fail(self, group: str = "billing", *, level: int | None = None, reason: str = "no") -> int:
        """Have a group fail at what it is given; level -1 makes dead letters. Return how many."""
        handles = [
            f"{lease.token}:{record}"
            for lease in self.receive(group).leases
            for record in offsets_of(lease.block)
        ]
        self.run(self.engine.nack(group, handles, delay_level=level, reason=reason))
        return len(handles)

    def post(self) -> None:
        """Have the console's picture show what there is."""
        picture = self.call(lambda: self._feed.sample(self.engine))
        board.put(picture)


def offsets_of(block: Any) -> list[int]:
    from apps.deadletters.records import records_of

    return [record.queue_offset for record in records_of(block)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Open an engine with the topics orders and other, of two queues each."""
    running = Log(tmp_path)
    running.post()
    yield running
    running.close()
    board.clear()
    audience.clear()


@pytest.fixture
def browser() -> Client:
    return Client()
