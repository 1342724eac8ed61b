"""A push consumer's core on a desk: no sockets, no threads, a clock the test moves.

Requests are taken from the core as a driver would take them, and answered by hand, in any order.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from mqclient.consuming.push.core import PushCore
from mqclient.consuming.push.listening import Consumed, Delivery
from mqclient.consuming.push.settings import checked_settings
from mqclient.consuming.push.tracing import DeliveryTrace
from mqclient.consuming.traces import Work
from mqclient.errors import ConnectionLost, MqError
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import Endpoint
from mqclient.protocol.work import Job
from mqclient.values import (
    LockAnswer,
    LockGrant,
    MemberAnswer,
    PullStatus,
    Returned,
    SentBack,
    TopicQueue,
)
from mqclient.wire.batches import Pulled
from mqclient.wire.records import Message, unpack_records

from tests.sdk.fake_bytes import make_record

RETRIES = TopicQueue("%RETRY%g", 0)
FIRST, SECOND = TopicQueue("orders", 0), TopicQueue("orders", 1)
CALLS = Calls(Endpoint.of("http://broker"))


class ManualClock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def steady_s(self) -> float:
        return self.now_s


@dataclass
class Request:
    """A request the core made: what it is called, what it says, and its job."""

    verb: str
    path: str
    query: dict[str, str]
    document: dict[str, Any]
    job: Job

    def answer(self, answer: Any = None) -> None:
        self.job.done(answer, None)

    def fail(self, error: MqError) -> None:
        self.job.done(None, error)


def request_of(job: Job) -> Request:
    head, *body = job.call.buffers
    method, target = head.decode().split(" ")[:2]
    split = urlsplit(target)
    path = unquote(split.path).removeprefix("/api/v1/")
    verb = path.rsplit(":", 1)[1] if method == "POST" else path.rsplit("/", 1)[1]
    query = {name: values[0] for name, values in parse_qs(split.query).items()}
    return Request(verb, path, query, json.loads(body[0]) if body else {}, job)


def messages(place: TopicQueue, offsets: range, size_bytes: int = 1) -> list[Message]:
    records = []
    for offset in offsets:
        record = bytearray(make_record(place.topic, place.queue, b"x" * size_bytes))
        record[20:28] = offset.to_bytes(8, "big")
        records.append(bytes(record))
    return unpack_records(b"".join(records), 0, [len(record) for record in records], None)


@dataclass
class Desk:
    """One core and the requests it made that were not answered yet."""

    settings: dict[str, Any] = field(default_factory=dict)
    clock: ManualClock = field(default_factory=ManualClock)
    pending: list[Request] = field(default_factory=list)
    trace: Callable[[Iterable[Work]], None] | None = None

    def __post_init__(self) -> None:
        fields = {"group": "g", "client_id": "me", **self.settings}
        trace = self.trace and DeliveryTrace(self.trace, clock=self.clock)
        settings = checked_settings("orders", None, fields)
        self.core = PushCore(settings, CALLS, clock=self.clock, trace=trace or None)
        self.ready_count = 0
        self.work_count = 0
        self.core.on_ready = self._ready
        self.core.on_work = self._work

    def take(self) -> list[Request]:
        """Take every request that is due, and return those made by it."""
        made = []
        while (job := self.core.take()) is not None:
            made.append(request_of(job))
        self.pending += made
        return made

    def one(self, verb: str) -> Request:
        """Return the only request of its kind that is under way."""
        self.take()
        (found,) = [request for request in self.pending if request.verb == verb]
        self.pending.remove(found)
        return found

    def has(self, verb: str) -> bool:
        self.take()
        return any(request.verb == verb for request in self.pending)

    def pull_of(self, place: TopicQueue) -> Request:
        """Return the newest pull of a queue; older ones are of a time before it was lost."""
        self.take()
        path = f"topics/{place.topic}/queues/{place.queue}/messages"
        pull = [request for request in self.pending if request.path == path][-1]
        self.pending.remove(pull)
        return pull

    def assign(self, *places: TopicQueue, generation: int = 1) -> None:
        self.one("heartbeat").answer(
            MemberAnswer(generation=generation, queues=frozenset(places), heartbeat_ms=10_000)
        )

    def grant(self, *places: TopicQueue, epoch: int = 7, lease_ms: int = 60_000) -> None:
        grants = tuple(
            LockGrant(place=place, epoch=epoch, expires_in_ms=lease_ms) for place in places
        )
        self.one("acquire").answer(LockAnswer(locked=grants, refused=()))

    def refuse(self, *places: TopicQueue) -> None:
        refused = tuple((place, "another") for place in places)
        self.one("acquire").answer(LockAnswer(locked=(), refused=refused))

    def begin(self, **offsets: int) -> None:
        """Say where queues begin, by their number, as in q0=5."""
        starts = {TopicQueue("orders", int(name[1:])): at for name, at in offsets.items()}
        self.one("begin").answer(starts)

    def bring(self, place: TopicQueue, offsets: range, size_bytes: int = 1) -> None:
        """Answer the pull of a queue with these messages."""
        self.pull_of(place).answer(found(place, offsets, size_bytes))

    def take_back(self, outcome: SentBack | None = SentBack.RETRY) -> dict[str, Any]:
        """Answer the sending back of messages; return what it said."""
        request = self.one("send-back")
        status = 403 if outcome is None else 200
        request.answer(
            [
                Returned(index=index, status=status, outcome=outcome)
                for index in range(len(request.document["messages"]))
            ]
        )
        return request.document

    def advance(self, seconds: float) -> None:
        self.clock.now_s += seconds
        self.take()

    def listen(self) -> Delivery:
        """Take the next delivery to a listener, which begins."""
        delivery = self.core.next_delivery()
        assert delivery is not None
        assert self.core.begin(delivery)
        return delivery

    def succeed(self, delivery: Delivery) -> None:
        """End a listener well; its worker does not go on."""
        self.core.give_back(self.core.finish(delivery, Consumed.SUCCESS))

    def fail(self, delivery: Delivery) -> None:
        """End a listener badly; its worker does not go on."""
        self.core.give_back(self.core.finish(delivery, None, "broken"))

    def go_on(self, delivery: Delivery) -> Delivery | None:
        """End a listener well; return what its worker goes on with."""
        return self.core.finish(delivery, Consumed.SUCCESS)

    def _ready(self) -> None:
        self.ready_count += 1

    def _work(self) -> None:
        self.work_count += 1


def found(place: TopicQueue, offsets: range, size_bytes: int = 1) -> Pulled:
    return pulled(PullStatus.FOUND, offsets.stop, messages(place, offsets, size_bytes))


def pulled(status: PullStatus, next_offset: int, items: list[Message] | None = None) -> Pulled:
    return Pulled(
        status=status, messages=items or [], next_offset=next_offset, min_offset=0, max_offset=999
    )


def offsets_of(delivery: Delivery | None) -> list[int]:
    assert delivery is not None
    return [message.queue_offset for message in delivery.messages]


def lost() -> ConnectionLost:
    return ConnectionLost("lost")
