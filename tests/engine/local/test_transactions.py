"""Transactions and numbered messages in one process: what waits, what wakes, what is durable."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from apps.engine.config import EngineConfig
from apps.engine.errors import (
    InvalidArgument,
    MalformedBatch,
    Stopping,
    UnknownTopic,
    UnknownTransaction,
)
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from apps.engine.transactiontypes import Begun, Check, Outcome
from apps.engine.types import (
    AckMode,
    Appended,
    CatalogSnapshot,
    PullRequest,
    PullResult,
    RecordBatch,
    TopicSpec,
)
from tests.engine.broker.sendbench import batch_of, record

CONFIG = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0, transaction_check_ms=1_000)

Opener = Callable[..., Awaitable[LocalEngine]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opener]:
    engines: list[LocalEngine] = []

    async def open_engine(
        config: EngineConfig = CONFIG, clock: ManualClock | None = None
    ) -> LocalEngine:
        engine = await LocalEngine.open(tmp_path, config, clock=clock)
        engines.append(engine)
        topics = {"t": TopicSpec(name="t", queue_count=2)}
        version = engine.catalog.version + 1
        engine.publish_catalog(CatalogSnapshot(version=version, topics=topics))
        return engine

    yield open_engine
    for engine in engines:
        await engine.close()


def one(body: bytes = b"half", number: int | None = None) -> RecordBatch:
    return batch_of([record(body=body, number=number)])


async def begin(engine: LocalEngine, body: bytes = b"half", *, after: int | None = None) -> Begun:
    return await engine.begin_transaction(
        one(body), producer_group="g", check_immunity_ms=after, ack=AckMode.SYNC
    )


def asked(
    engine: LocalEngine, client_id: str = "c", *, wait_ms: int = 20_000, most: int = 32
) -> "asyncio.Task[list[Check]]":
    """Have a client wait for checks."""
    return asyncio.create_task(
        engine.receive_checks("g", client_id=client_id, checks_max=most, wait_ms=wait_ms)
    )


async def turns(count: int = 20) -> None:
    """Let everything run that can."""
    for _ in range(count):
        await asyncio.sleep(0)


def pulled(engine: LocalEngine, wait_ms: int = 0, offset: int = 0) -> Awaitable[PullResult]:
    return engine.pull(
        PullRequest(topic="t", queue=0, queue_offset=offset, messages_max=100, wait_ms=wait_ms)
    )


async def test_a_parked_reader_gets_what_is_committed_and_not_what_is_begun(
    opened: Opener,
) -> None:
    engine = await opened()
    reader = asyncio.ensure_future(pulled(engine, wait_ms=20_000))
    begun = await begin(engine)
    await turns()
    assert not reader.done()

    ended = await engine.end_transaction(begun.transaction_id, Outcome.COMMITTED)

    result = await reader
    assert (len(result.block), result.next_offset) == (1, ended.queue_offset + 1)  # type: ignore[operator]


async def test_what_was_begun_or_decided_is_on_the_disk(opened: Opener) -> None:
    engine = await opened()
    begun = await begin(engine)
    after_begin = engine.status()
    await engine.end_transaction(begun.transaction_id, Outcome.ROLLED_BACK)
    after_end = engine.status()

    assert after_begin.synced_offset == after_begin.written_offset
    assert after_end.synced_offset == after_end.written_offset > after_begin.written_offset


async def test_a_waiting_producer_is_asked_when_a_check_falls_due(opened: Opener) -> None:
    engine = await opened()
    waiting = asked(engine)
    await turns()

    begun = await begin(engine, after=30)
    (check,) = await waiting

    assert check.transaction_id == begun.transaction_id
    assert engine.transaction_status().checks == 1


async def test_a_check_goes_to_one_of_those_who_wait(opened: Opener) -> None:
    engine = await opened()
    waiting = [asked(engine, client_id) for client_id in ("a", "b")]
    await turns()

    await begin(engine, after=0)
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    await turns()

    assert len(done) == 1
    assert len(await done.pop()) == 1
    other = pending.pop()
    assert not other.done()
    await begin(engine, after=0)
    assert len(await other) == 1


async def test_one_that_asks_without_waiting_is_answered_at_once(opened: Opener) -> None:
    engine = await opened()
    await begin(engine)

    assert await engine.receive_checks("g", client_id="c") == []


async def test_a_producer_that_goes_away_while_it_waits_loses_no_check(
    opened: Opener, clock: ManualClock
) -> None:
    engine = await opened(clock=clock)
    gone = asked(engine, "gone")
    await turns()
    begun = await begin(engine, after=50)

    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    clock.advance(50)

    assert gone.cancelled()
    (check,) = await asked(engine, "there")
    assert (check.transaction_id, check.number) == (begun.transaction_id, 1)


async def test_check_now_wakes_who_waits(opened: Opener, clock: ManualClock) -> None:
    engine = await opened(clock=clock)
    begun = await begin(engine)
    waiting = asked(engine)
    await turns()
    assert not waiting.done()

    row = engine.check_now(begun.transaction_id)

    assert row is not None
    assert row.producers == 1
    assert [check.transaction_id for check in await waiting] == [begun.transaction_id]
    assert engine.check_now("0.1-00000000") is None


async def test_undecided_transactions_are_listed_and_given_up(
    opened: Opener, clock: ManualClock
) -> None:
    engine = await opened(clock=clock)
    begun = [await begin(engine, b"%d" % number) for number in range(3)]

    rows = await engine.transactions(messages_max=2)
    rest = await engine.transactions(after=rows[-1].half_offset)
    assert [row.transaction_id for row in [*rows, *rest]] == [
        one_begun.transaction_id for one_begun in begun
    ]
    assert await engine.transactions(producer_group="other") == []

    clock.advance(CONFIG.transaction_ms_max)
    assert await engine.give_up_transactions(2) == 2
    assert await engine.give_up_transactions() == 1
    assert await engine.give_up_transactions() == 0
    assert (engine.transaction_status().given_up, await engine.transactions()) == (3, [])


async def test_an_engine_that_stops_answers_who_waits_and_takes_nothing_more(
    opened: Opener,
) -> None:
    engine = await opened()
    begun = await begin(engine)
    waiting = asked(engine)
    await turns()

    await engine.close()

    assert await waiting == []
    with pytest.raises(Stopping):
        await begin(engine)
    with pytest.raises(Stopping):
        await engine.end_transaction(begun.transaction_id, Outcome.COMMITTED)
    with pytest.raises(Stopping):
        await engine.receive_checks("g", client_id="c")
    with pytest.raises(Stopping):
        engine.check_now(begun.transaction_id)
    with pytest.raises(Stopping):
        await engine.give_up_transactions()


async def test_requests_that_are_none_are_refused(opened: Opener) -> None:
    engine = await opened()

    with pytest.raises(UnknownTransaction):
        await engine.end_transaction("x", Outcome.COMMITTED)
    with pytest.raises(InvalidArgument):
        await engine.receive_checks("g", client_id="")
    with pytest.raises(InvalidArgument):
        await engine.transactions(messages_max=0)
    with pytest.raises(InvalidArgument):
        await engine.give_up_transactions(0)
    with pytest.raises(UnknownTopic):
        await pull_hidden(engine)


async def pull_hidden(engine: LocalEngine) -> None:
    await engine.pull(PullRequest(topic="RMQ_SYS_TRANS_HALF_TOPIC", queue=0, queue_offset=0))


async def test_decisions_at_the_same_moment_agree(opened: Opener) -> None:
    engine = await opened()
    begun = await begin(engine)

    ends = await asyncio.gather(
        *(engine.end_transaction(begun.transaction_id, Outcome.COMMITTED) for _ in range(5))
    )

    assert sorted(ended.is_repeat for ended in ends) == [False, True, True, True, True]
    assert {(ended.queue, ended.queue_offset) for ended in ends} == {(0, 0)}
    assert len((await pulled(engine)).block) == 1


# --- numbered messages -------------------------------------------------------------------------


async def test_the_same_number_many_times_at_once_is_stored_once(opened: Opener) -> None:
    engine = await opened()

    async def send() -> Appended:
        (answer,) = await engine.append([one(b"same", number=7)], ack=AckMode.SYNC)
        return answer

    answers = await asyncio.gather(*(send() for _ in range(20)))

    assert sum(answer.count for answer in answers) == 1
    assert {answer.queue_offset for answer in answers} == {0}
    assert len((await pulled(engine)).block) == 1


async def test_numbered_and_plain_messages_of_one_turn_keep_their_order(opened: Opener) -> None:
    engine = await opened()
    batches = [one(b"0"), one(b"1"), one(b"2", number=1), one(b"3"), one(b"4", number=2)]

    answers = await asyncio.gather(*(engine.append([batch], ack=AckMode.SYNC) for batch in batches))

    assert [answer.queue_offset for (answer,) in answers] == [0, 1, 2, 3, 4]


async def test_a_repeat_waits_until_the_first_is_on_the_disk(opened: Opener) -> None:
    engine = await opened()
    await engine.append([one(number=1)], ack=AckMode.ONEWAY)
    assert engine.status().synced_offset < engine.status().written_offset

    (again,) = await engine.append([one(number=1)], ack=AckMode.SYNC)

    assert again.repeats
    assert engine.status().synced_offset == engine.status().written_offset


async def test_a_refused_number_stores_nothing_and_fails_alone(opened: Opener) -> None:
    engine = await opened()
    bad = batch_of([record(number=1), record(number=1)])

    found = await asyncio.gather(
        engine.append([one(b"good")], ack=AckMode.SYNC),
        engine.append([bad], ack=AckMode.SYNC),
        engine.append([one(b"also")], ack=AckMode.SYNC),
        return_exceptions=True,
    )

    assert isinstance(found[1], MalformedBatch)
    assert len((await pulled(engine)).block) == 2


async def test_a_parked_reader_gets_numbered_messages(opened: Opener) -> None:
    engine = await opened()
    reader = asyncio.ensure_future(pulled(engine, wait_ms=20_000))
    await turns()

    await engine.append([one(number=1)], ack=AckMode.ASYNC)

    assert len((await reader).block) == 1


async def test_only_messages_are_counted_as_appended(opened: Opener) -> None:
    engine = await opened()
    await engine.append([one(number=1)], ack=AckMode.SYNC)
    await engine.append([one(number=1)], ack=AckMode.SYNC)

    assert engine.status().appended_messages == 1
