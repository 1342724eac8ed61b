"""What goes from the front of the log, what stays because somebody needs it, and who sees what."""

import asyncio

import pytest

from apps.engine.errors import StoreDamaged, StoreFull
from apps.engine.files.backend import used_share
from apps.engine.log.segmentleases import SegmentLeases
from apps.engine.transactiontypes import Outcome
from apps.engine.types import AckMode, OffsetCommit, PullStatus, Settled, TopicSpec
from tests.engine.local.keeping import (
    CONFIG,
    HOUR_MS,
    SEGMENT_BYTES,
    Keeping,
    batch,
    kept,
    pull,
    receive,
    segments_on,
    send,
)

AGED_MS = 73 * HOUR_MS


async def test_what_is_too_old_goes_and_the_rest_stays() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        before = segments_on(store.disk)

        cleaned = await engine.clean_now()

        assert cleaned.deleted_segments >= 2
        assert segments_on(store.disk) == before[cleaned.deleted_segments :]
        assert engine.status().log_start == cleaned.log_start == segments_on(store.disk)[0]
        offsets = await kept(engine)
        assert 0 < offsets[0] <= 12
        assert offsets[-1] == 23


async def test_the_newest_segment_never_goes() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 2)
        store.clock.advance(1_000 * HOUR_MS)

        cleaned = await engine.clean_now()

        assert cleaned.deleted_segments == 0
        assert await kept(engine) == [0, 1]


async def test_a_pull_below_the_first_message_is_told_where_that_is() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        await engine.clean_now()

        result = await pull(engine, 0)

        first = (await kept(engine))[0]
        assert result.status is PullStatus.OFFSET_ILLEGAL
        assert (result.next_offset, result.min_offset) == (first, first)


async def test_a_restart_begins_where_the_log_does() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        await engine.clean_now()
        before, log_start = await kept(engine), engine.status().log_start

    async with store.opened() as engine:
        assert await kept(engine) == before
        assert engine.status().log_start == log_start
        await send(engine, 1)
        assert (await kept(engine))[-1] == 24


async def test_queues_made_anew_from_the_log_go_on_counting() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 7, queue=1)
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        await engine.clean_now()
        before = await kept(engine)
    store.disk.remove("checkpoint/consumequeue")

    async with store.opened() as engine:
        assert await kept(engine) == before
        # Nothing of this queue is in the log any more, and its next offset is known all the same.
        assert await kept(engine, queue=1) == []
        await send(engine, 1, queue=1)
        assert await kept(engine, queue=1) == [7]


async def test_files_of_entries_go_with_their_messages() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        await engine.clean_now()
        first = (await kept(engine))[0]
        await engine.clean_now()

        names = store.disk.names("consumequeue/t/0")

        assert names[0] == f"{first // 4 * 4 * 20:020d}"
        assert await kept(engine)


async def test_without_its_file_a_log_that_was_cut_is_not_opened() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        await engine.clean_now()
    store.disk.remove("checkpoint/retention")

    with pytest.raises(StoreDamaged, match="its own file is missing"):
        async with store.opened():
            pass


async def test_without_consumer_state_a_log_that_was_cut_is_not_opened() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 6)
        await engine.ack("g", await receive(engine, most=3))
        await send(engine, 6)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        assert (await engine.clean_now()).deleted_segments
    for path in ("checkpoint/consumers", "checkpoint/consumers.copy"):
        store.disk.remove(path)

    with pytest.raises(StoreDamaged, match="is missing, and retention has deleted"):
        async with store.opened():
            pass


async def test_a_group_that_is_behind_goes_on_at_the_first_message_and_its_loss_is_counted() -> (
    None
):
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        await engine.ack("g", await receive(engine, most=2))
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        await engine.clean_now()
        first = (await kept(engine))[0]

        handles = await receive(engine)

        assert int(handles[0].rpartition(":")[2]) == first
        progress = next(row for row in engine.group_progress("g") if row.queue == 0)
        assert (progress.committed, progress.lost) == (first, first - 2)
        assert [row.lost for row in engine.backlog("g") if row.queue == 0] == [first - 2]
        retention = engine.status().retention
        assert retention is not None
        assert retention.lost_messages == first - 2

    async with store.opened() as engine:
        progress = next(row for row in engine.group_progress("g") if row.queue == 0)
        assert progress.lost == first - 2


