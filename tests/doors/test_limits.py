"""Limits on bodies hold while they are read, before they are buffered."""

import struct
import zlib

import pytest

from apps.doors.http.app import create_app
from apps.doors.http.settings import DoorSettings
from tests.doors.asgi import RECORDS, Client
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

SEND = "/api/v1/topics/single/messages"
JSON = {"content-type": "application/json"}


@pytest.fixture
def settings() -> DoorSettings:
    return DoorSettings(body_bytes_max=500, request_bytes_max=1000, batch_bytes_max=1000)


def document(size_bytes: int) -> bytes:
    head, tail = b'{"messages": [{"body": "x"', b"}]}"
    return head + b" " * (size_bytes - len(head) - len(tail)) + tail


async def test_a_body_of_exactly_the_limit_is_taken(client: Client) -> None:
    answer = await client.post(SEND, body=document(1000), headers=JSON)

    assert answer.status == 201


async def test_an_announced_length_over_the_limit_is_refused_unread(
    client: Client, engine: Recorder
) -> None:
    answer = await client.post(SEND, body=document(1001), headers=JSON)

    assert (answer.status, answer.code) == (413, "request_too_large")
    assert client.last.taken_count == 0
    assert engine.calls == []


async def test_a_body_without_a_length_is_refused_as_soon_as_it_is_too_long(
    client: Client, engine: Recorder
) -> None:
    pieces = [b" " * 300] * 100

    answer = await client.post(SEND, body=pieces, headers=JSON)

    assert (answer.status, answer.code) == (413, "request_too_large")
    assert client.last.taken_count == 4
    assert engine.calls == []


async def test_a_body_longer_than_announced_is_refused(client: Client, engine: Recorder) -> None:
    answer = await client.post(SEND, body=document(1001), headers=JSON | {"content-length": "10"})

    assert (answer.status, answer.code) == (413, "request_too_large")
    assert engine.calls == []


async def test_the_last_piece_may_not_pass_the_limit_either(
    client: Client, engine: Recorder
) -> None:
    whole = document(1001)

    answer = await client.post(SEND, body=[whole[:500], whole[500:]], headers=JSON)

    assert (answer.status, answer.code) == (413, "request_too_large")
    assert engine.calls == []


async def test_a_body_in_pieces_is_put_together(client: Client) -> None:
    whole = document(900)

    answer = await client.post(
        SEND, body=[whole[start : start + 7] for start in range(0, 900, 7)], headers=JSON
    )

    assert answer.status == 201


async def test_a_message_body_over_its_own_limit_is_told_apart(client: Client) -> None:
    answer = await client.post(SEND, {"messages": [{"body": "x" * 501}, {"body": "x" * 10}]})

    assert [result["status"] for result in answer.json()["results"]] == [413, 201]


async def test_the_records_of_a_batch_have_a_limit_of_their_own(
    client: Client, engine: Recorder
) -> None:
    # The header is true, so that only the limit can refuse the batch.
    rest = struct.pack(">i", 1001) + bytes(1001)
    batch = struct.pack(">4sIII", b"MQB1", 1, 1001, zlib.crc32(rest)) + rest

    answer = await client.post(f"{SEND}?queue=0", body=batch, headers={"content-type": RECORDS})

    assert (answer.status, answer.code) == (413, "batch_too_large")
    assert engine.calls == []


async def test_a_refusal_before_a_body_that_was_held_back_closes_the_connection(
    client: Client,
) -> None:
    answer = await client.post(SEND, body=document(1001), headers=JSON | {"expect": "100-continue"})

    assert answer.status == 413
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    "verb",
    [
        "messages:receive",
        "messages:ack",
        "messages:nack",
        "messages:extend",
        "messages:send-back",
        "offsets:commit",
        "offsets:begin",
        "locks:acquire",
        "locks:release",
        "members/c:heartbeat",
        "members/c:leave",
    ],
)
async def test_a_command_is_at_most_a_mebibyte(
    engine: Recorder, clock: ManualClock, verb: str
) -> None:
    client = Client(create_app(lambda: engine, DoorSettings(), clock=clock))

    answer = await client.post(f"/api/v1/groups/g/{verb}", body=b" " * (2**20 + 1), headers=JSON)

    assert (answer.status, answer.code) == (413, "request_too_large")
    assert client.last.taken_count == 0


def test_a_body_limit_that_no_request_could_reach_is_refused() -> None:
    with pytest.raises(ValueError, match="body_bytes_max"):
        DoorSettings(body_bytes_max=2000, request_bytes_max=1000)


def test_an_auth_mode_that_does_not_exist_is_refused(clock: ManualClock) -> None:
    with pytest.raises(ValueError, match="'token' does not exist"):
        create_app(lambda: None, DoorSettings(auth="token"), clock=clock)
