"""The verbs of groups at work, asked from another process: what is asked and answered arrives."""

import asyncio
import http.client
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apps.bridge.remote import RemoteEngine
from apps.engine.api import EngineControl
from apps.engine.errors import LockLost, Unreachable
from apps.engine.grouptypes import (
    BlockedHead,
    GroupHistory,
    LockChange,
    LockRefused,
    LockTransition,
    MemberState,
    QueueBacklog,
    QueueLockState,
    QueuePlace,
    Rebalance,
    Subscription,
)
from apps.engine.types import CatalogSnapshot, FilterType, GroupSpec, MessageModel, Strategy
from tests.doors.control.serving import TOKEN, Answering, Served

FENCE = (7 << 32) + 1
PLACE = QueuePlace(topic="orders", queue=3)
MEMBER = MemberState(
    group="billing",
    client_id="10.0.0.7@4711#ü",
    subscriptions=(
        Subscription(topic="orders", filter="price > 5", filter_type=FilterType.SQL92),
        Subscription(topic="bills"),
    ),
    model=MessageModel.BROADCASTING,
    ordered=True,
    strategy=Strategy.MACHINE_ROOM_NEARBY,
    site="room-1",
    generation=FENCE,
    joined_ms=1_700_000_000_000,
    last_seen_ms=1_700_000_000_123,
    is_waiting=True,
    assignment={"orders": (0, 2), "bills": ()},
    conflicts=("bills",),
    blocked=(
        BlockedHead(topic="orders", queue=2, queue_offset=2**40, attempts=9, reason="no stock"),
    ),
)
REBALANCE = Rebalance(
    number=2**40,
    at_ms=1_700_000_000_123,
    group="billing",
    generation=FENCE,
    reason="join",
    strategy=Strategy.CONSISTENT_HASH,
    assignment={"a": {"orders": (0, 1)}, "b": {}},
    queues_moved=2,
)
LOCK = QueueLockState(
    group="billing",
    topic="orders",
    queue=3,
    owner="a",
    epoch=FENCE,
    acquired_ms=1_700_000_000_000,
    expires_in_ms=-5,
)
TRANSITION = LockTransition(
    number=2**40 + 1,
    at_ms=1_700_000_000_123,
    group="billing",
    topic="orders",
    queue=3,
    change=LockChange.FORCED,
    owner="",
    previous_owner="a",
    epoch=FENCE,
    reason="it hangs",
)
REFUSED = LockRefused(
    group="billing",
    topic="orders",
    queue=3,
    owner="a",
    client_id="größer",
    minute_ms=1_700_000_000_000,
    count=2**40,
    last_ms=1_700_000_000_123,
)
BACKLOG = QueueBacklog(
    group="billing",
    topic="orders",
    queue=3,
    committed=1,
    delivered=2,
    max_offset=2**40,
    in_flight=1,
    oldest_age_ms=5,
    stalled_ms=None,
    head_attempts=None,
    owner="a",
    lock_epoch=FENCE,
    lock_expires_in_ms=-1,
)

Question = Callable[[EngineControl], object]


