"""Sends of one turn: stored together, answered as each alone would be, and declined when not."""

import asyncio
import json
import struct
from typing import Any

import numpy as np
import pytest

from apps.doors.http.app import create_app, create_door
from apps.doors.http.calls import Door
from apps.doors.http.settings import DoorSettings
from apps.doors.http.shared import Meaning
from apps.doors.http.turns import TurnsOfSends
from apps.engine.codec import wire
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.errors import EngineError, FlushTimeout, Overloaded, StoreFull, WriteFailed
from apps.engine.types import AckMode
from tests.doors.asgi import RECORDS, Client
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder


class Asked:
    """A request at the desk, and what it was told."""

    client = ("127.0.0.1", 5000)

    def __init__(self, meaning: Meaning, body: bytes) -> None:
        self.meaning = meaning
        self.body = body
        self.status = 0
        self.lines = b""
        self.told = b""
        self.declined_count = 0

    def answer(self, status: int, lines: bytes, body: bytes) -> None:
        assert not self.status, "answered twice"
        self.status, self.lines, self.told = status, lines, body

    def decline(self) -> None:
        self.declined_count += 1

    @property
    def is_declined(self) -> bool:
        assert self.declined_count + bool(self.status) == 1, "neither answered nor declined"
        return bool(self.declined_count)

    @property
    def results(self) -> list[dict[str, Any]]:
        return list(json.loads(self.told)["results"])


def said(*messages: dict[str, Any], topic: str = "single", ack: str | None = None) -> Asked:
    document: dict[str, Any] = {"messages": list(messages)}
    if ack is not None:
        document["ack"] = ack
    meaning = Meaning(topic, -1, None, wants_records=False)
    return Asked(meaning, json.dumps(document).encode())


def packed(
    *bodies: bytes, queue: int = 0, ack: AckMode | None = None, properties: bytes = b""
) -> Asked:
    records = [
        encode_record(topic=b"orders", queue=queue, body=body, properties=properties)
        for body in bodies
    ]
    sizes = np.array([len(record) for record in records], dtype=np.int32)
    data = wire.build_batch(b"".join(records), sizes)
    return Asked(Meaning("orders", queue, ack, wants_records=True), data)


def place_of(asked: Asked) -> tuple[int, int]:
    """Return first queue offset and number of the records of an answered batch."""
    _, count, queue_offset, _ = struct.unpack(">4sIqq", asked.told)
    return queue_offset, count


@pytest.fixture
def door(settings: DoorSettings, clock: ManualClock) -> Door:
    return create_door(settings, clock=clock)


@pytest.fixture
def client(engine: Recorder, settings: DoorSettings, door: Door) -> Client:
    return Client(create_app(lambda: engine, settings, door=door))


@pytest.fixture
def turns(engine: Recorder, door: Door) -> TurnsOfSends:
    return TurnsOfSends(door, lambda: engine)


async def answered(turns: TurnsOfSends, *asked: Asked) -> None:
    """Give requests of one turn to the clerk; return when those that need not wait are told."""
    turns.answer(asked)
    # Who is not the first to append in a turn is written at its end.
    for _ in range(3):
        await asyncio.sleep(0)


async def pulled(client: Client, topic: str, queue: int = 0, *, count: int) -> list[dict[str, Any]]:
    """Return the first `count` messages of a queue, and what else is shown with them."""
    found: list[dict[str, Any]] = []
    # A pull shows what is synced, which may be less; the next one waits for more.
    while len(found) < count:
        answer = await client.get(
            f"/api/v1/topics/{topic}/queues/{queue}/messages"
            f"?offset={len(found)}&max=1000&wait_ms=30000"
        )
        messages = answer.json()["messages"]
        assert messages, f"{len(found)} of {count} came"
        found += messages
    return found


async def test_sends_of_a_turn_are_one_append_and_each_is_told_its_place(
    turns: TurnsOfSends, engine: Recorder, client: Client
) -> None:
    asked = [said({"body": str(number)}) for number in range(20)]

    await answered(turns, *asked)

    assert [one.status for one in asked] == [201] * 20
    assert [one.results[0]["offset"] for one in asked] == [str(n) for n in range(20)]
    assert engine.calls == ["append"]
    assert [m["body"] for m in await pulled(client, "single", count=20)] == [
        str(n) for n in range(20)
    ]


