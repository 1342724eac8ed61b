"""Pages of a search through a compacted topic: what is kept is found once, across the gaps."""

from dataclasses import replace

from apps.engine.codec.batch import starts_of
from apps.engine.codec.record import decode_record
from apps.engine.local import LocalEngine
from apps.engine.searchtypes import SearchRequest
from apps.engine.types import MessageBlock
from tests.engine.local.compacting import Model, compact, compacting, offsets, put, read_all


def found(blocks: tuple[MessageBlock, ...]) -> list[int]:
    return [
        decode_record(block.payload, at).queue_offset
        for block in blocks
        for at in starts_of(block.sizes).tolist()
    ]


async def all_pages(engine: LocalEngine, request: SearchRequest) -> list[int]:
    """Ask until there is no next page."""
    places: list[int] = []
    while True:
        result = await engine.search(request)
        places += found(result.blocks)
        if result.next_before is None:
            assert not result.truncated
            return places
        request = replace(request, before=result.next_before)


async def test_pages_lead_over_the_border_and_the_gaps_of_a_compacted_queue() -> None:
    store, model = compacting(), Model()
    async with store.opened() as engine:
        for turn in range(40):
            await put(engine, model, (f"k{turn % 7}", b"a"), (f"once{turn % 11}", b"b"))
        await compact(engine)
        for turn in range(9):
            await put(engine, model, (f"k{turn % 7}", b"c"))
        kept = offsets(await read_all(engine))
        assert kept[-9:] == list(range(80, 89))
        assert len(kept) < 40, "there are gaps"

        for messages_max in (1, 4, 100):
            request = SearchRequest(topic="t", messages_max=messages_max)
            assert await all_pages(engine, request) == kept[::-1], messages_max


async def test_a_key_with_kept_messages_says_that_there_is_more_and_names_no_page() -> None:
    store, model = compacting(), Model()
    async with store.opened() as engine:
        await put(engine, model, ("k", b"1"), ("other", b"x"))
        await compact(engine)
        await put(engine, model, ("k", b"2"), ("k", b"3"))

        one = await engine.search(SearchRequest(topic="t", key="k", messages_max=1))
        all_of_it = await engine.search(SearchRequest(topic="t", key="k"))

        assert (len(one.blocks), one.truncated, one.next_before) == (1, True, None)
        assert sorted(found(all_of_it.blocks)) == [0, 2, 3]
