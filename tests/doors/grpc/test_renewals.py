"""What a push consumer works on is kept for it while it lives, and not longer."""

import asyncio

import pytest

from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.renewals import Renewals
from apps.doors.grpc.sessions import ALIVE_MS, Session, Sessions
from apps.doors.http.rights import EVERYTHING
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import AckMode, ReceiveRequest
from tests.engine.local.test_local_engine import a_batch

INVISIBLE_MS = 60_000
MOST_MS = 300_000


class Hours:
    """Renewals on the test's clock: what waits goes on when the test says so."""

    def __init__(self, engine: LocalEngine, clock: ManualClock) -> None:
        self.clock = clock
        self.engine = engine
        self.sessions = Sessions(clock)
        self.waits: list[tuple[int, asyncio.Future[None]]] = []
        self.renewals = Renewals(
            lambda: engine,
            self.sessions,
            clock=clock,
            invisible_ms=INVISIBLE_MS,
            renewed_ms_max=MOST_MS,
            sleep=self.sleep,
        )

    async def sleep(self, seconds: float) -> None:
        waited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waits.append((self.clock.monotonic_ms() + round(seconds * 1000), waited))
        await waited

    async def pass_by(self, ms: int, *, alive: Session | None = None) -> None:
        """Let time go by in steps of a second; a client that is alive calls all the while."""
        for _ in range(ms // 1_000):
            self.clock.advance(1_000)
            if alive is not None:
                self.sessions.seen(alive.client_id, EVERYTHING)
            due = [wait for wait in self.waits if wait[0] <= self.clock.monotonic_ms()]
            for wait in due:
                self.waits.remove(wait)
                wait[1].set_result(None)
            if due:
                # Until the renewal is on the disk and the next wait has begun.
                async with asyncio.timeout(20):
                    while self.renewals._task is not None and not self.waits:
                        await asyncio.sleep(0)

    async def receive(self) -> list[str]:
        request = ReceiveRequest(group="g", topics=("orders",), invisible_ms=INVISIBLE_MS)
        return [lease.token for lease in (await self.engine.receive(request)).leases]


@pytest.fixture
async def hours(engine: LocalEngine, clock: ManualClock) -> Hours:
    await engine.append([a_batch(b"0", b"1")], ack=AckMode.SYNC)
    return Hours(engine, clock)


async def begun(hours: Hours, client_id: str = "c") -> Session:
    """Have a client receive what is there; return its session."""
    session = hours.sessions.seen(client_id, EVERYTHING)
    tokens = await hours.receive()
    assert tokens
    hours.renewals.hold(session, "g", tokens)
    await asyncio.sleep(0)
    return session


async def test_what_a_living_client_holds_is_renewed(hours: Hours) -> None:
    session = await begun(hours)

    await hours.pass_by(4 * INVISIBLE_MS, alive=session)

    assert await hours.receive() == []


async def test_what_a_dead_client_held_comes_again(hours: Hours) -> None:
    await begun(hours)

    await hours.pass_by(ALIVE_MS + INVISIBLE_MS + 10_000)

    assert await hours.receive() != []
    assert hours.renewals._task is None


async def test_what_a_client_held_that_says_it_ends_comes_again(hours: Hours) -> None:
    session = await begun(hours)
    hours.sessions.forget(session)

    await hours.pass_by(INVISIBLE_MS, alive=session)

    assert await hours.receive() != []


async def test_nobody_holds_a_message_for_ever(hours: Hours) -> None:
    session = await begun(hours)

    await hours.pass_by(MOST_MS + INVISIBLE_MS, alive=session)

    assert await hours.receive() != []


async def test_what_is_settled_is_renewed_no_more(hours: Hours) -> None:
    session = hours.sessions.seen("c", EVERYTHING)
    tokens = await hours.receive()
    hours.renewals.hold(session, "g", tokens)
    await asyncio.sleep(0)
    await hours.engine.ack("g", [f"{token}:0-1" for token in tokens])

    await hours.pass_by(INVISIBLE_MS, alive=session)

    assert (len(hours.renewals), hours.waits, hours.renewals._task) == (0, [], None)


async def test_nothing_waits_while_nothing_is_out(hours: Hours) -> None:
    hours.renewals.hold(hours.sessions.seen("c", EVERYTHING), "g", [])

    assert hours.renewals._task is None


async def test_a_stop_ends_the_waiting(hours: Hours) -> None:
    await begun(hours)

    await hours.renewals.stop()

    assert (len(hours.renewals), hours.renewals._task) == (0, None)


def test_the_client_silent_for_longest_makes_room_for_a_new_one() -> None:
    sessions = Sessions(ManualClock(), sessions_max=2)
    for client_id in ("a", "b", "a", "c"):
        sessions.seen(client_id, EVERYTHING)

    assert [session.client_id for session in sessions] == ["a", "c"]


def test_a_client_without_a_stream_is_forgotten_after_a_while() -> None:
    clock = ManualClock()
    sessions = Sessions(clock)
    reached = sessions.seen("reached", EVERYTHING)
    reached.streams.append(object())  # type: ignore[arg-type]
    sessions.seen("silent", EVERYTHING)

    clock.advance(3_600_000)
    sessions.seen("new", EVERYTHING)

    assert {session.client_id for session in sessions} == {"reached", "new"}
    assert reached.client_type == pb.CLIENT_TYPE_UNSPECIFIED