@pytest.mark.parametrize(
    "messages",
    [
        [{"body": "plain"}],
        [{"body": "größer 中文", "tag": "TagA"}],
        [{"body": "b", "tag": "t", "keys": ["k1", "k2"], "properties": {"colour": "grün"}}],
        [{"body": "", "sharding_key": "order-7"}],
        [{"body_base64": "/wA="}, {"body": "two", "queue": 3}, {"body": "three"}],
    ],
)
async def test_a_prompt_send_is_stored_and_answered_like_any_other(
    turns: TurnsOfSends, client: Client, messages: list[dict[str, Any]]
) -> None:
    """Twice the same, by either path: what differs is what differs between any two sends."""
    alone = await client.post("/api/v1/topics/orders/messages", {"messages": messages})
    prompt = said(*messages, topic="orders")
    # The next turn of the round robin is a round later.
    for _ in range(3):
        await answered(turns, said({"body": "next"}, topic="orders"))
    await answered(turns, prompt)

    ones, others = alone.json()["results"], prompt.results
    ends = {result["queue"]: int(result["offset"]) + 1 for result in (*ones, *others)}
    stored = [
        m for queue, end in ends.items() for m in await pulled(client, "orders", queue, count=end)
    ]
    by_id = {message.pop("message_id"): message for message in stored}
    assert [bare(one) for one in ones] == [bare(other) for other in others]
    for one, other in zip(ones, others, strict=True):
        first, second = by_id[one["message_id"]], by_id[other["message_id"]]
        assert int(second.pop("offset")) > int(first.pop("offset"))
        assert first == second


def bare(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in result.keys() - {"message_id", "offset"}}


async def test_the_header_lines_are_those_of_any_answer(
    turns: TurnsOfSends, client: Client
) -> None:
    alone = await client.post("/api/v1/topics/single/messages", {"messages": [{"body": "x"}]})
    prompt, silent = said({"body": "x"}), said({"body": "x"}, ack="oneway")

    await answered(turns, prompt, silent)

    names = [line.split(b": ")[0].decode() for line in prompt.lines.splitlines()]
    assert [*names, "content-length"] == list(alone.headers)
    assert (silent.status, silent.told) == (202, b"")
    assert [line.split(b": ")[0] for line in silent.lines.splitlines()] == [b"x-request-id"]


@pytest.mark.parametrize(
    "other",
    [
        said({"body": "later", "delay_ms": 1000}),
        said({"body": "once", "producer_id": "p", "producer_seq": 1}),
        said({"body": "half", "producer_seq": 1}),
        said({"body": "both", "body_base64": "AA=="}),
        said({"body": "x", "tag": "a|b"}),
        said({"body": "x"}, {"body": "y", "queue": 7}),
        said({"body": "x"}, topic="nowhere"),
        Asked(Meaning("single", -1, None, wants_records=False), b"{"),
        Asked(Meaning("orders", 0, None, wants_records=True), b"MQB1"),
    ],
    ids=lambda asked: asked.body.decode()[:60],
)
async def test_what_is_no_plain_send_is_declined_and_keeps_nobody_back(
    turns: TurnsOfSends, client: Client, other: Asked
) -> None:
    other.status, other.declined_count = 0, 0
    before, after = said({"body": "before"}), said({"body": "after"})

    await answered(turns, before, other, after)

    assert other.is_declined
    assert (before.status, after.status) == (201, 201)
    assert [m["body"] for m in await pulled(client, "single", count=2)] == ["before", "after"]


@pytest.mark.parametrize("error", [StoreFull("full"), Overloaded("busy")])
async def test_where_nothing_was_stored_each_request_is_tried_alone(
    turns: TurnsOfSends, engine: Recorder, error: Exception
) -> None:
    engine.failure = error
    asked = [said({"body": "a"}), packed(b"b")]

    await answered(turns, *asked)

    assert [one.is_declined for one in asked] == [True, True]
    assert engine.failure_count == 1


async def test_one_that_may_not_be_stored_has_the_others_tried_alone(
    turns: TurnsOfSends, client: Client
) -> None:
    good, bad = said({"body": "a"}), said({"body": "b"}, topic="archive")

    await answered(turns, good, bad)

    assert good.is_declined
    assert bad.is_declined
    alone = await client.post("/api/v1/topics/single/messages", {"messages": [{"body": "c"}]})
    assert alone.json()["results"][0]["offset"] == "0"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (FlushTimeout("slow"), 503),
        (WriteFailed("broken"), 500),
        (MemoryError(), 503),
        (RuntimeError("a bug"), 500),
    ],
)
async def test_what_may_be_stored_is_not_sent_again(
    turns: TurnsOfSends, engine: Recorder, error: Exception, status: int
) -> None:
    engine.failure = error
    asked = [said({"body": "a"}), packed(b"b")]

    await answered(turns, *asked)

    assert [one.status for one in asked] == [status, status]
    assert engine.failure_count == 1
    if isinstance(error, EngineError):
        assert json.loads(asked[0].told)["code"] == error.code
    assert b"content-type: application/problem+json\r\n" in asked[0].lines