async def test_a_member_that_commits_what_is_gone_is_late_and_not_refused() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        await engine.clean_now()

        commit = OffsetCommit(topic="t", queue=0, queue_offset=1)
        await engine.commit_offsets("g", [commit], client_id="c")

        first = (await kept(engine))[0]
        assert all(row.committed >= first for row in engine.group_progress("g") if not row.queue)


async def test_what_is_in_flight_keeps_its_segment_until_it_is_settled() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        handles = await receive(engine, most=1)

        blocked = await engine.clean_now()
        (result,) = await engine.ack("g", handles)
        free = await engine.clean_now()

        assert blocked.deleted_segments == 0
        assert [block.holder for block in blocked.blocked_by] == ["leases"]
        assert blocked.blocked_by[0].size_bytes >= SEGMENT_BYTES
        assert result.outcome is Settled.OK
        assert free.deleted_segments >= 2
        assert free.blocked_by == ()


async def test_a_message_given_back_waits_for_its_readers_no_longer_than_others() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        store.clock.advance(AGED_MS - HOUR_MS)
        await receive(engine, most=1)
        await send(engine, 12)
        # The lease is over, and nobody asks for the message again.
        store.clock.advance(HOUR_MS + 1)
        engine._host.broker.expire()

        cleaned = await engine.clean_now()

        assert cleaned.deleted_segments >= 2
        first = (await kept(engine))[0]
        assert [int(handle.rpartition(":")[2]) for handle in await receive(engine, most=1)] == [
            first
        ]


async def test_what_waits_in_a_delay_level_keeps_its_segment() -> None:
    store = Keeping(config=CONFIG)
    async with store.opened() as engine:
        late = batch(b"late", properties={"DELAY": "18"})
        await engine.append([late], ack=AckMode.SYNC)
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)

        blocked = await engine.clean_now()
        await engine.deliver_levels()
        free = await engine.clean_now()

        assert "delay levels" in [block.holder for block in blocked.blocked_by]
        assert blocked.deleted_segments == 0
        assert free.deleted_segments >= 2


async def test_what_waits_for_a_moment_of_its_own_keeps_its_segment_until_it_is_in_a_run() -> None:
    store = Keeping()
    async with store.opened() as engine:
        due_ms = store.clock.wall_ms() + 300 * HOUR_MS
        late = batch(b"late", properties={"TIMER_DELIVER_MS": str(due_ms)})
        await engine.append([late], ack=AckMode.SYNC)
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)

        blocked = await engine.clean_now()
        waiting = engine._host.broker.delays.waiting
        while True:
            waiting.settle()
            job = waiting.plan(store.clock.wall_ms(), monotonic_ms=store.clock.monotonic_ms())
            if job is not None:
                break
            store.clock.advance(HOUR_MS)
        job.run()
        waiting.adopt(job)
        free = await engine.clean_now()
        store.clock.advance(300 * HOUR_MS)
        # The clock stands still for the loop, which looks again after a second at the latest.
        engine._host.broker.delays.on_sooner()
        while engine.queue_ranges("t")[0].max_offset < 25:
            await asyncio.sleep(0.01)

        assert "delayed messages" in [block.holder for block in blocked.blocked_by]
        assert blocked.deleted_segments == 0
        assert free.deleted_segments >= 2
        assert (await pull(engine, 24)).status is PullStatus.FOUND


