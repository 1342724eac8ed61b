"""Find messages of a topic by key, id, place, time and tag; the record itself has the last word.

Knows requests, records and who may be seen; where to look is `searchplaces`'. Bounded in all it
does, and honest where that ends it.
"""

import re
import struct
from functools import partial
from typing import Protocol

import numpy as np

from apps.engine.broker.searchplaces import (
    Candidate,
    Indexed,
    Kept,
    Known,
    Places,
    Scanned,
)
from apps.engine.broker.timesearch import StoreTimes
from apps.engine.codec import layout
from apps.engine.codec.ids import offset_id
from apps.engine.codec.properties import KEYS, TAGS
from apps.engine.codec.record import Record, decode_record
from apps.engine.codec.tags import tag_hash
from apps.engine.derived.compacted.keys import Hasher
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.derived.index.keyindex import KeyIndex
from apps.engine.derived.index.walk import KeyWalk
from apps.engine.derived.queueset import QueueSet
from apps.engine.derived.sparse import entry_at, kept_at_log
from apps.engine.errors import InvalidArgument, StoreDamaged
from apps.engine.files.backend import NotCached
from apps.engine.filters.subscription import compile_filter
from apps.engine.limits import FETCH_BYTES_MAX, MIB, SEARCH_MESSAGES_MAX, SEARCH_TEXT_CHARACTERS_MAX
from apps.engine.log.commitlog import CommitLog
from apps.engine.searchtypes import SearchRequest, SearchResult
from apps.engine.types import FilterType, MessageBlock, TopicSpec

# Records that one search may read, and of how many bytes, of which some turn out to be others.
_RECORDS_MAX = 4_096
_RECORD_BYTES_MAX = 64 * MIB
# And that one step may: reading and decoding one costs 20 us.
_RECORDS_A_STEP = 64
_OFFSET_ID = re.compile(r"[0-9A-Fa-f]{32}")
# Total size, magic, queue, queue offset, log offset.
_PLACE = struct.Struct(">ii4xi4xqq")
assert _PLACE.size == layout.STAMP_OFFSETS.stop


class Topics(Protocol):
    """Which topics a search may look at: the catalog's, or one that only the engine looks into."""

    def readable(self, name: str, queue: int = 0) -> TopicSpec:
        """Return a topic whose `queue` may be read, or raise what the catalog raises."""
        ...

    def topic(self, name: str) -> TopicSpec:
        """Return a topic."""
        ...


