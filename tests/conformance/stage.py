"""Where a scenario plays: a server, one official client, and fresh names.

Knows drivers and servers; what is right is the scenarios' business.
"""

import base64
import itertools
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.clients import Client
from tests.conformance.driving import ClientRefused, Driver, Seen
from tests.conformance.servers import Credentials, Server

WAIT_S = 5
INVISIBLE_S = 30
# Only a hang must fail: five runs share two processors here.
PATIENCE_S = 60.0
ALL = {"type": "tag", "expression": "*"}


@dataclass
class Stage:
    """One scenario's server, client, processes and names."""

    server: Server
    client: Client
    home: Path
    credentials: Credentials | None = None
    namespace: str | None = None
    is_tls: bool = False
    trusted: Path | None = None
    _drivers: list[Driver] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def driver(self) -> Driver:
        """Start a process of the client; it is ended with the stage."""
        started = self.client.start(self.home / str(len(self._drivers)), trusted=self.trusted)
        self._drivers.append(started)
        return started

    def topic(self, kind: str = "NORMAL", queue_count: int = 4) -> str:
        """Make a topic with a name of its own."""
        name = f"topic-{kind.lower()}-{uuid.uuid4().hex[:8]}"
        self.server.create_topic(self.placed(name), kind, queue_count)
        return name

    def group(self, *, is_fifo: bool = False, retry_max: int = 16) -> str:
        """Make a group with a name of its own."""
        name = f"group-{uuid.uuid4().hex[:8]}"
        self.server.create_group(self.placed(name), is_fifo=is_fifo, retry_max=retry_max)
        return name

    def placed(self, name: str) -> str:
        """Return the name by which the server knows it."""
        return name if self.namespace is None else f"{self.namespace}%{name}"

    def settings(self) -> dict[str, Any]:
        """Return where and as whom a client comes."""
        signed = self.credentials
        return {
            "endpoint": self.server.tls_endpoint if self.is_tls else self.server.endpoint,
            "is_tls": self.is_tls,
            "namespace": self.namespace,
            "access_key": None if signed is None else signed.access_key,
            "secret": None if signed is None else signed.secret,
        }

    def producer(self, driver: Driver, *topics: str, verdict: str | None = None) -> str:
        """Start a producer; return its name."""
        name = f"producer{next(self._numbers)}"
        driver.call(
            "open_producer", name=name, topics=list(topics), verdict=verdict, **self.settings()
        )
        return name

    def simple(
        self,
        driver: Driver,
        group: str,
        topic: str,
        *,
        wanted: Mapping[str, str] = ALL,
        wait_s: int = WAIT_S,
    ) -> str:
        """Start a simple consumer; return its name."""
        name = f"simple{next(self._numbers)}"
        driver.call(
            "open_simple", name=name, group=group, filters={topic: wanted}, wait_s=wait_s,
            **self.settings(),
        )  # fmt: skip
        return name

    def push(
        self,
        driver: Driver,
        group: str,
        topic: str,
        *,
        failures: Mapping[str, int] | None = None,
        holds: Sequence[str] = (),
    ) -> str:
        """Start a push consumer; return its name. Leave the scenario out where there is none."""
        if not self.client.has_push:
            pytest.skip("the client has no PushConsumer")
        name = f"push{next(self._numbers)}"
        driver.call(
            "open_push", name=name, group=group, filters={topic: ALL},
            failures=dict(failures or {}), holds=list(holds), **self.settings(),
        )  # fmt: skip
        return name

    def lite(
        self,
        driver: Driver,
        group: str,
        topic: str,
        *names: str,
        kind: str = "push",
        failures: Mapping[str, int] | None = None,
    ) -> str:
        """Start a consumer of lite topics that is subscribed to these; return its name."""
        name = f"lite{next(self._numbers)}"
        driver.call(
            "open_lite", name=name, group=group, topic=topic, kind=kind, wait_s=WAIT_S,
            failures=dict(failures or {}), **self.settings(),
        )  # fmt: skip
        for lite in names:
            subscribe(driver, name, lite)
        return name

    def end(self) -> None:
        """End all processes."""
        for driver in self._drivers:
            driver.stop()


def subscribe(driver: Driver, consumer: str, lite: str) -> None:
    """Subscribe to a lite topic.

    A client that has not heard yet how many it may have takes itself to be allowed none.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            driver.call("subscribe_lite", name=consumer, lite_topic=lite)
            return
        except ClientRefused as refusal:
            is_early = "quota" in refusal.text.lower()
            if not is_early or time.monotonic() > deadline_s:
                raise
        time.sleep(0.2)


def send(driver: Driver, producer: str, topic: str, text: str, **fields: Any) -> dict[str, Any]:
    """Send a message with a text as its body; return the receipt."""
    return send_bytes(driver, producer, topic, text.encode(), **fields)


def send_bytes(
    driver: Driver, producer: str, topic: str, body: bytes, **fields: Any
) -> dict[str, Any]:
    """Send a message; return the receipt."""
    encoded = base64.b64encode(body).decode()
    return driver.call("send", name=producer, topic=topic, body=encoded, **fields)


def receive(
    driver: Driver, consumer: str, *, messages_max: int = 16, invisible_s: int = INVISIBLE_S
) -> list[Seen]:
    """Receive once; empty when the poll ended without a message."""
    answer = driver.call(
        "receive", name=consumer, messages_max=messages_max, invisible_s=invisible_s
    )
    return [Seen.of(message) for message in answer["messages"]]


def drain(
    driver: Driver,
    consumer: str,
    count: int,
    *,
    within_s: float = PATIENCE_S,
    messages_max: int = 16,
) -> list[Seen]:
    """Receive and acknowledge until so many came; fail when they do not."""
    found: list[Seen] = []
    deadline_s = time.monotonic() + within_s
    while len(found) < count:
        assert time.monotonic() < deadline_s, (count, [seen.body[:40] for seen in found])
        for seen in receive(driver, consumer, messages_max=messages_max):
            ack(driver, consumer, seen)
            found.append(seen)
    return found


def ack(driver: Driver, consumer: str, seen: Seen) -> None:
    """Acknowledge a message; raise ClientRefused."""
    driver.call("ack", name=consumer, handle=seen.handle)


def nothing_comes(driver: Driver, consumer: str, *, polls: int = 2) -> bool:
    """Poll so often; return whether all polls ended empty."""
    return not any(receive(driver, consumer) for _ in range(polls))
