"""Retries counted and given-up messages sent through the engine's verbs, on a cold disk too."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from apps.engine.errors import Stopping, UnknownTransaction
from apps.engine.failuretypes import FailedMessage, RetryCount
from apps.engine.transactiontypes import SentAfterAll
from apps.engine.types import AckMode, PullRequest
from tests.engine.broker.sendbench import batch_of, record
from tests.engine.local.test_failures import Store


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    found = Store()
    await found.open()
    yield found
    await found.engine.close()


async def send(store: Store, count: int) -> None:
    records = [record("orders", body=b"%d" % number) for number in range(count)]
    await store.engine.append([batch_of(records, "orders")], ack=AckMode.SYNC)


async def lose(store: Store, body: bytes) -> str:
    """Begin a transaction and wait until it is given up; return its id."""
    batch = batch_of([record("orders", body=body)], "orders")
    begun = await store.engine.begin_transaction(batch, producer_group="g", ack=AckMode.SYNC)
    store.clock.advance(73 * 3_600_000)
    assert await store.engine.give_up_transactions() == 1
    return begun.transaction_id


def failed(*offsets: int) -> list[FailedMessage]:
    return [FailedMessage(topic="orders", queue=0, queue_offset=offset) for offset in offsets]


async def test_retries_are_counted_where_they_wait_on_a_cold_disk(store: Store) -> None:
    await send(store, 5)
    await store.engine.send_back("g", failed(0, 1, 2))
    await store.engine.send_back("g", failed(3), delay_ms=60_000)
    store.clock.advance(10_000)
    await store.engine.deliver_levels()
    await store.engine.send_back("g", failed(4))
    store.disk.make_cold()

    found = await store.engine.group_retries("g")

    assert store.disk.faults["cold"], "the fault did not fire"
    assert found.counts == (RetryCount(failures=1, in_topic=3, delayed=2),)
    assert found.is_complete
    assert [row.max_offset for row in store.engine.group_progress("g")] == [3]


async def test_a_given_up_message_is_listed_sent_once_and_durable(store: Store) -> None:
    transaction_id = await lose(store, b"late")
    waiting = store.engine.transaction_status().given_up_waiting
    (listed,) = (await store.engine.given_up()).messages

    answers = await asyncio.gather(
        *(
            store.engine.send_given_up(0, transaction_id=transaction_id, by=by)
            for by in ("ann", "bob")
        )
    )
    synced = store.engine.status()

    assert (waiting, store.engine.transaction_status().given_up_waiting) == (1, 0)
    assert (listed.transaction_id, listed.sent_ms) == (transaction_id, None)
    sent = SentAfterAll(topic="orders", queue=0, queue_offset=0)
    assert answers == [sent, replace(sent, is_repeat=True)]
    assert synced.synced_offset == synced.written_offset
    result = await store.engine.pull(PullRequest(topic="orders", queue=0, queue_offset=0))
    assert len(result.block) == 1


async def test_a_given_up_message_is_sent_from_a_cold_disk_to_who_waits_for_it(
    store: Store,
) -> None:
    transaction_id = await lose(store, b"late")
    reading = asyncio.create_task(
        store.engine.pull(PullRequest(topic="orders", queue=0, queue_offset=0, wait_ms=20_000))
    )
    while not store.engine.status().parked:
        await asyncio.sleep(0)
    # Only what is on the disk can leave memory.
    while store.engine.status().synced_offset < store.engine.status().written_offset:
        await asyncio.sleep(0)
    store.disk.make_cold()

    await store.engine.send_given_up(0, transaction_id=transaction_id)

    assert len((await reading).block) == 1
    assert store.disk.faults["cold"], "the fault did not fire"


async def test_what_is_none_is_refused_and_nothing_is_sent_while_stopping(store: Store) -> None:
    transaction_id = await lose(store, b"late")

    with pytest.raises(UnknownTransaction):
        await store.engine.send_given_up(1, transaction_id=transaction_id)
    await store.engine.close()
    with pytest.raises(Stopping):
        await store.engine.send_given_up(0, transaction_id=transaction_id)
