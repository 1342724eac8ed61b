"""Where a group begins, and which message was the first at a time."""

import pytest

from apps.doors.http import times
from tests.doors.asgi import Client
from tests.doors.fake_engine import ManualClock
from tests.doors.recorder import Recorder

BEGIN = "/api/v1/groups/billing/offsets:begin"
COMMIT = "/api/v1/groups/billing/offsets:commit"
OFFSET = "/api/v1/topics/single/queues/0/offset"
SINGLE = {"topic": "single", "queue": 0}
STARTED_MS = 1_700_000_000_123


async def send_one_a_second(client: Client, clock: ManualClock, count: int) -> None:
    """Store a message now and one after each further second."""
    for number in range(count):
        answer = await client.post(
            "/api/v1/topics/single/messages", {"messages": [{"body": str(number)}], "ack": "sync"}
        )
        assert answer.status == 201
        clock.now_ms += 1000


async def begin(client: Client, **fields: object) -> list[dict[str, object]]:
    answer = await client.post(BEGIN, {"queues": [SINGLE]} | fields)
    assert answer.status == 200, answer.body
    return list(answer.json()["offsets"])


async def test_a_group_begins_at_the_first_message_and_only_once(
    client: Client, clock: ManualClock
) -> None:
    await send_one_a_second(client, clock, 3)

    first = await begin(client, client_id="c")
    second = await begin(client, client_id="c", consume_from="last")

    assert first == [SINGLE | {"offset": "0", "is_new": True}]
    assert second == [SINGLE | {"offset": "0", "is_new": False}]


async def test_a_group_may_begin_at_the_end(client: Client, clock: ManualClock) -> None:
    await send_one_a_second(client, clock, 3)

    assert await begin(client, consume_from="last") == [SINGLE | {"offset": "3", "is_new": True}]


@pytest.mark.parametrize(
    "time", [STARTED_MS + 1000, times.rfc3339(STARTED_MS + 1000), str(STARTED_MS + 1000)]
)
async def test_a_group_may_begin_at_a_time(
    client: Client, clock: ManualClock, time: object
) -> None:
    await send_one_a_second(client, clock, 3)

    found = await begin(client, consume_from="timestamp", consume_from_time=time)

    assert found == [SINGLE | {"offset": "1", "is_new": True}]


async def test_where_a_group_has_progress_it_goes_on_there(
    client: Client, clock: ManualClock
) -> None:
    await send_one_a_second(client, clock, 3)
    await client.post(COMMIT, {"offsets": [SINGLE | {"offset": "2"}]})

    found = await begin(
        client, queues=[{"topic": "orders", "queue": 3}, SINGLE], consume_from="first"
    )

    assert found == [
        {"topic": "orders", "queue": 3, "offset": "0", "is_new": True},
        SINGLE | {"offset": "2", "is_new": False},
    ]


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({}, ""),
        ({"queues": []}, "/queues"),
        ({"queues": [SINGLE] * 1025}, "/queues"),
        ({"queues": [SINGLE, {"queue": 0}]}, "/queues/1"),
        ({"queues": [SINGLE | {"topic": "a b"}]}, "/queues/0/topic"),
        ({"queues": [SINGLE], "client_id": "c" * 256}, "/client_id"),
        ({"queues": [SINGLE], "consume_from": "middle"}, "/consume_from"),
        ({"queues": [SINGLE], "consume_from": "timestamp"}, "/consume_from_time"),
        ({"queues": [SINGLE], "consume_from_time": 5}, "/consume_from_time"),
        (
            {"queues": [SINGLE], "consume_from": "last", "consume_from_time": 5},
            "/consume_from_time",
        ),
        (
            {"queues": [SINGLE], "consume_from": "timestamp", "consume_from_time": "yesterday"},
            "/consume_from_time",
        ),
        (
            {"queues": [SINGLE], "consume_from": "timestamp", "consume_from_time": -1},
            "/consume_from_time",
        ),
        (
            {"queues": [SINGLE], "consume_from": "timestamp", "consume_from_time": 2**63},
            "/consume_from_time",
        ),
        (
            {"queues": [SINGLE], "consume_from": "timestamp", "consume_from_time": 1.5},
            "/consume_from_time",
        ),
        ({"queues": [SINGLE], "generation": 1}, ""),
    ],
)
async def test_a_wrong_beginning_is_refused_by_a_pointer(
    client: Client, engine: Recorder, document: dict[str, object], pointer: str
) -> None:
    answer = await client.post(BEGIN, document)

    assert answer.status == 422
    assert answer.code in ("invalid_argument", "invalid_name")
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert engine.calls == []


