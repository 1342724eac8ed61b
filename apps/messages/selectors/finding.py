"""Searches of messages, in one topic or all of them, with what became of each message.

Asks the engine of this process and changes nothing there: no offset, no lock, no attempt. Raises
what the engine raises, Stopping where it is in another process.
"""

from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from apps.bridge import engine as bridge
from apps.core.phrases import sentence
from apps.deadletters.records import records_of
from apps.engine.api import EngineAPI, EngineControl
from apps.engine.clock import Clock, SystemClock
from apps.engine.codec.layout import DEAD_LETTER_PREFIX, LITE_PREFIX, RETRY_PREFIX
from apps.engine.codec.litenames import is_lite
from apps.engine.errors import InvalidArgument, NotPermitted, UnknownTopic
from apps.engine.limits import MIB
from apps.engine.searchtypes import SearchRequest, SearchResult
from apps.messages.asked import Asked, Meaning
from apps.messages.seen import Seen

MESSAGES_SHOWN = 50
BYTES_MAX = 8 * MIB
# Looking a name up in a topic that does not have it takes a tenth of a millisecond.
TOPICS_MAX = 2_000
# All of a search; the engine's own limits end each part of it.
TIME_MS_MAX = 2_500
_BYTES_IN_ALL_MAX = 32 * MIB

