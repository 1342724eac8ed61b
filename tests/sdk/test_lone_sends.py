"""The short ways of a lone message: what comes of them is what comes of the general ones."""

import random
from typing import Any

import pytest
from mqclient.errors import ConnectionLost, InvalidArgument, MqError, Overloaded, UnknownTopic
from mqclient.producing.core import ProducerCore
from mqclient.producing.drafting import Drafting, outgoing
from mqclient.producing.parcels import Parcel
from mqclient.producing.settings import ProducerSettings
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import Endpoint
from mqclient.protocol.work import Job
from mqclient.values import BatchReceipt, TopicInfo
from mqclient.wire.batches import pack_batch
from mqclient.wire.http1 import ResponseReader

from tests.sdk.fake_broker import split_batch
from tests.sdk.test_producer_core import ManualClock

DESCRIPTIONS: list[dict[str, Any]] = [
    {},
    {"body": "text"},
    {"body": bytearray(b"bytes")},
    {"tag": "red"},
    {"keys": "one"},
    {"keys": ["one", "two"]},
    {"keys": []},
    {"properties": {"a": "b"}, "tag": "red"},
    {"sharding_key": "k", "keys": ("one",)},
    {"queue": 1},
    {"delay_ms": 5},
    {"delay_level": 2},
    {"deliver_at": 5},
]
WRONG: list[dict[str, Any]] = [
    {"topic": "not a topic"},
    {"tag": ""},
    {"keys": ""},
    {"keys": "two words"},
    {"properties": {"TAGS": "x"}},
    {"properties": {"a": "x" * 40_000}},
    {"queue": -1},
    {"queue": 1, "sharding_key": "k"},
    {"delay_ms": -1},
    {"body": bytes(5 * 1024 * 1024)},
]


class Producing:
    """A core whose topic is known, without sockets."""

    def __init__(self, **settings: Any) -> None:  # By name, as ProducerSettings takes them.
        self.clock = ManualClock()
        chosen = ProducerSettings(**settings)
        calls = Calls(Endpoint.of("http://broker"))
        self.core = ProducerCore(chosen, calls, clock=self.clock, rng=random.Random(1))
        self.drafting = Drafting(chosen, clock=self.clock, lock=self.core.lock)

    def learn(self, queue_count: int = 2) -> "Producing":
        first = self.parcel()
        assert self.core.put_alone(first) is None
        self.core.put(first, is_urgent=True)
        asking = self.core.take()
        assert asking is not None
        asking.done(TopicInfo(topic="orders", type="MIXED", queue_count=queue_count), None)
        sending = self.core.take()
        assert sending is not None
        sending.done(BatchReceipt(count=1, queue_offset=0, store_time_ms=1), None)
        return self

    def parcel(self, **description: Any) -> Parcel:  # By name, as `outgoing` takes them.
        return self.drafting.parcel(outgoing("orders", b"x", **description))

    def begun(self, parcel: Parcel, *, is_alone: bool) -> Job:
        if is_alone:
            job = self.core.put_alone(parcel)
        else:
            assert self.core.put(parcel, is_urgent=True)
            job = self.core.take()
        assert job is not None
        return job


def drafted(drafting: Drafting, topic: str = "orders", **description: Any) -> Parcel:
    given = {
        "body": b"x", "tag": None, "keys": (), "properties": None, "sharding_key": None,
        "queue": None, "priority": None, "delay_level": None, "delay_ms": None,
        "deliver_at": None, **description,
    }  # fmt: skip
    return drafting.draft(topic, **given)


def told(parcel: Parcel) -> list[object]:
    """Return all of a parcel but its id, which no other has."""
    (message_id,) = parcel.ids
    drafts = [(body, section.replace(message_id, b"ID")) for body, section in parcel.drafts]
    others = ("topic", "route", "ack", "born_ms", "deadline_s", "size_bytes", "is_delayed")
    return [drafts, *(getattr(parcel, name) for name in others)]


@pytest.mark.parametrize("settings", [{}, {"idempotent": True}], ids=str)
@pytest.mark.parametrize("description", DESCRIPTIONS, ids=str)
def test_a_message_is_drafted_alike_on_both_ways(
    description: dict[str, Any], settings: dict[str, Any]
) -> None:
    drafting = Producing(**settings).drafting

    short = drafted(drafting, **description)
    general = drafting.parcel(outgoing("orders", **{"body": b"x", **description}))

    assert told(short) == told(general)


@pytest.mark.parametrize("description", WRONG, ids=lambda wrong: str(wrong)[:40])
def test_a_message_is_refused_alike_on_both_ways(description: dict[str, Any]) -> None:
    drafting = Producing().drafting

    with pytest.raises(MqError) as short:
        drafted(drafting, **description)
    with pytest.raises(MqError) as general:
        drafting.parcel(outgoing(**{"topic": "orders", "body": b"x", **description}))

    assert (short.type, str(short.value)) == (general.type, str(general.value))


def test_an_interceptor_that_came_late_sees_the_message() -> None:
    class Renaming:
        def before_send(self, message: Any) -> Any:
            return outgoing("other", message.body)

        def after_send(self, message: Any, result: Any, error: Any) -> None: ...

    interceptors: list[Any] = []
    drafting = Producing(interceptors=interceptors).drafting
    interceptors.append(Renaming())

    assert drafted(drafting).topic == "other"


