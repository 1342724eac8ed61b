"""Blocks of records as Arrow batches, column by column, by array operations alone.

Knows the engine's codec and Arrow; no store. A text column is made without a loop: an Arrow array
over the bytes as they lie is told of alternating texts and gaps, and the texts are taken from it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from apps.engine.codec import properties as names
from apps.engine.codec.columns import (
    PropertyColumns,
    Spans,
    body_spans,
    native,
    property_spans,
)
from apps.engine.codec.ids import offset_id
from apps.engine.codec.scan import Properties
from apps.engine.offline.slices import RecordBlock
from pyspark_mqweb.columns import CORRUPT, HEADERS

_CREATE_TIME = 0
_US_OF_MS = 1000
_INT32_MAX = 2**31 - 1


class _Records:
    """One block with what several columns need, found when it is first asked for."""

    def __init__(self, block: RecordBlock) -> None:
        self.block = block
        self._properties: PropertyColumns | None = None

    @property
    def properties(self) -> PropertyColumns:
        if self._properties is None:
            block = self.block
            spans = property_spans(block.payload, block.fixed, block.starts, block.sizes)
            # Arrow joins sections of any lengths ten times as fast as slices are joined.
            joined = _texts(block.payload, spans, pa.binary())
            data = np.frombuffer(joined.buffers()[2] or b"", dtype=np.uint8)
            self._properties = PropertyColumns(Properties(data, spans.lengths))
        return self._properties

    def fixed(self, name: str) -> NDArray[np.int64]:
        return native(self.block.fixed[name])

    def value(self, name: str, kind: pa.DataType) -> pa.Array:
        found = self.properties
        return _texts(found.data, found.values(name), kind)


def batches(
    block: RecordBlock,
    schema: pa.Schema,
    *,
    rows_max: int,
    tags: frozenset[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Iterate over a block as record batches of a schema, each of up to `rows_max` rows.

    With `tags` rows of other tags, and without one, are left out.
    """
    records = _Records(block)
    if tags is not None:
        records = _of_tags(records, tags)
        block = records.block
    if not len(block):
        return
    columns = [_MAKERS[field.name](records, field.type) for field in schema]
    whole = _batch(columns, schema, len(block))
    for start in range(0, len(block), rows_max):
        yield whole.slice(start, rows_max)


def corrupt(
    topic: str, queue: int, first: int, last: int, why: str, schema: pa.Schema, *, rows_max: int
) -> Iterator[pa.RecordBatch]:
    """Iterate over rows for messages that are damaged: where they were, why, and nothing else."""
    for start in range(first, last + 1, rows_max):
        count = min(last + 1 - start, rows_max)
        known = {
            "topic": pa.repeat(topic, count),
            "partition": pa.repeat(queue, count),
            "offset": pa.array(range(start, start + count), type=pa.int64()),
            CORRUPT: pa.repeat(why, count),
        }
        columns = [
            known[field.name].cast(field.type)
            if field.name in known
            else pa.nulls(count, field.type)
            for field in schema
        ]
        yield _batch(columns, schema, count)