_OFFSET_ID_CHARACTERS = 32
_NOTHING = Asked(meaning=Meaning.NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What messages must be, all of it. Without a topic all topics are meant, for ids and keys.

    `with_copies` looks for retries and dead letters as well. Times are store times, wall ms;
    `before` is the log offset a page ended at.
    """

    asked: Asked = _NOTHING
    topic: str = ""
    tag: str | None = None
    key: str | None = None
    queue: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    condition: str | None = None
    before: int | None = None
    with_copies: bool = True
    messages_max: int = MESSAGES_SHOWN

    @property
    def is_named(self) -> bool:
        """Say whether an id or a key is asked for, which the index leads to."""
        return self.asked.meaning in (Meaning.ID, Meaning.KEY) or self.key is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found, the newest first, and what it did not look at.

    The same search with `before` at `next_before` goes on; None where nothing is left, or where
    only a narrower search helps. `topics_looked` of `topics_meant` topics were looked at.
    """

    messages: tuple[Seen, ...] = ()
    truncated: bool = False
    scan_incomplete: bool = False
    next_before: int | None = None
    topics_looked: int = 0
    topics_meant: int = 0


@dataclass(frozen=True, slots=True)
class _Part:
    """A search of one topic; `origin` is the topic that copies must come from, if any."""

    request: SearchRequest
    origin: str = ""


def find(wanted: Wanted, *, clock: Clock | None = None) -> Found:
    """Search; see Wanted. Raises InvalidArgument where a topic must be named, and what is above."""
    clock = clock or SystemClock()
    asked = wanted.asked
    found = _looked(wanted, _request(wanted), clock)
    is_place = asked.meaning is Meaning.ID and len(asked.text) == _OFFSET_ID_CHARACTERS
    if found.messages or not is_place:
        return found
    # What looks like an id may be the place of a message that has another one.
    request = replace(_request(wanted), message_id=None, offset_id=asked.text)
    placed = _looked(wanted, request, clock)
    return placed if placed.messages else found


def copies_of(topic: str, message_id: str, *, clock: Clock | None = None) -> Found:
    """Return the messages that have an id, in a topic and among retries and dead letters of it."""
    asked = Asked(meaning=Meaning.ID, text=message_id)
    return find(Wanted(asked=asked, topic=topic, messages_max=200), clock=clock)


def _request(wanted: Wanted) -> SearchRequest:
    """Return the request for one topic, its name still to be put in."""
    asked = wanted.asked
    key = asked.text if asked.meaning is Meaning.KEY else wanted.key
    if asked.meaning is Meaning.KEY and wanted.key not in (None, asked.text):
        raise InvalidArgument(sentence("two keys are asked for: leave one of the fields empty"))
    queue = wanted.queue if asked.queue is None else asked.queue
    return SearchRequest(
        topic=wanted.topic,
        key=key,
        message_id=asked.text if asked.meaning is Meaning.ID else None,
        from_ms=_later(wanted.from_ms, asked.from_ms),
        to_ms=_earlier(wanted.to_ms, asked.to_ms),
        tag=wanted.tag,
        queue=queue,
        queue_offset=asked.queue_offset,
        condition=wanted.condition,
        before=wanted.before,
        messages_max=wanted.messages_max,
        bytes_max=BYTES_MAX,
    )


def _looked(wanted: Wanted, request: SearchRequest, clock: Clock) -> Found:
    parts = bridge.call(
        lambda engine: list(_parts(wanted, request, _topics(engine), _lites(engine, wanted)))
    )
    deadline_ms = clock.monotonic_ms() + TIME_MS_MAX
    search = partial(_results, parts=parts[:TOPICS_MAX], clock=clock, deadline_ms=deadline_ms)
    results = bridge.call_here(search)
    return _merged(parts, results, wanted.messages_max)


def _topics(engine: EngineControl) -> tuple[list[str], list[str]]:
    """Return the topics there are, and those of retries and dead letters."""
    own = [*engine.own_ranges(RETRY_PREFIX), *engine.own_ranges(DEAD_LETTER_PREFIX)]
    return sorted(engine.catalog.topics), sorted(own)


def _lites(engine: EngineControl, wanted: Wanted) -> list[str]:
    """Return the lite topics there are, for a search in all topics; they come last."""
    if wanted.topic or not wanted.is_named:
        return []
    return sorted(engine.own_ranges(LITE_PREFIX))


def _parts(
    wanted: Wanted,
    request: SearchRequest,
    topics: tuple[list[str], list[str]],
    lites: list[str],
) -> Iterator[_Part]:
    names, own = topics
    if wanted.topic:
        yield _Part(request)
    elif wanted.is_named:
        for name in (*names, *own, *lites):
            yield _Part(replace(request, topic=name))
        return
    else:
        raise InvalidArgument(sentence("choose a topic, or search for an id or a key"))
    has_copies = wanted.topic in names or is_lite(wanted.topic)
    if wanted.with_copies and wanted.is_named and has_copies:
        for name in own:
            # A copy lies in the one queue of its topic, whatever queue its origin was in.
            yield _Part(replace(request, topic=name, queue=None), origin=wanted.topic)


def _results(
    engine: EngineAPI, *, parts: Sequence[_Part], clock: Clock, deadline_ms: int
) -> Awaitable[list[SearchResult | None]]:
    """Search part by part; None stands for a topic that may not be read or went meanwhile."""

    async def searched() -> list[SearchResult | None]:
        results: list[SearchResult | None] = []
        size_bytes = 0
        for part in parts:
            is_late = clock.monotonic_ms() >= deadline_ms or size_bytes >= _BYTES_IN_ALL_MAX
            if results and is_late:
                break
            try:
                result = await engine.search(part.request)
                size_bytes += sum(len(block.payload) for block in result.blocks)
                results.append(result)
            except (NotPermitted, UnknownTopic):
                if len(parts) == 1:
                    raise
                results.append(None)
        return results

    return searched()


def _merged(
    parts: Sequence[_Part], results: Sequence[SearchResult | None], messages_max: int
) -> Found:
    """Put the parts together in the order of the log, down to where all of them were looked at."""
    found: list[Seen] = []
    truncated, scan_incomplete = False, len(results) < len(parts)
    floor = -1
    for part, result in zip(parts, results, strict=False):
        if result is None:
            continue
        truncated |= result.truncated
        scan_incomplete |= result.scan_incomplete
        floor = max(floor, -1 if result.next_before is None else result.next_before)
        for block in result.blocks:
            for record in records_of(block):
                one = Seen(record)
                if not part.origin or one.origin.topic == part.origin:
                    found.append(one)
    complete = [one for one in found if one.record.log_offset >= floor]
    complete.sort(key=lambda one: -one.record.log_offset)
    shown = complete[:messages_max]
    is_cut = len(complete) > messages_max
    next_before = None if floor < 0 else floor
    if is_cut:
        next_before = shown[-1].record.log_offset
    return Found(
        messages=tuple(shown),
        truncated=truncated or is_cut,
        scan_incomplete=scan_incomplete,
        next_before=next_before,
        topics_looked=len(results),
        topics_meant=len(parts),
    )


def _later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def _earlier(one: int | None, other: int | None) -> int | None:
    return min((time for time in (one, other) if time is not None), default=None)