class Search:
    """One search: `step` until it `is_done`, then `result`."""

    def __init__(
        self,
        request: SearchRequest,
        *,
        log: CommitLog,
        queues: QueueSet,
        index: KeyIndex,
        catalog: Topics,
        times: StoreTimes,
    ) -> None:
        """Decide where to look: in as few places as what is asked for allows.

        Raises UnknownTopic, UnknownQueue, NotPermitted, InvalidFilter or InvalidArgument.
        """
        _check(request)
        condition = request.condition
        self._filter = None if condition is None else compile_filter(condition, FilterType.SQL92)
        catalog.readable(request.topic, request.queue or 0)
        self._request = request
        self._log = log
        self._queues = queues
        self._hasher = Hasher(log.store_id)
        self._kept = [queue for queue in _queues_of(queues, catalog, request) if queue.kept]
        self._seen: set[int] = set()
        self._places = self._choose(queues, index, catalog, times)
        self._left: list[Candidate] = []
        self._blocks: list[MessageBlock] = []
        self._found_bytes = self._read_bytes = self._read_count = 0
        self._truncated = False
        # Down to where the log was looked at, as far as places come in its order.
        self._looked_from: int | None = None

    @property
    def is_done(self) -> bool:
        """Say whether the result is there."""
        return self._truncated or self._is_tired or not self._has_more

    @property
    def _has_more(self) -> bool:
        return bool(self._left) or not all(places.is_over for places in self._places)

    @property
    def _is_tired(self) -> bool:
        return self._read_count >= _RECORDS_MAX or self._read_bytes >= _RECORD_BYTES_MAX

    def step(self, *, wait: bool) -> None:
        """Look a little further.

        Raises ColdRead when `wait` is false and the disk would have to be waited for: what was
        found before it is kept. Raises StoreDamaged when a record is not the one expected.
        """
        if not self._left:
            places = next(places for places in self._places if not places.is_over)
            found_there = places.step(wait=wait)
            self._left = [one for one in found_there if self._is_before(one.log_offset)][::-1]
        for _ in range(min(_RECORDS_A_STEP, len(self._left))):
            found = self._read(self._left[-1], wait=wait)
            candidate = self._left.pop()
            if found is not None:
                self._take(*found)
            if not self._truncated:
                self._looked_from = candidate.log_offset
            if self.is_done:
                return

    def result(self) -> SearchResult:
        """Return what was found."""
        is_cut = self._is_tired and self._has_more
        is_incomplete = is_cut or any(places.is_incomplete for places in self._places)
        return SearchResult(
            blocks=tuple(self._blocks),
            truncated=self._truncated,
            scan_incomplete=is_incomplete and not self._truncated,
            next_before=self._next_before(is_cut=is_cut),
        )

    def _next_before(self, *, is_cut: bool) -> int | None:
        """Return the log offset before which the rest is; None where nobody can say."""
        is_in_order = len(self._places) == 1 or not self._kept
        if not is_in_order:
            # What is kept of a compacted topic is looked up queue by queue.
            return None
        if self._truncated or is_cut:
            return self._looked_from
        tired = [places for places in self._places if places.is_incomplete]
        return tired[0].looked_from if tired else None

    def _is_before(self, log_offset: int) -> bool:
        before = self._request.before
        return before is None or log_offset < before

    def _choose(
        self, queues: QueueSet, index: KeyIndex, catalog: Topics, times: StoreTimes
    ) -> list[Places]:
        request = self._request
        if request.queue_offset is not None:
            queue = queues.queue(request.topic, request.queue or 0)
            return [Known(partial(_at_queue_offset, queue, request.queue_offset))]
        if request.offset_id is not None:
            return [_at_offset_id(request.offset_id)]
        bounds = {"from_ms": request.from_ms, "to_ms": request.to_ms}
        if request.message_id is not None:
            # A message that was given no id shows where it lies.
            named = [_at_offset_id(request.message_id)] if _is_offset_id(request.message_id) else []
            walk = KeyWalk(
                index, request.topic, request.message_id, before=request.before, **bounds
            )
            id_hash = self._hasher.message_id(request.message_id)
            return [*named, Indexed(walk), Kept(self._kept, key=None, id_hash=id_hash)]
        if request.key is not None:
            walk = KeyWalk(index, request.topic, request.key, before=request.before, **bounds)
            key = self._hasher.key(request.key)
            return [Indexed(walk), Kept(self._kept, key=key, id_hash=None)]
        scanned = _queues_of(queues, catalog, request)
        wanted = None if request.tag is None else tag_hash(request.tag)
        return [Scanned(scanned, times, **bounds, tag_hash=wanted, before=request.before)]

    def _read(self, candidate: Candidate, *, wait: bool) -> tuple[Record, memoryview] | None:
        """Return the message at a place, and its bytes; None where none is that may be seen."""
        payload = self._kept_at(candidate.log_offset, wait=wait)
        if payload is None:
            size_bytes = candidate.size_bytes or self._proved(candidate.log_offset, wait=wait)
            if not size_bytes:
                return None
            payload = self._bytes(candidate.log_offset, size_bytes, wait=wait)
        size_bytes = len(payload)
        if candidate.log_offset in self._seen:
            return None
        if self._kept:
            self._seen.add(candidate.log_offset)
        self._read_count += 1
        self._read_bytes += size_bytes
        record = decode_record(payload)
        if record.log_offset != candidate.log_offset or record.size_bytes != size_bytes:
            raise StoreDamaged(f"at log offset {candidate.log_offset} lies another record")
        return record, payload

    def _kept_at(self, log_offset: int, *, wait: bool) -> memoryview | None:
        """Return the message of a place of the log that is kept beside it; None for no such."""
        for queue in self._kept:
            payload = kept_at_log(queue, log_offset, wait=wait)
            if payload is not None:
                return payload
        return None

    def _proved(self, log_offset: int, *, wait: bool) -> int:
        """Return the size of the record at a log offset of which nobody knows that one is there.

        0 where there is none, or none of the topic that readers may see. What looks like a record
        may be the body of one: only an entry of its queue proves it.
        """
        last = self._log.synced_offset - layout.RECORD_FIXED_BYTES
        if not self._log.log_start <= log_offset <= last:
            return 0
        head = self._bytes(log_offset, _PLACE.size, wait=wait)
        size_bytes, magic, number, queue_offset, written_offset = _PLACE.unpack(head)
        queue = self._queues.find(self._request.topic, number)
        if magic != layout.RECORD_MAGIC or written_offset != log_offset or queue is None:
            return 0
        if not queue.min_offset <= queue_offset < queue.visible:
            return 0
        entry = entry_at(queue, queue_offset, wait=wait)
        if entry is None:
            return 0
        is_its = entry["log_offset"] == log_offset and entry["size_bytes"] == size_bytes
        return int(size_bytes) if is_its else 0

    def _bytes(self, log_offset: int, size_bytes: int, *, wait: bool) -> memoryview:
        starts = np.array([log_offset], dtype=np.int64)
        sizes = np.array([size_bytes], dtype=np.int32)
        try:
            return self._log.read_records(starts, sizes, wait=wait)
        except NotCached as error:
            raise ColdRead(lambda: self._log.read_records(starts, sizes, wait=True)) from error

    def _take(self, record: Record, payload: memoryview) -> None:
        """Keep a message that is what was asked for, or note that it is one too many."""
        if not _matches(record, self._request):
            return
        if self._filter is not None and not self._filter.matches(record.properties):
            return
        request = self._request
        is_over_bytes = self._found_bytes + len(payload) > request.bytes_max
        if len(self._blocks) == request.messages_max or (self._blocks and is_over_bytes):
            self._truncated = True
            return
        self._found_bytes += len(payload)
        self._blocks.append(
            MessageBlock(
                topic=record.topic,
                queue=record.queue,
                payload=payload,
                sizes=np.array([len(payload)], dtype=np.int32),
            )
        )


