"""Sending a binary batch, and the two forms of its answer."""

import struct
import zlib

import numpy as np
import pytest

from apps.engine.codec import wire
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.types import AckMode
from tests.doors.asgi import RECORDS, Client
from tests.doors.recorder import Recorder

TARGET = "/api/v1/topics/orders/messages"


def records(
    *bodies: bytes, topic: bytes = b"orders", queue: int = 2, tag: str = "TagA"
) -> list[bytes]:
    return [
        encode_record(
            topic=topic,
            queue=queue,
            body=body,
            properties=encode_properties({"TAGS": tag}),
            born_time_ms=1_700_000_000_000,
        )
        for body in bodies
    ]


def batch(parts: list[bytes]) -> bytes:
    sizes = np.array([len(part) for part in parts], dtype=np.int32)
    return wire.build_batch(b"".join(parts), sizes)


async def test_a_binary_batch_is_stored_and_answered_in_binary(client: Client) -> None:
    body = batch(records(b"one", b"two"))

    answer = await client.post(
        f"{TARGET}?queue=2", body=body, headers={"content-type": RECORDS, "accept": RECORDS}
    )

    assert answer.status == 201
    assert answer.headers["content-type"] == RECORDS
    assert answer.body == b"MQA1" + struct.pack(">Iqq", 2, 0, 1_700_000_000_123)
    found = (
        await client.get("/api/v1/topics/orders/queues/2/messages?offset=0&wait_ms=5000")
    ).json()
    assert [message["body"] for message in found["messages"]] == ["one", "two"]


async def test_a_binary_batch_is_answered_in_json_unless_asked_otherwise(client: Client) -> None:
    await client.post(
        f"{TARGET}?queue=2", body=batch(records(b"one")), headers={"content-type": RECORDS}
    )

    answer = await client.post(
        f"{TARGET}?queue=2", body=batch(records(b"two")), headers={"content-type": RECORDS}
    )

    assert answer.json() == {
        "queue": 2,
        "offset": "1",
        "count": 1,
        "store_time": "2023-11-14T22:13:20.123Z",
    }


async def test_a_binary_batch_may_arrive_in_pieces(client: Client) -> None:
    body = batch(records(*(b"%d" % i for i in range(100))))
    pieces = [body[start : start + 77] for start in range(0, len(body), 77)]

    answer = await client.post(f"{TARGET}?queue=2", body=pieces, headers={"content-type": RECORDS})

    assert answer.json()["count"] == 100


async def test_a_oneway_binary_batch_is_answered_without_a_place(
    client: Client, engine: Recorder
) -> None:
    answer = await client.post(
        f"{TARGET}?queue=2&ack=oneway",
        body=batch(records(b"one")),
        headers={"content-type": RECORDS, "accept": RECORDS},
    )

    assert (answer.status, answer.body) == (202, b"")
    assert [ack for _, ack in engine.appends] == [AckMode.ONEWAY]


def broken_body() -> bytes:
    part = bytearray(records(b"one")[0])
    part[90] ^= 1
    return batch([bytes(part)])


GOOD = batch(records(b"one", b"two"))
BAD_BATCHES = [
    pytest.param(b"", 422, "malformed_batch", id="nothing"),
    pytest.param(b"MQB2" + GOOD[4:], 422, "malformed_batch", id="magic"),
    pytest.param(GOOD[:-1], 422, "malformed_batch", id="cut"),
    pytest.param(GOOD + b"x", 422, "malformed_batch", id="longer"),
    pytest.param(GOOD[:-1] + b"x", 422, "checksum_mismatch", id="changed"),
    pytest.param(
        wire.build_batch(b"", np.array([], dtype=np.int32)), 422, "malformed_batch", id="no records"
    ),
    pytest.param(batch(records(b"x", queue=1)), 422, "malformed_batch", id="another queue"),
    pytest.param(batch(records(b"x", topic=b"single")), 422, "malformed_batch", id="another topic"),
    pytest.param(batch(records(b"x", topic=b"ordess")), 422, "malformed_batch", id="topic alike"),
    pytest.param(broken_body(), 422, "checksum_mismatch", id="body checksum"),
    pytest.param(
        batch(records(b"x" * (4 * 2**20 + 1))), 413, "message_too_large", id="body too large"
    ),
    pytest.param(
        struct.pack(">4sIII", b"MQB1", 65_537, 0, 0), 413, "batch_too_large", id="too many"
    ),
    pytest.param(
        struct.pack(">4sIIIi", b"MQB1", 1, 0, zlib.crc32(bytes(4)), 0),
        422,
        "malformed_batch",
        id="a size of zero",
    ),
]


@pytest.mark.parametrize(("body", "status", "code"), BAD_BATCHES)
async def test_a_bad_batch_is_refused_and_stores_nothing(
    client: Client, engine: Recorder, body: bytes, status: int, code: str
) -> None:
    answer = await client.post(
        f"{TARGET}?queue=2", body=body, headers={"content-type": RECORDS, "accept": RECORDS}
    )

    assert (answer.status, answer.code) == (status, code)
    assert engine.queue_ranges("orders")[2].max_offset == 0
    assert engine.status().appended_messages == 0


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "invalid_argument"),
        ("queue=", "invalid_argument"),
        ("queue=x", "invalid_argument"),
        ("queue=-1", "invalid_argument"),
        ("queue=2&queue=2", "invalid_argument"),
        ("queue=2&ack=maybe", "invalid_argument"),
        ("queue=2&acks=sync", "invalid_argument"),
        ("queue=2&ack=%FF", "invalid_argument"),
    ],
)
async def test_a_bad_query_is_refused_and_stores_nothing(
    client: Client, engine: Recorder, query: str, code: str
) -> None:
    answer = await client.post(f"{TARGET}?{query}", body=GOOD, headers={"content-type": RECORDS})

    assert (answer.status, answer.code) == (422, code)
    assert engine.calls == []


async def test_a_queue_the_topic_does_not_have_is_unknown(client: Client) -> None:
    body = batch(records(b"one", queue=4))

    answer = await client.post(f"{TARGET}?queue=4", body=body, headers={"content-type": RECORDS})

    assert (answer.status, answer.code) == (404, "unknown_queue")
