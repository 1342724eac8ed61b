"""A connection of the lane, on the fake engine and on the real one, without a socket."""

import asyncio
import json
from collections.abc import Callable

import pytest

from apps.doors.guard.clients import ClientLimits, ClientRates
from apps.doors.http.calls import Door
from apps.doors.http.settings import DoorSettings
from apps.doors.lane import connection as module
from apps.doors.lane.connection import Connection
from apps.doors.lane.limits import Limits
from apps.engine.clock import Clock
from apps.engine.types import AckMode, Appended, RecordBatch
from tests.doors.fake_engine import ManualClock
from tests.doors.lane.frames import ACKS, Answer, answers, appended, batch, frame
from tests.doors.recorder import Recorder

KIB = 1024


class FakeTransport:
    """Keeps what is written, and whether the other side may be read from."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_reading = True
        self.is_closed = False
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True


class Lane:
    """A connection and what is on the other side of it."""

    def __init__(self, door: Door, engine: object, *, limits: Limits | None = None) -> None:
        self.door = door
        self.transport = FakeTransport()
        self.connection = Connection(
            door,
            lambda: engine,  # type: ignore[arg-type, return-value]
            limits=limits,
        )
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    def arrive(self, data: bytes) -> int:
        """Receive as much as the connection reads now; return how much."""
        at = 0
        while at < len(data) and self.transport.is_reading and not self.transport.is_closed:
            room = self.connection.get_buffer(-1)
            count = min(len(room), len(data) - at)
            room[:count] = data[at : at + count]
            room.release()
            self.connection.buffer_updated(count)
            at += count
        return at

    async def send(self, data: bytes) -> None:
        """Receive all of it, in as many turns as that takes."""
        while data and not self.transport.is_closed:
            data = data[self.arrive(data) :]
            await asyncio.sleep(0)

    async def answers(self, count: int) -> list[Answer]:
        """Return all answers, once there are so many."""
        async with asyncio.timeout(60):
            while len(found := answers(b"".join(self.transport.writes))) < count:
                await asyncio.sleep(0.001)
        assert len(found) == count
        return found

    def end(self) -> None:
        self.connection.connection_lost(None)


class Held:
    """An engine whose appends end when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []

    async def append(self, batches: list[RecordBatch], *, ack: AckMode) -> list[Appended]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        await future
        (one,) = batches
        return [
            Appended(
                topic=one.topic,
                queue=one.queue,
                queue_offset=0,
                count=len(one.sizes),
                log_offset=0,
                store_time_ms=1,
            )
        ]

    def release(self) -> None:
        for future in self.waiting:
            future.set_result(None)


@pytest.fixture
def door(settings: DoorSettings, clock: Clock) -> Door:
    return Door(settings=settings, clock=clock)


@pytest.fixture
async def lane(door: Door, engine: Recorder) -> Lane:
    return Lane(door, engine)


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
async def slow(held: Held) -> Lane:
    return Lane(Door(settings=DoorSettings(), clock=ManualClock()), held)


@pytest.mark.parametrize("ack", ["", "async", "sync"])
async def test_a_batch_is_stored_and_its_place_is_answered(lane: Lane, ack: str) -> None:
    await lane.send(frame(7, batch(b"one", b"two", queue=2), queue=2, flags=ACKS[ack]))
    await lane.send(frame(8, batch(b"three", queue=2), queue=2, flags=ACKS[ack]))

    first, second = await lane.answers(2)

    assert (first.number, first.status, first.kind, appended(first)) == (7, 201, 1, (2, 0))
    assert (second.number, appended(second)) == (8, (1, 2))
    assert lane.door.in_flight.bytes == 0
    lane.end()


async def test_a_one_way_send_is_answered_without_a_body(lane: Lane) -> None:
    await lane.send(frame(7, batch(b"one"), flags=ACKS["oneway"]))

    (answer,) = await lane.answers(1)

    assert (answer.status, answer.kind, answer.body) == (202, 0, b"")
    lane.end()


async def test_a_batch_of_megabytes_is_stored_as_it_was_sent(lane: Lane) -> None:
    bodies = [bytes([number]) * 100 * KIB for number in range(20)]
    await lane.send(frame(1, batch(*bodies)) + frame(2, batch(b"behind it")))

    large, small = await lane.answers(2)

    assert (appended(large), appended(small)) == ((20, 0), (1, 20))
    lane.end()