async def test_an_undecided_transaction_keeps_its_segment() -> None:
    store = Keeping()
    async with store.opened() as engine:
        begun = await engine.begin_transaction(batch(b"half"), producer_group="p", ack=AckMode.SYNC)
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)

        blocked = await engine.clean_now()
        await engine.end_transaction(begun.transaction_id, Outcome.COMMITTED)
        free = await engine.clean_now()
        again = await engine.end_transaction(begun.transaction_id, Outcome.COMMITTED)

        assert [block.holder for block in blocked.blocked_by] == ["transactions"]
        assert free.deleted_segments >= 2
        assert again.is_repeat


async def test_a_reader_elsewhere_keeps_what_it_has_leased() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        elsewhere = SegmentLeases(store.disk, store.clock)
        lease = elsewhere.take("job-1", SEGMENT_BYTES + 5, lease_ms=HOUR_MS)

        blocked = await engine.clean_now()
        on_disk = segments_on(store.disk)
        store.clock.advance(HOUR_MS)
        free = await engine.clean_now()

        assert lease.log_offset == SEGMENT_BYTES + 5
        assert blocked.deleted_segments == 1
        assert on_disk[0] == SEGMENT_BYTES
        assert [block.holder for block in blocked.blocked_by] == ["reader job-1"]
        assert free.deleted_segments >= 1


@pytest.mark.parametrize(("share", "gone"), [(0.84, 0), (0.86, 1)])
async def test_a_lease_that_yields_holds_the_log_until_the_disk_is_too_full(
    share: float, gone: int
) -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 40)
        store.clock.advance(AGED_MS)
        await send(engine, 1)
        elsewhere = SegmentLeases(store.disk, store.clock)
        elsewhere.take("archive", 0, lease_ms=HOUR_MS, yields=True)
        used = store.disk.capacity_bytes - store.disk.free_bytes()
        store.disk.capacity_bytes = int(used / share)

        cleaned = await engine._cleaner.clean(at_any_hour=False)

        assert (cleaned.deleted_segments >= 1) is bool(gone)
        assert [block.holder for block in cleaned.blocked_by] == ["reader archive"] * (1 - gone)


async def test_a_lease_taken_between_the_decision_and_the_unlinking_holds() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        elsewhere = SegmentLeases(store.disk, store.clock)
        retention = engine._host.broker.retention
        store_start = retention.store_start

        def leased_first(*args: object) -> None:
            # The reader looks where the log starts before that has moved.
            assert elsewhere.take("job", 0, lease_ms=HOUR_MS).log_offset == 0
            store_start(*args)  # type: ignore[arg-type]

        retention.store_start = leased_first  # type: ignore[method-assign]
        moved = await engine.clean_now()
        on_disk = segments_on(store.disk)
        store.clock.advance(HOUR_MS)
        swept = await engine.clean_now()

        assert moved.log_start > 0
        assert moved.deleted_segments == 0
        assert on_disk[0] == 0
        assert swept.deleted_segments >= 2
        assert segments_on(store.disk)[0] == swept.log_start


async def test_a_read_under_way_finds_its_bytes() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        pins = engine._host.broker.log.front.pins
        queue = engine._host.broker.queues.queue("t", 0)
        entry = queue.read(0, 1).copy()

        with pins.held():
            cleaning = asyncio.create_task(engine.clean_now())
            while queue.min_offset == 0:
                await asyncio.sleep(0)
            for _ in range(20):
                await asyncio.sleep(0.005)
            log_offsets = entry["log_offset"].astype("i8")
            found = engine._host.broker.log.read_records(
                log_offsets, entry["size_bytes"].astype("i4"), wait=True
            )
            is_waiting = not cleaning.done()
        cleaned = await cleaning

        assert bytes(found).find(b"t/0/0") > 0
        assert is_waiting
        assert cleaned.deleted_segments >= 2


async def test_age_alone_is_a_reason_in_its_hour_only() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        cleaner = engine._cleaner
        while store.clock.wall_ms() // HOUR_MS % 24 != 3:
            store.clock.advance(HOUR_MS)

        early = await cleaner.clean(at_any_hour=False)
        store.clock.advance(HOUR_MS)
        due = await cleaner.clean(at_any_hour=False)

        assert early.deleted_segments == 0
        assert due.deleted_segments >= 2


