"""The engine in one process, on a real directory: what waits, what wakes, what survives."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import Record, decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.errors import (
    EngineError,
    InvalidArgument,
    InvalidName,
    MalformedBatch,
    NotPermitted,
    OffsetOutOfRange,
    Overloaded,
    Stopping,
    StoreLocked,
    UnknownQueue,
    UnknownTopic,
)
from apps.engine.failpoints import Failpoints
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.testing.manualclock import ManualClock
from apps.engine.types import (
    PERM_READ,
    PERM_WRITE,
    AckMode,
    CatalogSnapshot,
    MessageBlock,
    OffsetCommit,
    PullRequest,
    PullStatus,
    ReceiveRequest,
    RecordBatch,
    Settled,
    TopicSpec,
    TopicType,
)

CONFIG = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0)
CATALOG = CatalogSnapshot(
    version=1,
    topics={
        "orders": TopicSpec(name="orders", queue_count=2),
        "urgent": TopicSpec(name="urgent", queue_count=3, type=TopicType.PRIORITY),
        "closed": TopicSpec(name="closed", queue_count=1, perm=PERM_READ),
        "more": TopicSpec(name="more", queue_count=1),
        "blind": TopicSpec(name="blind", queue_count=1, perm=PERM_WRITE),
    },
)


def a_batch(*bodies: bytes, topic: str = "orders", queue: int = 0, tag: str = "") -> RecordBatch:
    properties = encode_properties({"TAGS": tag} if tag else {})
    records = [
        encode_record(topic=topic.encode(), queue=queue, body=body, properties=properties)
        for body in bodies
    ]
    return RecordBatch(
        topic=topic,
        queue=queue,
        payload=bytearray(b"".join(records)),
        sizes=np.array([len(record) for record in records], dtype=np.int32),
    )


def records_of(block: MessageBlock) -> list[Record]:
    return [decode_record(block.payload, start) for start in starts_of(block.sizes).tolist()]


def bodies_of(block: MessageBlock) -> list[bytes]:
    return [record.body for record in records_of(block)]


Opener = Callable[..., Awaitable[LocalEngine]]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opener]:
    engines: list[LocalEngine] = []

    async def open_engine(**changes: object) -> LocalEngine:
        engine = await LocalEngine.open(tmp_path, CONFIG, **changes)  # type: ignore[arg-type]
        engines.append(engine)
        engine.publish_catalog(CATALOG)
        return engine

    yield open_engine
    for engine in engines:
        await engine.close()


@pytest.fixture
async def engine(opened: Opener) -> LocalEngine:
    return await opened()


async def wait_until_parked(engine: LocalEngine, count: int) -> None:
    while engine.status().parked < count:
        await asyncio.sleep(0)


@pytest.mark.parametrize("ack", list(AckMode))
async def test_what_was_sent_is_pulled_in_order(engine: LocalEngine, ack: AckMode) -> None:
    await engine.append([a_batch(b"one", b"two")], ack=ack)
    (appended,) = await engine.append([a_batch(b"three")], ack=ack)

    found = await engine.pull(PullRequest(topic="orders", queue=0, queue_offset=0, wait_ms=5000))
    while found.next_offset < 3:
        more = await engine.pull(
            PullRequest(topic="orders", queue=0, queue_offset=found.next_offset, wait_ms=5000)
        )
        assert bodies_of(more.block)
        found = more

    everything = await engine.pull(PullRequest(topic="orders", queue=0, queue_offset=0))
    assert appended.queue_offset == 2
    assert bodies_of(everything.block) == [b"one", b"two", b"three"]
    assert [record.queue_offset for record in records_of(everything.block)] == [0, 1, 2]


async def test_batches_of_one_call_are_stored_together(engine: LocalEngine) -> None:
    appended = await engine.append(
        [a_batch(b"a"), a_batch(b"b", queue=1), a_batch(b"c")], ack=AckMode.SYNC
    )

    assert [(item.queue, item.queue_offset) for item in appended] == [(0, 0), (1, 0), (0, 1)]


async def test_concurrent_small_sends_share_frames_and_keep_their_own_answers(
    engine: LocalEngine,
) -> None:
    written = engine.status().written_offset
    sends = [engine.append([a_batch(b"%d" % i)], ack=AckMode.SYNC) for i in range(50)]

    answers = await asyncio.gather(*sends)

    assert sorted(answer[0].queue_offset for answer in answers) == list(range(50))
    record_bytes = len(a_batch(b"10").payload)
    # The first goes out at once, all others of the turn together.
    two_frames = 2 * 168 + 50 * (4 + record_bytes)
    assert engine.status().written_offset - written <= two_frames


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (a_batch(b"x", topic="unknown"), UnknownTopic),
        (a_batch(b"x", queue=2), UnknownQueue),
        (a_batch(b"x", queue=-1), UnknownQueue),
        (a_batch(b"x", topic="closed"), NotPermitted),
        (a_batch(b"x", topic="rmq_sys_consumer_state"), UnknownTopic),
    ],
)
async def test_a_bad_batch_stores_nothing_of_its_request(
    engine: LocalEngine, batch: RecordBatch, error: type[EngineError]
) -> None:
    written = engine.status().written_offset

    with pytest.raises(error):
        await engine.append([a_batch(b"good"), batch], ack=AckMode.SYNC)

    assert engine.status().written_offset == written


async def test_an_empty_request_is_refused(engine: LocalEngine) -> None:
    with pytest.raises(MalformedBatch):
        await engine.append([], ack=AckMode.SYNC)


@pytest.mark.parametrize(
    ("request_values", "error"),
    [
        ({"topic": "nope"}, UnknownTopic),
        ({"queue": 7}, UnknownQueue),
        ({"topic": "blind"}, NotPermitted),
        ({"messages_max": 0}, InvalidArgument),
        ({"bytes_max": 0}, InvalidArgument),
        ({"wait_ms": 30_001}, InvalidArgument),
    ],
)
async def test_a_bad_pull_is_refused(
    engine: LocalEngine, request_values: dict[str, object], error: type[EngineError]
) -> None:
    values: dict[str, object] = {"topic": "orders", "queue": 0, "queue_offset": 0}

    with pytest.raises(error):
        await engine.pull(PullRequest(**{**values, **request_values}))  # type: ignore[arg-type]


async def test_a_parked_pull_wakes_when_a_message_comes(engine: LocalEngine) -> None:
    request = PullRequest(topic="orders", queue=0, queue_offset=0, wait_ms=30_000)
    waiting = asyncio.create_task(engine.pull(request))
    await wait_until_parked(engine, 1)

    await engine.append([a_batch(b"at last")], ack=AckMode.ASYNC)

    found = await asyncio.wait_for(waiting, timeout=25)
    assert (found.status, bodies_of(found.block)) == (PullStatus.FOUND, [b"at last"])
    assert engine.status().parked == 0


async def test_a_pull_that_waits_in_vain_says_so(engine: LocalEngine) -> None:
    found = await engine.pull(PullRequest(topic="orders", queue=0, queue_offset=0, wait_ms=10))

    assert (found.status, found.next_offset) == (PullStatus.NO_NEW_MSG, 0)


async def test_a_cancelled_wait_leaves_nothing_behind(engine: LocalEngine) -> None:
    request = PullRequest(topic="orders", queue=0, queue_offset=0, wait_ms=30_000)
    waiting = asyncio.create_task(engine.pull(request))
    await wait_until_parked(engine, 1)

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert engine.status().parked == 0


async def test_too_many_waiting_readers_are_turned_away(tmp_path: Path) -> None:
    config = EngineConfig(segment_bytes=64 * MIB, reserve_bytes=0, parked_max=1)
    engine = await LocalEngine.open(tmp_path, config)
    engine.publish_catalog(CATALOG)
    request = PullRequest(topic="orders", queue=0, queue_offset=0, wait_ms=30_000)
    waiting = asyncio.create_task(engine.pull(request))
    await wait_until_parked(engine, 1)

    with pytest.raises(Overloaded):
        await engine.pull(request)

    await engine.close()
    assert (await waiting).status is PullStatus.NO_NEW_MSG


async def test_a_pull_by_tag_passes_over_the_others(engine: LocalEngine) -> None:
    await engine.append([a_batch(b"a", tag="A"), a_batch(b"b", tag="B")], ack=AckMode.SYNC)

    found = await engine.pull(PullRequest(topic="orders", queue=0, queue_offset=0, filter="B || C"))
    none = await engine.pull(PullRequest(topic="orders", queue=0, queue_offset=0, filter="C"))

    assert bodies_of(found.block) == [b"b"]
    assert (none.status, none.next_offset) == (PullStatus.NO_MATCHED_MSG, 2)


async def test_a_message_may_be_larger_than_the_bytes_asked_for(engine: LocalEngine) -> None:
    await engine.append([a_batch(b"x" * 5000, b"y" * 5000)], ack=AckMode.SYNC)

    found = await engine.pull(PullRequest(topic="orders", queue=0, queue_offset=0, bytes_max=100))

    assert bodies_of(found.block) == [b"x" * 5000]
    assert found.next_offset == 1


async def test_an_offset_beyond_the_queue_is_corrected(engine: LocalEngine) -> None:
    await engine.append([a_batch(b"x")], ack=AckMode.SYNC)

    found = await engine.pull(PullRequest(topic="orders", queue=0, queue_offset=9))

    assert (found.status, found.next_offset) == (PullStatus.OFFSET_ILLEGAL, 1)


async def receive(engine: LocalEngine, **values: object) -> list[tuple[str, bytes, int]]:
    """Return (handle, body, attempt) of what a group gets."""
    given: dict[str, object] = {"group": "g", "topics": ("orders",), **values}
    result = await engine.receive(ReceiveRequest(**given))  # type: ignore[arg-type]
    return [
        (f"{lease.token}:{record.queue_offset}", record.body, lease.attempt)
        for lease in result.leases
        for record in records_of(lease.block)
    ]


async def test_an_acknowledged_message_never_comes_back(
    engine: LocalEngine, opened: Opener
) -> None:
    await engine.append([a_batch(b"one", b"two")], ack=AckMode.SYNC)
    (first, _, _), _ = await receive(engine, invisible_ms=60_000)

    results = await engine.ack("g", [first])

    await engine.close()
    again = await opened()
    assert [result.outcome for result in results] == [Settled.OK]
    progress, _ = again.group_progress("g")
    assert (progress.committed, progress.delivered, progress.in_flight) == (1, 2, 1)


async def test_an_unacknowledged_message_comes_back_with_the_next_attempt(
    engine: LocalEngine,
) -> None:
    await engine.append([a_batch(b"one")], ack=AckMode.SYNC)
    ((handle, _, first_attempt),) = await receive(engine, invisible_ms=10)

    ((_, body, attempt),) = await receive(engine, wait_ms=5000)

    (late,) = await engine.ack("g", [handle])
    assert (first_attempt, attempt, body) == (1, 2, b"one")
    assert late.outcome is Settled.EXPIRED


async def test_high_queues_go_first_when_asked_for(engine: LocalEngine) -> None:
    batches = [a_batch(b"low", b"lower"), a_batch(b"high", b"higher", queue=1)]
    await engine.append(batches, ack=AckMode.SYNC)

    received = [await receive(engine, high_queue_first=True, messages_max=1) for _ in range(4)]

    bodies = [body for ((_, body, _),) in received]
    assert bodies == [b"high", b"higher", b"low", b"lower"]


async def test_a_high_queue_goes_first_again_when_something_comes_back(engine: LocalEngine) -> None:
    await engine.append([a_batch(b"low"), a_batch(b"high", queue=1)], ack=AckMode.SYNC)
    ((handle, _, _),) = await receive(engine, high_queue_first=True, messages_max=1)

    await engine.nack("g", [handle], delay_ms=0)
    received = await receive(engine, high_queue_first=True)

    assert [(body, attempt) for _, body, attempt in received] == [(b"high", 2), (b"low", 1)]


async def test_a_topic_of_priorities_is_read_from_its_highest_queue_without_being_asked(
    engine: LocalEngine,
) -> None:
    batches = [a_batch(b"%d" % number, topic="urgent", queue=number) for number in (1, 0, 2)]
    await engine.append(batches, ack=AckMode.SYNC)

    received = [await receive(engine, topics=("urgent",), messages_max=1) for _ in range(2)]
    await engine.append([a_batch(b"2, later", topic="urgent", queue=2)], ack=AckMode.SYNC)
    rest = await receive(engine, topics=("urgent",))

    assert [body for ((_, body, _),) in received] == [b"2", b"1"]
    assert [body for _, body, _ in rest] == [b"2, later", b"0"]


async def test_no_queue_starves_beside_a_topic_of_priorities(engine: LocalEngine) -> None:
    """Both topics and the queues of the plain one take turns; only priorities hold others up."""
    busy = [b"%d" % number for number in range(16)]
    batches = [a_batch(*busy, queue=0), a_batch(b"waits", queue=1)]
    await engine.append([*batches, a_batch(*busy, topic="urgent", queue=1)], ack=AckMode.SYNC)

    got = [await receive(engine, topics=("orders", "urgent"), messages_max=1) for _ in range(4)]

    assert b"waits" in [body for ((_, body, _),) in got]


async def test_high_queues_of_one_topic_do_not_hold_up_another_topic(engine: LocalEngine) -> None:
    bodies = [b"%d" % number for number in range(4)]
    await engine.append([a_batch(*bodies, queue=1), a_batch(b"y", topic="more")], ack=AckMode.SYNC)

    first_two = [
        await receive(engine, topics=("orders", "more"), high_queue_first=True, messages_max=1)
        for _ in range(2)
    ]

    assert {body for ((_, body, _),) in first_two} == {b"0", b"y"}


async def test_a_message_given_back_comes_at_once_or_after_its_delay(opened: Opener) -> None:
    clock = ManualClock()
    engine = await opened(clock=clock)
    await engine.append([a_batch(b"one")], ack=AckMode.SYNC)
    ((handle, _, _),) = await receive(engine)

    (given_back,) = await engine.nack("g", [handle], delay_ms=0, reason="not now")
    ((second, _, attempt),) = await receive(engine)
    await engine.nack("g", [second], delay_ms=20)
    at_once = await receive(engine)
    clock.advance(20)
    later = await receive(engine, wait_ms=5000)

    assert given_back.outcome is Settled.OK
    assert attempt == 2
    assert at_once == []
    assert [item[2] for item in later] == [3]


async def test_an_extended_message_has_a_new_handle_and_the_same_attempt(
    engine: LocalEngine,
) -> None:
    await engine.append([a_batch(b"one")], ack=AckMode.SYNC)
    ((old, _, _),) = await receive(engine)

    (extended,) = await engine.extend("g", [old], invisible_ms=60_000)

    (by_old,) = await engine.ack("g", [old])
    (by_new,) = await engine.ack("g", [extended.handle])
    assert extended.outcome is Settled.OK
    assert by_old.outcome is Settled.EXPIRED
    assert by_new.outcome is Settled.OK


async def test_a_run_of_messages_is_settled_by_one_handle(engine: LocalEngine) -> None:
    await engine.append([a_batch(*[b"%d" % i for i in range(100)])], ack=AckMode.SYNC)
    handles = [handle for handle, _, _ in await receive(engine, messages_max=100)]
    token = handles[0].partition(":")[0]

    results = await engine.ack("g", [f"{token}:0-49", f"{token}:50-99", f"{token}:0-99", "junk"])

    outcomes = [result.outcome for result in results]
    assert outcomes == [Settled.OK, Settled.OK, Settled.OK, Settled.INVALID]
    progress, _ = engine.group_progress("g")
    assert progress.committed == 100


async def test_an_acknowledgement_sent_twice_is_answered_twice(engine: LocalEngine) -> None:
    await engine.append([a_batch(b"one")], ack=AckMode.SYNC)
    ((handle, _, _),) = await receive(engine)

    answers = [await engine.ack("g", [handle]), await engine.ack("g", [handle])]

    assert [answer[0].outcome for answer in answers] == [Settled.OK, Settled.OK]


async def test_a_handle_of_another_group_is_invalid(engine: LocalEngine) -> None:
    await engine.append([a_batch(b"one")], ack=AckMode.SYNC)
    ((handle, _, _),) = await receive(engine)

    (result,) = await engine.ack("h", [handle])

    assert result.outcome is Settled.INVALID


async def test_groups_do_not_disturb_each_other(engine: LocalEngine) -> None:
    await engine.append([a_batch(b"one")], ack=AckMode.SYNC)

    mine, theirs = await receive(engine), await receive(engine, group="h")

    assert [item[1] for item in mine] == [item[1] for item in theirs] == [b"one"]


async def test_receivers_of_a_group_share_a_queue(engine: LocalEngine) -> None:
    await engine.append([a_batch(*[b"%d" % i for i in range(10)])], ack=AckMode.SYNC)

    shares = [await receive(engine, messages_max=4) for _ in range(4)]

    assert [len(share) for share in shares] == [4, 4, 2, 0]
    assert len({body for share in shares for _, body, _ in share}) == 10


async def test_an_ordered_receive_waits_for_the_lease_before(engine: LocalEngine) -> None:
    await engine.append([a_batch(b"1", b"2")], ack=AckMode.SYNC)
    request = ReceiveRequest(group="g", topics=("orders",), messages_max=1, ordered=True)
    first = await engine.receive(request)

    blocked = await engine.receive(request)
    await engine.ack("g", [f"{first.leases[0].token}:0"])
    second = await engine.receive(request)

    assert (blocked.leases, blocked.blocked) == ((), (("orders", 0),))
    assert bodies_of(second.leases[0].block) == [b"2"]


async def test_a_parked_receive_wakes_when_a_lease_runs_out(engine: LocalEngine) -> None:
    await engine.append([a_batch(b"one")], ack=AckMode.SYNC)
    await receive(engine, invisible_ms=30)

    ((_, _, attempt),) = await asyncio.wait_for(receive(engine, wait_ms=30_000), timeout=25)

    assert attempt == 2


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"group": "a/b"}, InvalidName),
        ({"group": "rmq_sys_x"}, InvalidName),
        ({"topics": ()}, InvalidArgument),
        ({"topics": ("nope",)}, UnknownTopic),
        ({"topics": ("blind",)}, NotPermitted),
        ({"invisible_ms": 9}, InvalidArgument),
        ({"messages_max": 100_000}, InvalidArgument),
        ({"client_id": "x" * 256}, InvalidArgument),
        ({"client_id": "a\0b"}, InvalidArgument),
        ({"client_id": "a\u202eb"}, InvalidArgument),
    ],
)
async def test_a_bad_receive_is_refused(
    engine: LocalEngine, values: dict[str, object], error: type[EngineError]
) -> None:
    with pytest.raises(error):
        await receive(engine, **values)


async def test_committed_offsets_survive_and_bad_ones_change_nothing(
    engine: LocalEngine, opened: Opener
) -> None:
    await engine.append([a_batch(b"1", b"2", b"3")], ack=AckMode.SYNC)
    good = OffsetCommit(topic="orders", queue=0, queue_offset=2)

    await engine.commit_offsets("g", [good])
    with pytest.raises(OffsetOutOfRange):
        await engine.commit_offsets(
            "g",
            [
                OffsetCommit(topic="orders", queue=0, queue_offset=3),
                OffsetCommit(topic="orders", queue=1, queue_offset=1),
            ],
        )

    await engine.close()
    again = await opened()
    progress, _ = again.group_progress("g")
    assert progress.committed == 2
    assert [body for _, body, _ in await receive(again)] == [b"3"]


async def test_a_second_engine_on_the_store_is_told_who_holds_it(
    engine: LocalEngine, tmp_path: Path
) -> None:
    with pytest.raises(StoreLocked) as refused:
        await LocalEngine.open(tmp_path, CONFIG)

    assert refused.value.owner["pid"]
    assert "started_at" in refused.value.owner
    assert str(refused.value.owner["pid"]) in str(refused.value)


async def test_a_deleted_topic_made_again_starts_where_it_ended(
    engine: LocalEngine, opened: Opener
) -> None:
    await engine.append([a_batch(b"old")], ack=AckMode.SYNC)
    without = CatalogSnapshot(version=2)
    engine.publish_catalog(without)
    with pytest.raises(UnknownTopic):
        engine.queue_ranges("orders")

    engine.publish_catalog(CatalogSnapshot(version=3, topics=CATALOG.topics))
    (appended,) = await engine.append([a_batch(b"new")], ack=AckMode.SYNC)

    assert appended.queue_offset == 1
    assert [body for _, body, _ in await receive(engine)] == [b"new"]
    await engine.close()
    again = await opened()
    assert again.catalog.version == 3
    assert (again.queue_ranges("orders")[0].min_offset, appended.queue_offset) == (1, 1)


async def test_an_older_catalog_is_ignored(engine: LocalEngine) -> None:
    engine.publish_catalog(CatalogSnapshot(version=1))

    assert "orders" in engine.catalog.topics


async def test_a_failed_sync_answers_nobody_and_stops_the_engine(opened: Opener) -> None:
    failpoints = Failpoints("log.before_sync=error(1)")
    fatal: list[EngineError] = []
    engine = await opened(failpoints=failpoints, on_fatal=fatal.append)

    with pytest.raises(EngineError):
        await engine.append([a_batch(b"one")], ack=AckMode.SYNC)
    with pytest.raises(Stopping):
        await engine.append([a_batch(b"two")], ack=AckMode.ASYNC)

    assert failpoints.fired["log.before_sync"] == 1
    assert [error.code for error in fatal] == ["sync_failed"]


async def test_a_failed_write_of_an_acknowledgement_stops_the_engine(
    tmp_path: Path, opened: Opener
) -> None:
    first = await opened()
    await first.append([a_batch(b"one")], ack=AckMode.SYNC)
    await first.close()
    failpoints = Failpoints("log.before_write=error(2)")
    fatal: list[EngineError] = []
    engine = await opened(failpoints=failpoints, on_fatal=fatal.append)
    ((handle, _, _),) = await receive(engine)

    with pytest.raises(EngineError):
        await engine.ack("g", [handle])
    with pytest.raises(Stopping):
        await receive(engine)

    assert failpoints.fired["log.before_write"] == 1
    assert [error.code for error in fatal] == ["write_failed"]


async def test_a_closed_engine_takes_nothing(engine: LocalEngine) -> None:
    await engine.close()

    with pytest.raises(Stopping):
        await engine.append([a_batch(b"late")], ack=AckMode.SYNC)


async def test_closing_answers_those_who_wait(engine: LocalEngine) -> None:
    waiting = asyncio.create_task(
        engine.receive(ReceiveRequest(group="g", topics=("orders",), wait_ms=30_000))
    )
    await wait_until_parked(engine, 1)

    await engine.close()

    assert (await waiting).leases == ()