async def test_who_waits_for_the_disk_is_stored_apart(
    turns: TurnsOfSends, engine: Recorder, client: Client, door: Door
) -> None:
    sync, quick = said({"body": "safe"}, ack="sync"), said({"body": "quick"})

    await answered(turns, sync, quick)
    assert quick.status == 201
    # What waits for the disk is in memory until it is answered.
    assert door.in_flight.bytes == (0 if sync.status else len(sync.body))
    assert len(await pulled(client, "single", count=2)) == 2
    while not sync.status:
        await asyncio.sleep(0)

    assert (sync.status, door.in_flight.bytes) == (201, 0)
    assert [ack for _, ack in engine.appends] == [AckMode.SYNC, AckMode.ASYNC]


async def test_binary_batches_stay_whole_and_are_answered_in_binary(
    turns: TurnsOfSends, engine: Recorder, client: Client
) -> None:
    asked = [packed(b"a", b"b", queue=1), packed(b"c", queue=1), packed(b"d", ack=AckMode.ONEWAY)]

    await answered(turns, *asked)

    assert [one.status for one in asked] == [201, 201, 202]
    assert [place_of(one) for one in asked[:2]] == [(0, 2), (2, 1)]
    assert [m["body"] for m in await pulled(client, "orders", 1, count=3)] == ["a", "b", "c"]


async def test_numbered_batches_of_a_turn_are_stored_once_each(
    turns: TurnsOfSends, client: Client
) -> None:
    def numbered(body: bytes, number: int) -> Asked:
        numbers = {"PRODUCER_ID": "till", "PRODUCER_SEQ": str(number)}
        return packed(body, properties=encode_properties(numbers))

    await answered(turns, numbered(b"a", 1), numbered(b"b", 2))
    again, new = numbered(b"b", 2), numbered(b"c", 3)
    await answered(turns, again, new)
    twice = [numbered(b"d", 4), numbered(b"d", 4)]
    await answered(turns, *twice)

    assert (again.status, new.status) == (201, 201)
    assert place_of(again) == (1, 1)
    # Twice in one frame is a mistake to the engine, so each is tried alone: one is then a repeat.
    is_tried_alone = [one.is_declined for one in twice] == [True, True]
    assert is_tried_alone or place_of(twice[0]) == place_of(twice[1])
    expected = ["a", "b", "c", *([] if is_tried_alone else ["d"])]
    found = await pulled(client, "orders", count=len(expected))
    assert [message["body"] for message in found] == expected


async def test_without_an_engine_everything_is_declined(door: Door) -> None:
    asked = said({"body": "x"})

    await answered(TurnsOfSends(door, lambda: None), asked)

    assert asked.is_declined


async def test_bodies_under_way_count_and_do_not_add_up(
    turns: TurnsOfSends, door: Door, engine: Recorder
) -> None:
    door.in_flight.bytes = door.in_flight.bytes_max - 100
    small, large = said({"body": "x"}), said({"body": "x" * 200})

    await answered(turns, small, large)

    assert (small.status, large.is_declined) == (201, True)
    assert door.in_flight.bytes == door.in_flight.bytes_max - 100
    assert engine.calls == ["append"]


HEAD = {
    "method": "POST",
    "raw_path": b"/api/v1/topics/orders/messages",
    "query_string": b"queue=1&ack=sync",
    "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
}


def test_the_heads_of_sends_are_understood(turns: TurnsOfSends) -> None:
    # What a query says of messages in JSON is refused, which is not for a turn to do.
    assert turns.meaning_of(HEAD) is None
    json_meaning = turns.meaning_of({**HEAD, "query_string": b""})
    assert json_meaning is not None
    assert (json_meaning.topic, json_meaning.queue) == ("orders", -1)
    records = [(b"host", b"localhost"), (b"content-type", RECORDS.encode())]
    binary = turns.meaning_of({**HEAD, "headers": records})
    assert binary is not None
    assert (binary.queue, binary.ack, binary.wants_records) == (1, AckMode.SYNC, False)


@pytest.mark.parametrize(
    "change",
    [
        {"method": "GET"},
        {"raw_path": b"/api/v1/topics/a!b/messages"},
        {"raw_path": b"/api/v1/groups/g/messages:ack"},
        {"raw_path": b"/elsewhere"},
        {"headers": [*HEAD["headers"], (b"x-request-id", b"mine")]},  # type: ignore[misc]
        {"headers": [(b"host", b"elsewhere"), (b"content-type", b"application/json")]},
        {"headers": [(b"host", b"localhost"), (b"content-type", b"text/plain")]},
        {"headers": [(b"host", b"localhost")]},
        {
            "headers": [(b"host", b"localhost"), (b"content-type", RECORDS.encode())],
            "query_string": b"queue=x",
        },
    ],
)
def test_other_heads_are_not(door: Door, engine: Recorder, change: dict[str, Any]) -> None:
    assert TurnsOfSends(door, lambda: engine).meaning_of({**HEAD, **change}) is None