async def test_a_log_that_is_too_long_loses_its_oldest_segments_at_any_hour() -> None:
    store = Keeping().with_config(retention_bytes=3 * SEGMENT_BYTES)
    async with store.opened() as engine:
        await send(engine, 40)

        cleaned = await engine._cleaner.clean(at_any_hour=False)

        assert cleaned.deleted_segments >= 4
        status = engine.status()
        # What the cleaning itself writes down comes on top.
        assert status.written_offset - status.log_start <= 3 * SEGMENT_BYTES + 2_000
        assert status.retention is not None
        assert status.retention.oldest_ms == store.clock.wall_ms()
        assert (await kept(engine))[-1] == 39


async def test_a_disk_that_fills_up_loses_the_oldest_although_they_are_young() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 40)
        used = store.disk.capacity_bytes - store.disk.free_bytes()
        store.disk.capacity_bytes = int(used / 0.86)

        cleaned = await engine._cleaner.clean(at_any_hour=False)

        assert 1 <= cleaned.deleted_segments < 7
        assert used_share(store.disk) < 0.85


async def test_a_clock_set_ahead_makes_nothing_old() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 24)
        store.clock.set_wall(store.clock.wall_ms() + 10_000 * HOUR_MS)

        cleaned = await engine.clean_now()

        assert cleaned.deleted_segments == 0


async def test_a_topic_hides_what_is_older_than_its_own_time() -> None:
    store = Keeping()
    store.topics["t"] = TopicSpec(name="t", queue_count=2, retention_ms=HOUR_MS)
    async with store.opened() as engine:
        await send(engine, 3)
        store.clock.advance(HOUR_MS + 1)
        await send(engine, 2)

        cleaned = await engine._cleaner.clean(at_any_hour=False)

        assert cleaned.deleted_segments == 0
        assert await kept(engine) == [3, 4]
    async with store.opened() as engine:
        assert await kept(engine) == [3, 4]


async def test_a_topic_with_a_longer_time_keeps_its_segments_and_no_longer() -> None:
    store = Keeping()
    store.topics["long"] = TopicSpec(name="long", queue_count=1, retention_ms=100 * HOUR_MS)
    async with store.opened() as engine:
        await send(engine, 6)
        await send(engine, 1, topic="long")
        await send(engine, 6)
        store.clock.advance(AGED_MS)
        await send(engine, 12)

        blocked = await engine.clean_now()
        held = await kept(engine, topic="long")
        store.clock.advance(28 * HOUR_MS)
        free = await engine.clean_now()

        assert [block.holder for block in blocked.blocked_by] == ["topic long/0"]
        assert blocked.deleted_segments == 1
        assert held == [0]
        assert free.deleted_segments >= 1
        assert await kept(engine, topic="long") == []


async def test_who_is_told_of_the_new_start_is_told_once() -> None:
    store = Keeping()
    async with store.opened() as engine:
        told: list[int] = []
        engine._host.broker.retention.followers.append(told.append)
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)

        cleaned = await engine.clean_now()
        await engine.clean_now()

        assert told == [cleaned.log_start]


async def test_a_full_disk_does_not_keep_anything_from_going() -> None:
    store = Keeping()
    async with store.opened() as engine:
        await send(engine, 12)
        store.clock.advance(AGED_MS)
        await send(engine, 12)
        log = engine._host.broker.log
        append, refused = log.append, []

        def full(*args: object, **options: object) -> object:

            refused.append(1)
            raise StoreFull("simulated")

        log.append = full  # type: ignore[method-assign, assignment]
        cleaned = await engine.clean_now()
        log.append = append  # type: ignore[method-assign]

        assert refused
        assert cleaned.deleted_segments >= 2
        first = (await kept(engine))[0]
    async with store.opened() as engine:
        assert (await kept(engine))[0] == first
