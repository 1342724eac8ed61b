"""Producers and a consumer that remember what they were told, and judge it afterwards.

Knows the HTTP contract only. A send that got no answer is neither stored nor lost: it is unknown.
"""

import threading
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote

from tests.process.product import Broker, Unanswered

TOPIC = "load"
QUEUES = 4
GROUP = "checkers"
_BATCH = 10


@dataclass(slots=True)
class History:
    """What clients were told. Bodies are unique, so a body names a message."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    attempted: set[str] = field(default_factory=set)
    acked: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Body to the queue and offset the answer named."""
    settled: set[str] = field(default_factory=set)
    """Bodies whose acknowledgement was answered with ok."""
    delivered: Counter[str] = field(default_factory=Counter)
    came_back: list[str] = field(default_factory=list)
    """Bodies delivered after their acknowledgement was answered with ok."""
    unanswered: int = 0

    def so_far(self) -> Self:
        """Return a copy of what clients were told until now."""
        with self.lock:
            return type(self)(
                attempted=set(self.attempted), acked=dict(self.acked), settled=set(self.settled)
            )


class Load:
    """Threads that send and consume until they are told to stop, through restarts of the broker.

    An answer with one of the `refusals` says that nothing was done, or that it is unknown.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        producers: int = 3,
        consumers: int = 1,
        history: History | None = None,
        refusals: Collection[str] = ("stopping",),
        padding: int = 300,
    ) -> None:
        """Prepare threads; `start` runs them."""
        self.history = history or History()
        self._broker = broker
        self._refusals = refusals
        self._padding = "." * padding
        self._is_over = threading.Event()
        self._progress = threading.Condition()
        self._threads = [
            *(threading.Thread(target=self._produce, args=(i,)) for i in range(producers)),
            *(threading.Thread(target=self._consume) for _ in range(consumers)),
        ]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def wait_for_acks(self, count: int) -> None:
        """Return when so many more messages were acknowledged to producers."""
        with self._progress:
            target = len(self.history.acked) + count
            assert self._progress.wait_for(lambda: len(self.history.acked) >= target, timeout=240)

    def stop(self) -> None:
        """Let every thread finish its request, and wait for it."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(timeout=240)
            assert not thread.is_alive()

    def _produce(self, producer: int) -> None:
        number = 0
        while not self._is_over.is_set():
            bodies = [f"{producer}-{number + i:08d}" for i in range(_BATCH)]
            number += _BATCH
            with self.history.lock:
                self.history.attempted.update(bodies)
            # Messages are also padded, so that a frame spans pages.
            messages = [{"body": b + self._padding, "queue": producer % QUEUES} for b in bodies]
            try:
                status, answer = self._broker.call(
                    "POST", f"/api/v1/topics/{TOPIC}/messages", {"messages": messages}
                )
            except Unanswered:
                self.history.unanswered += 1
                self._is_over.wait(0.01)
                continue
            if self._is_refusal(status, answer):
                self._is_over.wait(0.01)
                continue
            assert status == 201, (status, answer)
            with self._progress, self.history.lock:
                for body, result in zip(bodies, answer["results"], strict=True):
                    self.history.acked[body] = (result["queue"], result["offset"])
                self._progress.notify_all()

    def _consume(self) -> None:
        while not self._is_over.is_set():
            try:
                self.consume_once(wait_ms=100)
            except Unanswered:
                self._is_over.wait(0.01)

    def consume_once(self, *, wait_ms: int) -> int:
        """Receive and acknowledge once; return how many messages came."""
        asked = {"topic": TOPIC, "max": 100, "wait_ms": wait_ms, "invisible_ms": 1500}
        status, answer = self._broker.call(
            "POST", f"/api/v1/groups/{GROUP}/messages:receive", asked
        )
        if self._is_refusal(status, answer):
            return 0
        assert status == 200, (status, answer)
        messages = answer["messages"]
        bodies = [message["body"].rstrip(".") for message in messages]
        with self.history.lock:
            self.history.delivered.update(bodies)
            self.history.came_back += [b for b in bodies if b in self.history.settled]
        if messages:
            handles = [message["receipt_handle"] for message in messages]
            status, answer = self._broker.call(
                "POST", f"/api/v1/groups/{GROUP}/messages:ack", {"receipt_handles": handles}
            )
            if self._is_refusal(status, answer):
                return len(messages)
            assert status in (200, 207), (status, answer)
            with self.history.lock:
                for body, result in zip(bodies, answer["results"], strict=True):
                    if result["status"] == "ok":
                        self.history.settled.add(body)
        return len(messages)

    def _is_refusal(self, status: int, answer: object) -> bool:
        """Say whether a broker refused as it may in this run."""
        return status >= 500 and isinstance(answer, dict) and answer["code"] in self._refusals


def stored(broker: Broker) -> dict[tuple[int, str], str]:
    """Read the whole topic by pulls: (queue, offset) to body."""
    found = {}
    for queue in range(QUEUES):
        offset = "0"
        while True:
            path = f"/api/v1/topics/{quote(TOPIC)}/queues/{queue}/messages?offset={offset}&max=1000"
            status, answer = broker.call("GET", path)
            assert status == 200, (status, answer)
            for message in answer["messages"]:
                found[queue, message["offset"]] = message["body"].rstrip(".")
            if answer["status"] != "FOUND":
                break
            offset = answer["next_offset"]
    return found


def lost(history: History, found: dict[tuple[int, str], str]) -> list[str]:
    """Return acknowledged messages that are not where the answer said."""
    return [body for body, place in history.acked.items() if found.get(place) != body]


def torn(found: dict[tuple[int, str], str]) -> list[str]:
    """Return batches, by their first body, of which some messages are there and some are not."""
    sizes = Counter(body[:-1] for body in found.values())
    return [f"{batch}0" for batch, count in sizes.items() if count != _BATCH]


def judge(history: History, found: dict[tuple[int, str], str]) -> None:
    """Raise AssertionError for anything the promises forbid."""
    assert lost(history, found) == []
    assert set(found.values()) <= history.attempted, "a message nobody sent"
    copies = [body for body, count in Counter(found.values()).items() if count > 1]
    assert copies == [], "a message stored twice though no send was repeated"
    assert torn(found) == [], "of a batch a part is there"
    for queue in range(QUEUES):
        offsets = sorted(int(offset) for number, offset in found if number == queue)
        assert offsets == list(range(len(offsets))), "a hole in a queue"
        by_producer: dict[str, list[str]] = {}
        for offset in offsets:
            body = found[queue, str(offset)]
            by_producer.setdefault(body.partition("-")[0], []).append(body)
        for bodies in by_producer.values():
            assert bodies == sorted(bodies), "a producer's messages out of order"
    assert history.came_back == [], "delivered after its acknowledgement"