async def test_requests_that_come_together_are_answered_together(lane: Lane) -> None:
    lane.arrive(b"".join(frame(number, batch(b"%d" % number)) for number in range(50)))

    found = await lane.answers(50)

    assert {answer.number: appended(answer) for answer in found} == {
        number: (1, number) for number in range(50)
    }
    # One write for what was stored in the same turn, one for what shared a frame of the log.
    assert len(lane.transport.writes) <= 2
    lane.end()


async def test_a_delayed_batch_is_answered_with_its_recall_handles(lane: Lane) -> None:
    body = batch(b"later", TIMER_DELAY_MS="60000")
    await lane.send(frame(7, body, flags=ACKS["async"] | 4))

    (answer,) = await lane.answers(1)

    assert (answer.status, answer.kind) == (201, 2)
    assert len(json.loads(answer.body)["recall_handles"]) == 1
    lane.end()


async def test_a_numbered_batch_that_is_repeated_is_stored_once(lane: Lane) -> None:
    numbered = batch(b"once", PRODUCER_ID="p", PRODUCER_SEQ="0")
    await lane.send(frame(1, numbered))
    (first,) = await lane.answers(1)
    await lane.send(frame(2, numbered))

    _, again = await lane.answers(2)

    assert appended(again) == appended(first) == (1, 0)
    lane.end()


@pytest.mark.parametrize(
    ("bad", "status", "code"),
    [
        (frame(7, batch(b"x"), verb=9), 422, "invalid_argument"),
        (frame(7, batch(b"x"), flags=0x80), 422, "invalid_argument"),
        (frame(7, batch(b"x", topic="nobody"), topic="nobody"), 404, "unknown_topic"),
        (frame(7, batch(b"x"), topic="no/body"), 422, "invalid_name"),
        (frame(7, batch(b"x"), queue=99), 404, "unknown_queue"),
        (frame(7, b"no batch"), 422, "malformed_batch"),
        (frame(7, batch(b"x")[:-1] + b"?"), 422, "checksum_mismatch"),
    ],
    ids=["verb", "flags", "topic", "name", "queue", "batch", "checksum"],
)
async def test_a_bad_request_is_told_as_by_http_and_the_next_is_served(
    lane: Lane, bad: bytes, status: int, code: str
) -> None:
    await lane.send(bad + frame(8, batch(b"good")))

    refused, served = await lane.answers(2)

    assert (refused.number, refused.status, refused.kind) == (7, status, 3)
    document = json.loads(refused.body)
    assert (document["code"], document["status"]) == (code, status)
    assert served.status == 201
    lane.end()


async def test_after_a_frame_without_an_end_the_connection_is_closed(lane: Lane) -> None:
    await lane.send(b"POST /api/v1/topics HTTP/1.1\r\n\r\n")

    (answer,) = await lane.answers(1)

    assert (answer.status, json.loads(answer.body)["code"]) == (413, "batch_too_large")
    assert lane.transport.is_closed
    lane.end()


@pytest.mark.parametrize("size", [100, 200 * KIB], ids=["small", "large"])
async def test_what_has_no_room_is_refused_for_now_and_the_next_is_served(
    lane: Lane, size: int
) -> None:
    in_flight = lane.door.in_flight
    taken = in_flight.bytes_max - 50
    in_flight.bytes += taken
    await lane.send(frame(7, batch(bytes(size))))
    in_flight.bytes -= taken
    await lane.send(frame(8, batch(b"good")))

    refused, served = await lane.answers(2)

    assert (refused.status, refused.retry_after_s) == (503, 1)
    assert json.loads(refused.body)["code"] == "overloaded"
    assert (served.status, in_flight.bytes, in_flight.refused_count) == (201, 0, 1)
    lane.end()


@pytest.mark.parametrize("cut", [150 * KIB, -1], ids=["in the middle", "at the last byte"])
async def test_a_large_request_is_dropped_when_others_take_the_room_meanwhile(
    lane: Lane, cut: int
) -> None:
    in_flight = lane.door.in_flight
    data = frame(7, batch(bytes(200 * KIB)))
    await lane.send(data[:cut])
    held_bytes, taken = in_flight.bytes, in_flight.bytes_max - in_flight.bytes
    in_flight.bytes += taken
    await lane.send(data[cut:])
    in_flight.bytes -= taken
    await lane.send(frame(8, batch(b"good")))

    refused, served = await lane.answers(2)

    assert held_bytes > 0
    assert (refused.number, refused.status, refused.retry_after_s) == (7, 503, 1)
    assert (served.status, in_flight.bytes, in_flight.refused_count) == (201, 0, 1)
    lane.end()


