"""A compacted topic: the newest message of each key stays, older ones go, offsets do not change."""

from dataclasses import replace

import pytest

from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import KEYS
from apps.engine.codec.record import Record, decode_record
from apps.engine.errors import MessageIllegal
from apps.engine.local import LocalEngine
from apps.engine.searchtypes import SearchRequest
from apps.engine.types import (
    AckMode,
    Cleanup,
    FilterType,
    MessageBlock,
    PullRequest,
    PullResult,
    PullStatus,
    ReceiveRequest,
    TopicSpec,
)
from tests.engine.local.compacting import (
    TOMBSTONE_MS,
    Model,
    compact,
    compacting,
    offsets,
    put,
    read_all,
)
from tests.engine.local.keeping import HOUR_MS, batch, segments_on, send

AGED_MS = 73 * HOUR_MS


async def test_older_messages_of_a_key_go_and_offsets_stay() -> None:
    store, model = compacting(), Model()
    async with store.opened() as engine:
        await put(engine, model, ("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"), ("b", b"5"))

        await compact(engine)

        assert offsets(await read_all(engine)) == [2, 3, 4]
        model.check(0, await read_all(engine))
        await put(engine, model, ("a", b"6"))
        assert offsets(await read_all(engine)) == [2, 3, 4, 5], "what is new is not compacted yet"
        await compact(engine)
        assert offsets(await read_all(engine)) == [3, 4, 5]
    async with store.opened() as engine:
        assert offsets(await read_all(engine)) == [3, 4, 5]
        assert engine.queue_ranges("t")[0].min_offset == 0
        assert engine.queue_ranges("t")[0].max_offset == 6


async def test_kept_messages_outlive_their_segments() -> None:
    store, model = compacting(), Model()
    async with store.opened() as engine:
        for turn in range(12):
            await put(engine, model, (f"k{turn % 3}", b"%d" % turn * 1000), (f"once{turn}", b"x"))
        store.clock.advance(AGED_MS)
        await send(engine, 12, topic="u")
        before = segments_on(store.disk)

        cleaned = await engine.clean_now()

        assert cleaned.deleted_segments >= 1, cleaned
        assert segments_on(store.disk)[0] > before[0]
        model.check(0, await read_all(engine))
        assert len(await read_all(engine)) == 15
    async with store.opened() as engine:
        model.check(0, await read_all(engine))
        await put(engine, model, ("k0", b"again"))
        await compact(engine)
        model.check(0, await read_all(engine))
        assert len(await read_all(engine)) == 15


async def test_retention_waits_for_what_is_not_copied_yet() -> None:
    store, model = compacting(), Model()
    store.failpoints = "compaction.before_file=full(1)"
    async with store.opened() as engine:
        for turn in range(12):
            await put(engine, model, (f"k{turn}", b"%d" % turn * 1000))
        store.clock.advance(AGED_MS)
        await send(engine, 12, topic="u")
        engine._compactor.compact_all = _nothing  # type: ignore[method-assign]

        cleaned = await engine.clean_now()

        assert cleaned.deleted_segments == 0
        assert [block.holder for block in cleaned.blocked_by] == ["compaction"]
        assert engine._host.broker.compaction.failed_rounds == 1
        model.check(0, await read_all(engine))


async def _nothing() -> None:
    return


async def test_a_message_without_a_body_is_kept_for_a_while_and_goes_with_its_key() -> None:
    store, model = compacting(), Model()
    async with store.opened() as engine:
        await put(engine, model, ("a", b"1"), ("b", b"2"), ("a", b""))
        await compact(engine)
        assert offsets(await read_all(engine)) == [1, 2]

        store.clock.advance(2 * TOMBSTONE_MS + 1)
        await engine._compactor.look()

        assert offsets(await read_all(engine)) == [1]
        assert (await pull_at(engine, 2)).status is PullStatus.NO_MATCHED_MSG
        await put(engine, model, ("a", b"new"))
        assert offsets(await read_all(engine)) == [1, 3]


async def pull_at(engine: LocalEngine, offset: int) -> PullResult:
    return await engine.pull(PullRequest(topic="t", queue=0, queue_offset=offset, messages_max=3))


async def test_a_reader_in_a_gap_goes_on_behind_it() -> None:
    store, model = compacting(), Model()
    async with store.opened() as engine:
        for turn in range(10):
            await put(engine, model, ("a", b"%d" % turn))
        await put(engine, model, ("b", b"x"))
        await compact(engine)

        result = await pull_at(engine, 4)

        assert result.status is PullStatus.FOUND
        assert (result.next_offset, result.min_offset, result.max_offset) == (11, 0, 11)
        assert offsets(await read_all(engine, start=4)) == [9, 10]


async def test_a_group_is_handed_out_what_is_kept_once() -> None:
    store, model = compacting(), Model()
    async with store.opened() as engine:
        for turn in range(6):
            await put(engine, model, (f"k{turn % 2}", b"%d" % turn))
        await compact(engine)
        request = ReceiveRequest(group="g", topics=("t",), messages_max=32, invisible_ms=HOUR_MS)
        (lease,) = (await engine.receive(request)).leases
        assert len(lease.block) == 2
        # While they are out a newer one replaces one of them.
        await put(engine, model, ("k0", b"new"))
        await compact(engine)
        store.clock.advance(2 * HOUR_MS)

        again = await engine.receive(request)

        assert sorted(len(one.block) for one in again.leases) == [1, 1]
        assert not (await engine.receive(request)).leases


