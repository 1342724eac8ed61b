"""Which numbers a batch claims for its messages. Knows batches and two property names.

A batch that came as bytes is one producer's and numbered throughout, and is repeated whole or not
at all; in one that a door built each message stands for itself.
"""

import re
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.produce import CheckedBatch
from apps.engine.broker.repeatstate import Places
from apps.engine.codec.batch import starts_of
from apps.engine.codec.layout import RECORD_HEADER_BYTES
from apps.engine.codec.scan import property_sections
from apps.engine.errors import MalformedBatch
from apps.engine.limits import CLIENT_ID_CHARACTERS_MAX, SEQUENCE_RUNS_MAX
from apps.engine.types import RecordBatch

NUMBER_MAX = 2**63 - 1
_NOT_TOGETHER = "PRODUCER_ID and PRODUCER_SEQ go together, once in a message"
_BODY_BYTES = struct.Struct(">i")
_ONE_PLACE = np.zeros(1, dtype=np.int64)
_ONE_PLACE.flags.writeable = False

# Every section ends in 0x02: of sections end to end behind another one, each name is behind one. A
# pattern that begins with what it must find is ten times as fast as one that looks behind.
_IDS = re.compile(rb"\x02PRODUCER_ID\x01([^\x01\x02]*)(?=\x02)")
_NUMBERS = re.compile(rb"\x02PRODUCER_SEQ\x01([^\x01\x02]*)(?=\x02)")


@dataclass(slots=True, kw_only=True, eq=False)
class Claim:
    """The messages of a batch that are one producer's, by place int64[n], and their numbers.

    `found` says which of them were stored before, and where.
    """

    producer_id: str
    places: NDArray[np.int64]
    numbers: NDArray[np.int64]
    found: Places


def claims_of(batch: CheckedBatch) -> list[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    """Return each producer of a batch with the places of its messages and their numbers, int64[n].

    Raises MalformedBatch where id and number do not come together, once in a message, where a
    number is none, twice there or, with the others, in too many runs to remember; and where a batch
    that came as bytes is not numbered throughout by one producer. The two patterns loop over
    messages, at 1 us each: text has no array form.
    """
    sizes = batch.sizes
    if len(sizes) == 1:
        return _claims_of_one(batch)
    sections = property_sections(batch.payload, starts_of(sizes), sizes)
    data, ends = b"\x02" + sections.data.tobytes(), np.cumsum(sections.lengths)
    owners, ids = _values(_IDS, data, ends)
    places, texts = _values(_NUMBERS, data, ends)
    if not np.array_equal(owners, places) or (np.diff(places) <= 0).any():
        raise MalformedBatch(_NOT_TOGETHER)
    producers = sorted(set(ids))
    if batch.is_whole and (len(places) < len(sizes) or len(producers) > 1):
        raise MalformedBatch("a numbered batch is one producer's, and numbered throughout")
    numbers = _numbers(texts)
    if len(producers) == 1:
        chosen = [np.arange(len(places))]
    else:
        chosen = [np.flatnonzero([id_ == producer for id_ in ids]) for producer in producers]
    claims = []
    for producer, rows in zip(producers, chosen, strict=True):
        _check(numbers[rows])
        claims.append((_producer_id(producer), places[rows], numbers[rows]))
    return claims


def _claims_of_one(batch: CheckedBatch) -> list[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    """Do it for one message without arrays, which cost the same however few there are."""
    (body_bytes,) = _BODY_BYTES.unpack_from(batch.payload, RECORD_HEADER_BYTES - _BODY_BYTES.size)
    topic_at = RECORD_HEADER_BYTES + body_bytes
    section_at = topic_at + 1 + batch.payload[topic_at] + 2
    data = b"\x02" + batch.payload[section_at:]
    ids, texts = _IDS.findall(data), _NUMBERS.findall(data)
    if len(ids) != len(texts) or len(ids) > 1 or (batch.is_whole and not ids):
        raise MalformedBatch(_NOT_TOGETHER)
    return [(_producer_id(ids[0]), _ONE_PLACE, _numbers(texts))] if ids else []


def _values(
    pattern: re.Pattern[bytes], data: bytes, ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[bytes]]:
    """Return the places of the messages that have a property, and its values.

    The 0x02 in front of a name stands, in `data`, where the name stands in the sections.
    """
    found = list(pattern.finditer(data))
    at = np.array([match.start() for match in found], dtype=np.int64)
    return np.searchsorted(ends, at, side="right"), [match[1] for match in found]


def _numbers(texts: list[bytes]) -> NDArray[np.int64]:
    if not all(text.isdigit() and len(text) <= 19 for text in texts):
        raise MalformedBatch(f"PRODUCER_SEQ is a number from 0 to {NUMBER_MAX}")
    numbers = list(map(int, texts))
    if max(numbers, default=0) > NUMBER_MAX:
        raise MalformedBatch(f"PRODUCER_SEQ is at most {NUMBER_MAX}")
    return np.array(numbers, dtype=np.int64)


def _producer_id(text: bytes) -> str:
    producer_id = text.decode()
    if not 0 < len(producer_id) <= CLIENT_ID_CHARACTERS_MAX:
        raise MalformedBatch(f"PRODUCER_ID has 1 to {CLIENT_ID_CHARACTERS_MAX} characters")
    return producer_id


def _check(numbers: NDArray[np.int64]) -> None:
    if len(numbers) == 1:
        return
    steps = np.diff(np.sort(numbers))
    if (steps == 0).any():
        raise MalformedBatch("a number is there twice")
    if np.count_nonzero(np.diff(numbers) != 1) >= SEQUENCE_RUNS_MAX:
        raise MalformedBatch(
            f"the numbers of a batch are in at most {SEQUENCE_RUNS_MAX} runs of consecutive ones"
        )


def runs_of_places(numbers: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers and where their messages go, int64[n] each, as runs of both: int64[m, 3]."""
    if len(numbers) == 1:
        return np.array([[numbers[0], numbers[0], offsets[0]]])
    is_next = (np.diff(numbers) == 1) & ((np.diff(offsets) == 1) | (offsets[1:] < 0))
    firsts = np.concatenate(([0], np.flatnonzero(~is_next) + 1))
    lasts = np.concatenate((firsts[1:] - 1, [len(numbers) - 1]))
    return np.stack([numbers[firsts], numbers[lasts], offsets[firsts]], axis=1)


def without(batch: CheckedBatch, places: NDArray[np.int64]) -> CheckedBatch | None:
    """Return a batch without some of its messages; None when nothing is left."""
    kept = np.delete(np.arange(len(batch.sizes)), places)
    if not len(kept):
        return None
    starts, view = starts_of(batch.sizes), memoryview(batch.payload)
    stops = starts + batch.sizes
    spans = zip(starts[kept].tolist(), stops[kept].tolist(), strict=True)
    left = RecordBatch(
        topic=batch.topic,
        queue=batch.queue,
        payload=bytearray().join([view[start:stop] for start, stop in spans]),
        sizes=batch.sizes[kept],
    )
    return CheckedBatch(left, batch.tag_hashes[kept], batch.special)