def _batch(columns: list[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    if not columns:
        # Rows without columns: as many as there are, for a count.
        return pa.RecordBatch.from_struct_array(pa.array([{}] * count, type=pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _of_tags(records: _Records, tags: frozenset[str]) -> _Records:
    """Return the records of some tags; those that were given where all are."""
    texts = records.value(names.TAGS, pa.string())
    is_kept = pc.is_in(texts, value_set=pa.array(sorted(tags), type=pa.string()))
    kept = is_kept.to_numpy(zero_copy_only=False)
    return records if kept.all() else _Records(records.block.of(kept))


def _texts(
    data: NDArray[np.uint8] | bytes | bytearray, spans: Spans, kind: pa.DataType
) -> pa.Array:
    """Return the texts of spans; null where there is none. The bytes are copied once."""
    count = len(spans.starts)
    if not count:
        return pa.array([], type=kind)
    assert len(data) <= _INT32_MAX, "offsets of a block are 32 bits"
    borders = np.empty(2 * count, dtype=np.int32)
    borders[0::2] = spans.starts
    borders[1::2] = spans.starts + np.maximum(spans.lengths, 0)
    is_missing = spans.lengths < 0
    if is_missing.all():
        return pa.nulls(count, kind)
    validity = None
    if is_missing.any():
        is_there = np.ones(2 * count - 1, dtype=np.bool_)
        is_there[0::2] = ~is_missing
        validity = pa.py_buffer(np.packbits(is_there, bitorder="little"))
    pool = pa.py_buffer(data)
    texts = pa.Array.from_buffers(kind, 2 * count - 1, [validity, pa.py_buffer(borders), pool])
    return texts.take(_array(np.arange(0, 2 * count - 1, 2), pa.int64()))


def _numbers(values: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    width = np.int32 if kind == pa.int32() else np.int64
    return _array(values.astype(width, copy=False), kind)


def _times(values_ms: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    return _array(values_ms * _US_OF_MS, kind)


def _array(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Return an array over the values themselves: nothing is copied, nor looked at."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _fixed(name: str) -> Callable[[_Records, pa.DataType], pa.Array]:
    return lambda records, kind: _numbers(records.fixed(name), kind)


def _property(name: str) -> Callable[[_Records, pa.DataType], pa.Array]:
    return lambda records, kind: records.value(name, kind)


def _time(name: str) -> Callable[[_Records, pa.DataType], pa.Array]:
    return lambda records, kind: _times(records.fixed(name), kind)


def _topic(records: _Records, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(records.block.topic, type=kind), len(records.block))


def _body(records: _Records, kind: pa.DataType) -> pa.Array:
    block = records.block
    return _texts(block.payload, body_spans(block.fixed, block.starts), kind)


def _whole(records: _Records, kind: pa.DataType) -> pa.Array:
    """Return nulls: nothing is wrong with records that come."""
    return pa.nulls(len(records.block), kind)


def _timestamp_type(records: _Records, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(_CREATE_TIME, type=kind), len(records.block))


def _decimal(records: _Records, name: str) -> pa.Array:
    """Return a property that is a number, null where it is none: anybody may send any text."""
    texts = records.value(name, pa.string())
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), pa.int64())
    is_number = pc.match_substring_regex(texts, "^[0-9]{1,18}$")
    return pc.if_else(is_number, texts, pa.scalar(None, pa.string())).cast(pa.int64())


def _sequence(records: _Records, kind: pa.DataType) -> pa.Array:
    return _decimal(records, names.PRODUCER_SEQ).cast(kind)


def _due(records: _Records, kind: pa.DataType) -> pa.Array:
    """Return when a message is or was due: what a level waits for, or what was asked for."""
    waits = _decimal(records, names.TIMER_OUT_MS)
    due_ms = pc.coalesce(waits, _decimal(records, names.TIMER_DELIVER_MS))
    # What no clock can show would be refused as a whole column.
    due_ms = pc.if_else(pc.less(due_ms, 1 << 48), due_ms, pa.scalar(None, pa.int64()))
    return pc.multiply(due_ms, _US_OF_MS).cast(kind)


def _message_id(records: _Records, kind: pa.DataType) -> pa.Array:
    found = records.value(names.UNIQ_KEY, kind)
    if not found.null_count:
        return found
    hosts, places = records.fixed("store_host"), records.fixed("log_offset")
    others = [
        offset_id(host.to_bytes(8, "big", signed=True), place)
        for host, place in zip(hosts.tolist(), places.tolist(), strict=True)
    ]
    return pc.coalesce(found, pa.array(others, type=kind))


def _host(name: str) -> Callable[[_Records, pa.DataType], pa.Array]:
    def make(records: _Records, kind: pa.DataType) -> pa.Array:
        different, which = np.unique(records.fixed(name), return_inverse=True)
        texts = [_address(host.to_bytes(8, "big", signed=True)) for host in different.tolist()]
        return pa.array(texts, type=kind).take(_array(which.astype(np.int64), pa.int64()))

    return make


def _address(host: bytes) -> str:
    return f"{'.'.join(map(str, host[:4]))}:{int.from_bytes(host[4:], 'big')}"


def _headers(records: _Records, kind: pa.DataType) -> pa.Array:
    found = records.properties
    pairs = found.pairs()
    entry = kind.value_type
    entries = pa.StructArray.from_arrays(
        [
            _texts(found.data, pairs.names, entry.field(0).type),
            _texts(found.data, pairs.values, entry.field(1).type),
        ],
        fields=[entry.field(0), entry.field(1)],
    )
    borders = np.concatenate(([0], np.cumsum(pairs.counts))).astype(np.int32)
    return pa.ListArray.from_arrays(_array(borders, pa.int32()), entries, type=kind)


_MAKERS: dict[str, Callable[[_Records, pa.DataType], pa.Array]] = {
    "key": _property(names.KEYS),
    "value": _body,
    "topic": _topic,
    "partition": _fixed("queue"),
    "offset": _fixed("queue_offset"),
    "timestamp": _time("born_time_ms"),
    "timestampType": _timestamp_type,
    HEADERS: _headers,
    "storeTimestamp": _time("store_time_ms"),
    "dueTimestamp": _due,
    "tags": _property(names.TAGS),
    "messageId": _message_id,
    "producerId": _property(names.PRODUCER_ID),
    "seq": _sequence,
    "shardingKey": _property(names.SHARDING_KEY),
    "reconsumeTimes": _fixed("reconsume_times"),
    "bornHost": _host("born_host"),
    "storeHost": _host("store_host"),
    "flag": _fixed("flag"),
    "sysFlag": _fixed("sys_flag"),
    "commitLogOffset": _fixed("log_offset"),
    "storeSize": _fixed("total_bytes"),
    CORRUPT: _whole,
}