@pytest.mark.parametrize("settings", [{}, {"idempotent": True}], ids=str)
@pytest.mark.parametrize("route", [{}, {"queue": 1}, {"sharding_key": "k"}], ids=str)
@pytest.mark.parametrize(
    "error", [None, Overloaded("busy"), ConnectionLost("lost"), UnknownTopic("gone")], ids=repr
)
def test_a_lone_send_ends_as_one_from_the_buffer(
    error: MqError | None, route: dict[str, Any], settings: dict[str, Any]
) -> None:
    ends = []
    for is_alone in (True, False):
        run = Producing(**settings).learn()
        parcel = run.parcel(**route)
        job = run.begun(parcel, is_alone=is_alone)
        first = job.call.buffers[0], job.call.lane, job.timeout_s
        receipt = BatchReceipt(count=1, queue_offset=7, store_time_ms=2)
        job.done(None if error else receipt, error)
        run.clock.now_s += 0.5
        again = run.core.take()
        if again is not None:
            repeated = again.call.lane, round(again.timeout_s, 6), len(_records(again))
            again.done(receipt, None)
        else:
            repeated = None
        assert parcel.is_done
        failure = parcel.error and (type(parcel.error), parcel.error.outcome)
        place = parcel.queue, parcel.queue_offset, parcel.first_sequence, parcel.may_be_stored
        ends.append((first, repeated, failure, place, run.core.outstanding(), run.core.wait_s()))

    assert ends[0] == ends[1]
    assert (ends[0][1] is not None) is (error is not None and error.retriable)


def _records(job: Job) -> list[bytes]:
    return split_batch(b"".join(job.call.buffers[1:]))


def test_a_lone_send_does_not_overtake_what_waits_for_its_queue() -> None:
    run = Producing(linger_ms=5.0).learn(1)
    assert run.core.put(run.parcel(), is_urgent=False)

    assert run.core.put_alone(run.parcel()) is None


def test_a_lone_send_does_not_go_beside_one_under_way_for_its_queue() -> None:
    run = Producing().learn()
    job = run.begun(run.parcel(queue=1), is_alone=True)

    assert run.core.put_alone(run.parcel(queue=1)) is None
    job.done(BatchReceipt(count=1, queue_offset=0, store_time_ms=1), None)
    assert run.core.put_alone(run.parcel(queue=1)) is not None


def test_a_lone_send_does_not_go_over_a_limit_or_after_the_end() -> None:
    run = Producing(in_flight_max=1).learn()
    full = Producing(buffer_messages_max=1).learn()
    closed, old = Producing().learn(), Producing().learn()
    run.begun(run.parcel(queue=0), is_alone=True)
    full.begun(full.parcel(queue=0), is_alone=True)
    closed.core.close()
    old.clock.now_s += 31.0

    refused = [each.core.put_alone(each.parcel(queue=1)) for each in (run, full, closed, old)]

    assert refused == [None] * 4


def test_a_lone_send_leaves_a_selector_to_the_buffer() -> None:
    run = Producing(selector=lambda _message, _count: 0).learn()

    assert run.core.put_alone(run.parcel()) is None


def test_a_batch_of_one_is_packed_as_any_batch() -> None:
    head, payload = pack_batch([b"record"])
    two, both = pack_batch([b"record", b""])

    assert len(head) == len(two) - 4
    assert split_batch(head + payload) == [b"record"]
    assert both == payload


def _answer(request_id: bytes, body: bytes, *, status: bytes = b"201 Created") -> bytes:
    head = b"HTTP/1.1 %b\r\nserver: s\r\nX-Request-Id: %b\r\ncontent-length: %d\r\n\r\n"
    return (head % (status, request_id, len(body))).replace(b"X-Request-Id", b"x-request-id") + body


@pytest.mark.parametrize(
    "second",
    [
        _answer(b"b-22", b"hello"),
        _answer(b" b ", b"hello"),
        _answer(b"", b"hello"),
        _answer(b"a-1", b"other length"),
        _answer(b"a-1", b"hello", status=b"503 Service Unavailable"),
        _answer(b"a-1", b"hello").replace(b"server: s", b"server: s\r\nx-request-id: 2"),
        _answer(b"a-1\r\nconnection: close", b"hello"),
        _answer(b"a-1\r\nconnection: close", b"hello").replace(b": close", b": keep-alive"),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_an_answer_after_another_is_read_as_the_first_is(second: bytes, step: int) -> None:
    knowing, new = ResponseReader(), ResponseReader()
    assert knowing.feed(_answer(b"a-1", b"hello")) is not None

    parts = [second[start : start + step] for start in range(0, len(second), step)]
    known, fresh = ([reader.feed(part) for part in parts][-1] for reader in (knowing, new))

    assert known is not None
    assert fresh is not None
    for name in ("status", "headers", "keep_alive", "body"):
        assert getattr(known, name) == getattr(fresh, name)
    assert not knowing.has_begun


def test_bytes_behind_a_known_answer_are_refused() -> None:
    reader = ResponseReader()
    assert reader.feed(_answer(b"a", b"hello")) is not None

    with pytest.raises(MqError):
        reader.feed(_answer(b"b", b"hello") + b"!")


def test_a_refused_delay_names_the_argument() -> None:
    with pytest.raises(InvalidArgument, match="delay_ms"):
        drafted(Producing().drafting, delay_ms=-1)
