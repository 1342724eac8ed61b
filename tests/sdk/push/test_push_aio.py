"""The push consumer for asyncio over real sockets."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mqclient import (
    AsyncPushConsumer,
    Closed,
    Consumed,
    ListenerContext,
    Message,
    TopicQueue,
    UnknownTopic,
)

from tests.sdk.fake_broker import FakeBroker
from tests.sdk.push.hearing import WAIT_S, Ear

AsyncListener = Callable[[list[Message], ListenerContext], Awaitable[Consumed | None]]


def consumer(broker: FakeBroker, listener: AsyncListener, **settings: Any) -> AsyncPushConsumer:
    named = {"group": "g", "topics": "orders", "lock_ask_s": 0.02, **settings}
    return AsyncPushConsumer(broker.url, listener=listener, **named)


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def fill(broker: FakeBroker, count: int) -> None:
    for queue in range(4):
        broker.put("orders", queue, *numbered(count))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("ordered", [False, True])
async def test_every_message_is_heard_and_committed(broker: FakeBroker, ordered: bool) -> None:
    fill(broker, 100)
    ear = Ear()

    async with consumer(broker, ear.listen, ordered=ordered):
        await until(lambda: len(ear.bodies) == 400)

    heard = {
        queue: bodies if ordered else sorted(bodies, key=int)
        for queue, bodies in ear.by_queue.items()
    }
    assert heard == {queue: numbered(100) for queue in range(4)}
    assert broker.progress == {("g", "orders", queue): 100 for queue in range(4)}
    assert broker.groups["g"].members == {}
    assert broker.groups["g"].locks == {}


async def test_queues_are_worked_on_side_by_side_and_each_by_one_task(broker: FakeBroker) -> None:
    fill(broker, 5)
    together = asyncio.Barrier(4)
    inside: dict[int, int] = dict.fromkeys(range(4), 0)
    overlaps = []
    ear = Ear()

    async def listener(messages: list[Message], context: ListenerContext) -> Consumed | None:
        queue = context.queue.queue
        inside[queue] += 1
        overlaps.extend([queue] * (inside[queue] > 1))
        await together.wait()
        inside[queue] -= 1
        return ear(messages, context)

    async with consumer(broker, listener, ordered=True):
        await until(lambda: len(ear.bodies) == 20)

    assert overlaps == []
    assert dict(ear.by_queue) == {queue: numbered(5) for queue in range(4)}


async def test_a_listener_that_takes_too_long_is_cancelled_and_tried_again(
    broker: FakeBroker,
) -> None:
    broker.put("orders", 0, b"x")
    attempts = []

    async def listener(_messages: list[Message], context: ListenerContext) -> Consumed:
        attempts.append(context.attempt)
        if context.attempt == 1:
            await asyncio.Event().wait()
        return Consumed.SUCCESS

    async with consumer(broker, listener, consume_timeout_s=0.02, retry_delay_ms=20):
        await until(lambda: attempts == [1, 2])

    assert broker.committed["g", "orders", 0] == 1


async def test_closing_cancels_a_listener_after_its_time_and_releases_its_lock(
    broker: FakeBroker,
) -> None:
    broker.put("orders", 0, b"x")
    entered, was_cancelled = asyncio.Event(), asyncio.Event()

    async def listener(_messages: list[Message], _context: ListenerContext) -> Consumed:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled.set()
            raise
        return Consumed.SUCCESS

    member = consumer(broker, listener, ordered=True, stop_wait_s=0.01)
    await member.start()
    await asyncio.wait_for(entered.wait(), WAIT_S)
    await member.close()

    assert was_cancelled.is_set()
    assert broker.groups["g"].locks == {}
    assert broker.committed["g", "orders", 0] == 0


async def test_a_listener_that_never_waits_leaves_the_loop_to_others(broker: FakeBroker) -> None:
    broker.put("orders", 0, *numbered(500))
    ear = Ear()
    turns = 0
    async with consumer(broker, ear.listen):
        while len(ear.bodies) < 500:
            turns += 1
            await asyncio.sleep(0)

    assert turns > 20


async def test_what_the_broker_refuses_is_raised_by_start(broker: FakeBroker) -> None:
    member = consumer(broker, Ear().listen, topics="nowhere")

    with pytest.raises(UnknownTopic):
        await member.start()
    with pytest.raises(Closed):
        await member.start()


async def test_a_blocked_queue_can_be_skipped_and_reading_paused(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"poison", b"fine")
    ear = Ear(lambda message, _: Consumed.SUCCESS if message.body != b"poison" else None)

    async with consumer(
        broker, ear.listen, ordered=True, suspend_ms=10, attempts_max=1, is_burying=False
    ) as member:
        await until(lambda: bool(member.blocked()))
        await member.skip_blocked(TopicQueue("orders", 0))
        await until(lambda: b"fine" in ear.bodies)
        await member.pause()
        await member.resume()
        broker.put("orders", 1, b"more")
        await until(lambda: b"more" in ear.bodies)
        queues = member.assignment()

    assert len(queues) == 4
    assert ear.bodies == [b"poison", b"fine", b"more"]


async def test_two_members_on_one_loop_share_the_queues(broker: FakeBroker) -> None:
    first, second = Ear(), Ear()
    async with consumer(broker, first.listen) as one, consumer(broker, second.listen) as two:
        await until(lambda: len(one.assignment()) == len(two.assignment()) == 2)
        assert one.client_id != two.client_id
        fill(broker, 10)
        await until(lambda: len(first.bodies) + len(second.bodies) == 40)

    assert len(first.bodies) == len(second.bodies) == 20