async def test_a_large_request_that_is_cut_off_holds_no_memory(lane: Lane) -> None:
    await lane.send(frame(7, batch(bytes(200 * KIB)))[: 150 * KIB])
    held_bytes = lane.door.in_flight.bytes
    lane.end()

    assert held_bytes > 0
    assert lane.door.in_flight.bytes == 0


async def test_without_an_engine_requests_are_refused_for_now(door: Door) -> None:
    lane = Lane(door, None)
    await lane.send(frame(7, batch(b"x")))

    (answer,) = await lane.answers(1)

    assert (answer.status, json.loads(answer.body)["code"]) == (503, "stopping")
    lane.end()


@pytest.mark.parametrize(
    "end",
    [lambda lane: lane.connection.shutdown(), lambda lane: lane.connection.eof_received()],
    ids=["the server stops", "the client has said all"],
)
async def test_what_is_under_way_at_the_end_is_answered_before_the_close(
    slow: Lane, held: Held, end: Callable[[Lane], object]
) -> None:
    await slow.send(frame(1, batch(b"a")) + frame(2, batch(b"b")))
    end(slow)
    was_open = not slow.transport.is_closed
    held.release()

    found = await slow.answers(2)

    assert was_open
    assert [answer.status for answer in found] == [201, 201]
    assert slow.transport.is_closed
    slow.end()


async def test_a_connection_that_is_cut_holds_no_memory_once_its_requests_end(
    slow: Lane, held: Held
) -> None:
    await slow.send(frame(1, batch(b"a")))
    held_bytes = slow.door.in_flight.bytes
    slow.transport.abort()
    slow.end()
    held.release()
    for _ in range(3):
        await asyncio.sleep(0)

    assert held_bytes > 0
    assert slow.door.in_flight.bytes == 0
    assert slow.transport.writes == []


async def test_a_client_with_too_much_unanswered_is_not_read_from(
    slow: Lane, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_UNANSWERED_MAX", 3)
    for number in range(3):
        slow.arrive(frame(number, batch(b"x")))
    was_reading = slow.transport.is_reading
    held.release()
    await slow.answers(3)

    assert not was_reading
    assert slow.transport.is_reading
    slow.end()


async def test_a_client_that_does_not_read_is_not_read_from_and_closed_in_the_end(
    slow: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STALLED_S", 0.0)
    slow.connection.pause_writing()
    was_reading = slow.transport.is_reading
    slow.connection.resume_writing()
    is_reading = slow.transport.is_reading
    slow.connection.pause_writing()
    async with asyncio.timeout(60):
        while not slow.transport.is_aborted:
            await asyncio.sleep(0.001)

    assert (was_reading, is_reading) == (False, True)
    slow.end()


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not(
    slow: Lane, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    await slow.send(frame(1, batch(b"a")))
    slow.connection._look_idle(0)
    slow.connection._look_idle(1)
    is_open_while_asked = not slow.transport.is_closed
    held.release()
    await slow.answers(1)
    slow.connection._look_idle(1)

    assert is_open_while_asked
    assert slow.transport.is_closed
    slow.end()


async def test_what_a_client_may_ask_for_is_counted_on_the_lane_as_elsewhere(
    door: Door, held: Held
) -> None:
    limits = ClientLimits(ClientRates(requests_max=2), ManualClock())
    lane = Lane(door, held, limits=Limits(limits, "10.0.0.1"))
    await lane.send(b"".join(frame(number, batch(b"x")) for number in range(2)))
    limits.enter("10.0.0.2")

    await lane.send(frame(2, batch(b"x")))
    (refused,) = await lane.answers(1)
    held.release()
    await lane.answers(3)
    await lane.send(frame(3, batch(b"x")))

    assert (refused.number, refused.status) == (2, 429)
    assert json.loads(refused.body)["code"] == "too_many_requests"
    assert limits.refused_count == 1
    assert len(held.waiting) == 3
    lane.end()