@pytest.mark.parametrize(
    ("queue", "code"),
    [({"topic": "nowhere", "queue": 0}, "unknown_topic"), (SINGLE | {"queue": 1}, "unknown_queue")],
)
async def test_a_group_does_not_begin_in_a_queue_nobody_has(
    client: Client, queue: dict[str, object], code: str
) -> None:
    answer = await client.post(BEGIN, {"queues": [queue]})

    assert (answer.status, answer.code) == (404, code)


@pytest.mark.parametrize(
    ("after_ms", "offset"), [(-10_000, "0"), (0, "0"), (1, "1"), (2000, "2"), (2001, "3")]
)
async def test_the_offset_of_a_time_is_that_of_the_first_message_at_or_after_it(
    client: Client, clock: ManualClock, after_ms: int, offset: str
) -> None:
    await send_one_a_second(client, clock, 3)
    time_ms = STARTED_MS + after_ms

    by_number = await client.get(f"{OFFSET}?time={time_ms}")
    by_text = await client.get(f"{OFFSET}?time={times.rfc3339(time_ms)}")

    assert by_number.json() == SINGLE | {"offset": offset}
    assert by_text.json() == by_number.json()


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/topics/nowhere/queues/0/offset", 404, "unknown_topic"),
        ("/api/v1/topics/single/queues/1/offset", 404, "unknown_queue"),
        ("/api/v1/topics/single/queues/-1/offset", 422, "invalid_argument"),
        ("/api/v1/topics/a%20b/queues/0/offset", 422, "invalid_name"),
    ],
)
async def test_the_offset_of_a_queue_nobody_has_is_refused(
    client: Client, path: str, status: int, code: str
) -> None:
    answer = await client.get(f"{path}?time=0")

    assert (answer.status, answer.code) == (status, code)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "time=",
        "time=-1",
        "time=1.5",
        "time=now",
        "time=9223372036854775808",
        "time=1969-12-31T23:59:59Z",
        "time=2026-01-31T12:00:00",
        "time=2026-01-31%2012:00:00Z",
        "time=2026-02-30T12:00:00Z",
        "time=2026-01-31T12:00:60Z",
        "time=2026-01-31T12:00:00%2B99:00",
        "time=20260131T120000Z",
        "time=0&time=1",
    ],
)
async def test_what_is_no_time_is_refused_by_a_pointer(
    client: Client, engine: Recorder, query: str
) -> None:
    answer = await client.get(f"{OFFSET}?{query}")

    assert (answer.status, answer.code) == (422, "invalid_argument")
    assert [error["pointer"] for error in answer.json()["errors"]] == ["?time"]
    assert engine.calls == []


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01t01:00:00+01:00", 0),
        ("1969-12-31T23:00:00-02:00", 3_600_000),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("9999-12-31T23:59:59.999z", 253_402_300_799_999),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_times_are_read_with_their_zone(text: str, time_ms: int) -> None:
    assert times.parsed(text) == time_ms


def test_a_time_between_two_milliseconds_is_the_later_one() -> None:
    """A message of the earlier one was stored before it."""
    assert times.parsed("1970-01-01T00:00:00.0001Z") == 1
    assert times.parsed("1970-01-01T00:00:00.001001Z") == 2