async def test_kept_messages_are_found_by_key_id_time_and_place() -> None:
    store, model = compacting(), Model()
    async with store.opened() as engine:
        began_ms = store.clock.wall_ms()
        for turn in range(12):
            await put(engine, model, (f"k{turn % 3}", b"%d" % turn * 1000))
        store.clock.advance(AGED_MS)
        await send(engine, 12, topic="u")
        assert (await engine.clean_now()).deleted_segments

        (found,) = (await engine.search(SearchRequest(topic="t", key="k1"))).blocks
        record = offsets(_records(found))
        assert record == [10]
        message_id = _records(found)[0].message_id
        for request in (
            SearchRequest(topic="t", message_id=message_id),
            SearchRequest(topic="t", queue=0, queue_offset=10),
            SearchRequest(topic="t", offset_id=message_id),
        ):
            (found,) = (await engine.search(request)).blocks
            assert offsets(_records(found)) == [10], request
        assert not (await engine.search(SearchRequest(topic="t", queue=0, queue_offset=1))).blocks
        by_time = await engine.search(SearchRequest(topic="t", from_ms=began_ms))
        assert [offsets(_records(block))[0] for block in by_time.blocks] == [11, 10, 9]
        assert not by_time.scan_incomplete


def _records(block: MessageBlock) -> list[Record]:
    return [decode_record(block.payload, at) for at in starts_of(block.sizes).tolist()]


async def test_a_message_without_a_key_is_refused_with_all_of_its_batch() -> None:
    store = compacting()
    async with store.opened() as engine:
        for properties in ({}, {KEYS: " "}, {"XKEYS": "a"}):
            with pytest.raises(MessageIllegal):
                await engine.append([batch(b"1", properties=properties)], ack=AckMode.SYNC)
        with pytest.raises(MessageIllegal):
            await engine.append(
                [batch(b"1", properties={KEYS: "a"}), batch(b"2")], ack=AckMode.SYNC
            )
        assert engine.queue_ranges("t")[0].max_offset == 0


async def test_a_filter_takes_from_what_is_kept() -> None:
    store, model = compacting(), Model()
    async with store.opened() as engine:
        for turn in range(4):
            one = batch(b"x", properties={KEYS: f"k{turn % 3}", "TAGS": f"T{turn % 2}", "n": "1"})
            await engine.append([one], ack=AckMode.SYNC)
        await compact(engine)
        for text, kind in (("T1", FilterType.TAG), ("TAGS = 'T1'", FilterType.SQL92)):
            result = await engine.pull(
                PullRequest(
                    topic="t",
                    queue=0,
                    queue_offset=0,
                    messages_max=9,
                    filter=text,
                    filter_type=kind,
                )
            )
            assert offsets(_records(result.block)) == [1, 3]
        del model


async def test_a_deleted_topic_takes_its_kept_messages_along() -> None:
    store, model = compacting(), Model()
    async with store.opened() as engine:
        await put(engine, model, ("a", b"1"), ("b", b"2"))
        await compact(engine)
        assert store.disk.names("compacted/t/0")
        spec = store.topics.pop("t")
        store.publish(engine)

        await engine._compactor.look()

        assert not store.disk.names("compacted/t/0")
        store.publish(engine, t=spec)
        assert engine.queue_ranges("t")[0].min_offset == 2
        await put(engine, model, ("a", b"3"), ("a", b"4"))
        await compact(engine)
        assert offsets(await read_all(engine)) == [3]
    async with store.opened() as engine:
        assert offsets(await read_all(engine)) == [3]


async def test_a_round_that_may_take_few_messages_is_one_of_many() -> None:
    store, model = compacting().with_config(compaction_keys_max=3), Model()
    async with store.opened() as engine:
        for turn in range(20):
            await put(engine, model, (f"k{turn % 4}", b"%d" % turn))
        for _ in range(7):
            await compact(engine)
        assert offsets(await read_all(engine)) == [16, 17, 18, 19]
        status = engine._host.broker.compaction.status()
        assert status.rounds == 7
        assert status.messages_after < status.messages_before


async def test_rounds_are_due_by_what_is_new_beside_what_is_kept() -> None:
    store, model = compacting(), Model()
    async with store.opened() as engine:
        await put(engine, model, *[(f"k{turn}", b"x") for turn in range(3)])
        await engine._compactor.look()
        assert engine._host.broker.compaction.rounds == 0
        await put(engine, model, *[(f"l{turn}", b"x") for turn in range(9)])
        await engine._compactor.look()
        assert engine._host.broker.compaction.rounds == 1
        await put(engine, model, *[(f"m{turn}", b"x") for turn in range(5)])
        await engine._compactor.look()
        assert engine._host.broker.compaction.rounds == 1, "five are less than half of twelve"


async def test_a_topic_of_the_other_kind_takes_no_part() -> None:
    store = compacting()
    store.topics["t"] = TopicSpec(name="t", queue_count=2, cleanup=Cleanup.DELETE)
    async with store.opened() as engine:
        await send(engine, 6)
        await compact(engine)
        assert engine._host.broker.compaction.rounds == 0


@pytest.mark.parametrize(("share", "due_after"), [(0.0, 4), (0.5, 8), (0.75, 24)])
async def test_a_round_waits_for_its_share_of_new_messages(share: float, due_after: int) -> None:
    store, model = compacting(), Model()
    store.config = replace(store.config, compaction_new_share=share)
    async with store.opened() as engine:
        compaction = engine._host.broker.compaction
        await put(engine, model, *[(f"kept{n}", b"x") for n in range(8)])
        await compact(engine)

        sent = 0
        while not compaction.due():
            await put(engine, model, ("a", b"new"))
            sent += 1

        assert sent == due_after
        await compact(engine)
        assert compaction.due() == [], "nothing is new"
        model.check(0, await read_all(engine))