@pytest.mark.parametrize(
    ("verb", "question", "asked", "answer"),
    [
        ("members", lambda engine: engine.members(), ((None,), {}), [MEMBER]),
        ("members", lambda engine: engine.members("billing"), (("billing",), {}), []),
        (
            "rebalances",
            lambda engine: engine.rebalances("billing"),
            (("billing",), {}),
            [REBALANCE],
        ),
        ("queue_locks", lambda engine: engine.queue_locks(), ((None,), {}), [LOCK, LOCK]),
        (
            "release_lock",
            lambda engine: engine.release_lock(
                "billing", PLACE, reason="it hangs", expected_owner="a"
            ),
            (("billing", PLACE), {"reason": "it hangs", "expected_owner": "a"}),
            TRANSITION,
        ),
        (
            "release_lock",
            lambda engine: engine.release_lock("billing", PLACE, reason=""),
            (("billing", PLACE), {"reason": "", "expected_owner": None}),
            None,
        ),
        (
            "rebalance",
            lambda engine: engine.rebalance(reason="beat"),
            ((), {"reason": "beat", "group": None}),
            [REBALANCE],
        ),
        (
            "history",
            lambda engine: engine.history(2**40),
            ((2**40,), {}),
            GroupHistory(transitions=(TRANSITION,), rebalances=(REBALANCE,), last=2**40 + 1),
        ),
        (
            "lock_refusals",
            lambda engine: engine.lock_refusals(2**40),
            ((2**40,), {}),
            [REFUSED],
        ),
        ("backlog", lambda engine: engine.backlog("billing"), (("billing",), {}), [BACKLOG]),
    ],
)
async def test_what_is_asked_and_answered_arrives_as_it_was(
    served: Served,
    remote: RemoteEngine,
    verb: str,
    question: Question,
    asked: tuple[tuple[Any, ...], dict[str, Any]],
    answer: object,
) -> None:
    engine: Any = Answering(verb, answer)
    served.engine = engine

    found = await asyncio.to_thread(question, remote)

    assert found == answer
    assert engine.asked == [asked]


async def test_a_catalog_arrives_with_all_that_was_decided_about_a_group(
    served: Served, remote: RemoteEngine
) -> None:
    spec = GroupSpec(
        name="billing",
        enabled=False,
        ordered=True,
        strategy=Strategy.CONFIG,
        fixed={"a": {"orders": (0, 1)}, "b": {}},
        rooms=("r1", "r2"),
        retry_max=3,
        access_lock_ms=5_000,
    )
    snapshot = CatalogSnapshot(version=3, groups={"billing": spec})
    engine: Any = Answering("publish_catalog", None)
    served.engine = engine

    await asyncio.to_thread(remote.publish_catalog, snapshot)

    assert engine.asked == [((snapshot,), {})]


async def test_a_release_from_another_owner_than_expected_is_refused_as_lost(
    served: Served, remote: RemoteEngine
) -> None:
    engine: Any = Answering("release_lock", LockLost("the owner is b"))
    served.engine = engine

    with pytest.raises(LockLost, match="the owner is b"):
        await asyncio.to_thread(
            remote.release_lock, "billing", PLACE, reason="it hangs", expected_owner="a"
        )


async def test_ten_thousand_queues_are_listed_in_one_answer(
    served: Served, remote: RemoteEngine
) -> None:
    engine: Any = Answering("backlog", [BACKLOG] * 10_000)
    served.engine = engine

    assert await asyncio.to_thread(remote.backlog) == [BACKLOG] * 10_000


@asynccontextmanager
async def silent() -> AsyncIterator[tuple[int, list[bytes]]]:
    """Serve a port that takes requests and closes without an answer; yield it and the requests."""
    taken: list[bytes] = []
    served: list[asyncio.Future[None]] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if request := await reader.read(65_536):
            taken.append(request)
        writer.close()
        await writer.wait_closed()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.ensure_future(take(reader, writer)))

    async with await asyncio.start_server(begin, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], taken
        await asyncio.gather(*served)


def connected(port: int) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.connect()
    return connection


@pytest.mark.parametrize(
    ("question", "times"),
    [
        (lambda engine: engine.rebalance(reason="beat"), 2),
        (lambda engine: engine.release_lock("billing", PLACE, reason="it hangs"), 1),
    ],
)
async def test_a_lock_is_released_once_and_never_again_without_being_asked(
    question: Question, times: int
) -> None:
    """A broker that fails after the release: its next owner must not lose the lock as well."""
    async with silent() as (port, taken):
        remote = RemoteEngine("127.0.0.1", port, token=TOKEN)
        remote._kept.append((os.getpid(), await asyncio.to_thread(connected, port)))

        with pytest.raises(Unreachable):
            await asyncio.to_thread(question, remote)

        remote.close()

    assert len(taken) == times