def _queues_of(queues: QueueSet, catalog: Topics, request: SearchRequest) -> list[ConsumeQueue]:
    if request.queue is not None:
        numbers = range(request.queue, request.queue + 1)
    else:
        numbers = range(catalog.topic(request.topic).queue_count)
    return [found for n in numbers if (found := queues.find(request.topic, n)) is not None]


def _at_queue_offset(queue: ConsumeQueue, queue_offset: int, wait: bool) -> list[Candidate]:
    if not queue.min_offset <= queue_offset < queue.visible:
        return []
    entry = entry_at(queue, queue_offset, wait=wait)
    if entry is None:
        return []
    return [Candidate(int(entry["log_offset"]), int(entry["size_bytes"]))]


def _is_offset_id(text: str) -> bool:
    return _OFFSET_ID.fullmatch(text) is not None


def _at_offset_id(text: str) -> Known:
    log_offset = int(text[16:], 16)
    return Known(lambda _wait: [Candidate(log_offset)])


def _matches(record: Record, request: SearchRequest) -> bool:
    """Say whether a record is all of what is asked for: nothing else has the last word."""
    properties = record.properties
    at = offset_id(record.store_host, record.log_offset)
    return (
        (request.key is None or request.key in properties.get(KEYS, "").split(" "))
        and (request.message_id is None or request.message_id == record.message_id)
        and (request.offset_id is None or request.offset_id.upper() == at)
        and (request.tag is None or request.tag == properties.get(TAGS, ""))
        and (request.from_ms is None or record.store_time_ms >= request.from_ms)
        and (request.to_ms is None or record.store_time_ms < request.to_ms)
        and (request.queue is None or request.queue == record.queue)
        and (request.queue_offset is None or request.queue_offset == record.queue_offset)
    )


def _check(request: SearchRequest) -> None:
    """Raise InvalidArgument for what cannot be asked."""
    for name in ("key", "message_id", "tag"):
        text = getattr(request, name)
        if text is not None and not 1 <= len(text) <= SEARCH_TEXT_CHARACTERS_MAX:
            raise InvalidArgument(f"{name} must have 1 to {SEARCH_TEXT_CHARACTERS_MAX} characters")
    if request.key is not None and " " in request.key:
        raise InvalidArgument("a key has no blanks: they stand between keys")
    if request.offset_id is not None and not _is_offset_id(request.offset_id):
        raise InvalidArgument("an offset id is 32 hex digits")
    if request.before is not None and request.before < 0:
        raise InvalidArgument("a place in the log is not negative")
    if request.queue_offset is not None and request.queue is None:
        raise InvalidArgument("an offset needs the queue it counts in")
    if not 1 <= request.messages_max <= SEARCH_MESSAGES_MAX:
        raise InvalidArgument(f"max must be 1 to {SEARCH_MESSAGES_MAX}, not {request.messages_max}")
    if not 1 <= request.bytes_max <= FETCH_BYTES_MAX:
        raise InvalidArgument(f"max_bytes must be 1 to {FETCH_BYTES_MAX}")
