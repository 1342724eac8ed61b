"""From when to when the messages of queues were stored. Reads two messages of each queue."""

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from apps.bridge import engine as bridge
from apps.deadletters.records import records_of
from apps.engine.api import EngineAPI
from apps.engine.errors import EngineError
from apps.engine.searchtypes import SearchRequest
from apps.engine.types import MessageBlock, PullRequest, QueueRange

# Two reads a queue, and a page waits for them.
QUEUES_MAX = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What a queue holds; times are wall ms, None where it holds nothing or it cannot be read."""

    queue: int
    held: int
    oldest_ms: int | None
    newest_ms: int | None


def spans_of(topic: str) -> list[Span]:
    """Return the first queues of a topic, up to QUEUES_MAX.

    Raises UnknownTopic, and Busy while the engine of this process cannot be asked.
    """
    ranges = bridge.call(lambda engine: engine.queue_ranges(topic))[:QUEUES_MAX]

    def looked(engine: EngineAPI) -> Awaitable[list[Span]]:
        return _spans(engine, ranges)

    return bridge.call_here(looked)


async def _spans(engine: EngineAPI, ranges: Sequence[QueueRange]) -> list[Span]:
    spans = []
    for one in ranges:
        oldest_ms = newest_ms = None
        if one.held:
            # A queue that may not be read, or is damaged, has times that nobody knows.
            with suppress(EngineError):
                oldest_ms, newest_ms = await _oldest(engine, one), await _newest(engine, one)
        spans.append(Span(queue=one.queue, held=one.held, oldest_ms=oldest_ms, newest_ms=newest_ms))
    return spans


async def _oldest(engine: EngineAPI, one: QueueRange) -> int | None:
    request = PullRequest(
        topic=one.topic,
        queue=one.queue,
        queue_offset=one.min_offset,
        messages_max=1,
        bytes_max=1,
    )
    return _time((await engine.pull(request)).block)


async def _newest(engine: EngineAPI, one: QueueRange) -> int | None:
    request = SearchRequest(topic=one.topic, queue=one.queue, messages_max=1, bytes_max=1)
    for block in (await engine.search(request)).blocks:
        return _time(block)
    return None


def _time(block: MessageBlock) -> int | None:
    return next((record.store_time_ms for record in records_of(block)), None)
