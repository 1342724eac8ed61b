"""Rows into topics through a broker, each stored once however often Spark repeats its work.

Knows Spark's writers and the client's calls. A row's number follows from the batch, the task and
its place there, and its producer is named after the query: a repeat has the numbers of the first
try, and the broker knows them. That holds where a repeated task gets the same rows in the same
order, as Spark's own exactly-once sinks need it too.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from mqclient import AckMode, MqError, SystemClock
from mqclient.wire.hashing import queue_by_hash
from mqclient.wire.ids import IDS, local_address
from mqclient.wire.properties import (
    DELAY_MS,
    PRODUCER_ID,
    PRODUCER_SEQUENCE,
    UNIQUE_KEY,
    pack_properties,
)
from mqclient.wire.records import pack_record, topic_part
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructType

from pyspark_mqweb.backends import Server
from pyspark_mqweb.columns import COLUMNS, HEADERS
from pyspark_mqweb.errors import BadColumns, BadOption, SinkError
from pyspark_mqweb.options import SinkOptions

_TEXT = (StringType, BinaryType)
_KINDS: dict[str, tuple[type[DataType], ...]] = {
    "value": _TEXT,
    "key": _TEXT,
    "topic": (StringType,),
    "tags": (StringType,),
    "partition": (IntegerType,),
    "shardingKey": (StringType,),
    "delayMs": (IntegerType, LongType),
}
_REQUEST_BYTES = 1 << 20
# Rows of one task in one batch of a stream; beyond it numbers would meet those of the next batch.
_ROWS_MAX = 1 << 32
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    """How many rows a task has sent."""

    rows: int


@dataclass(slots=True)
class _Lane:
    """Rows of one topic and queue that go in one request, and how many went before."""

    topic: str
    queue: int
    is_delayed: bool
    producer: str
    records: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    count: int = 0


class _Sending:
    """The rows of one task on their way."""

    def __init__(self, options: SinkOptions, *, producer: str, batch: int, task: int) -> None:
        self._options = options
        self._server = Server(options.server, options.token, timeout_s=options.timeout_s)
        self._producer = f"{producer}-{task}"
        self._first = batch * _ROWS_MAX
        self._task = task
        self._clock = SystemClock()
        self._host = local_address() + bytes(4)
        self._queues: dict[str, int] = {}
        self._lanes: dict[tuple[str, int, bool], _Lane] = {}
        self.rows = 0

    def send(self, batch: pa.RecordBatch) -> None:
        """Take rows; raise SinkError or MqError."""
        names = batch.schema.names
        columns = [batch.column(name).to_pylist() for name in names]
        for values in zip(*columns, strict=True):
            self._row(dict(zip(names, values, strict=True)))
            self.rows += 1

    def finish(self) -> None:
        """Send what is left."""
        for lane in self._lanes.values():
            self._flush(lane)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _row(self, row: dict[str, Any]) -> None:
        topic = self._options.topic or row.get("topic")
        value = row["value"]
        if topic is None or value is None:
            raise SinkError("a row needs a value and a topic, or the option topic")
        delay_ms, key, sharding_key = row.get("delayMs"), row.get("key"), row.get("shardingKey")
        queue = self._queue(topic, row.get("partition"), sharding_key)
        lane = self._lane(topic, queue, is_delayed=delay_ms is not None)
        if lane.count >= _ROWS_MAX:
            raise SinkError(f"a task sends at most {_ROWS_MAX} rows of a batch to one queue")
        system = {
            PRODUCER_ID: lane.producer,
            PRODUCER_SEQUENCE: str(self._first + lane.count),
            UNIQUE_KEY: IDS.many(self._clock.wall_ms(), 1)[0].decode("ascii"),
        }
        if delay_ms is not None:
            system[DELAY_MS] = str(delay_ms)
        section = pack_properties(
            tag=row.get("tags"),
            keys=_text(key).split() if key is not None else (),
            sharding_key=sharding_key,
            properties=_headers(row.get(HEADERS)),
            system=system,
        )
        body = value.encode() if isinstance(value, str) else value
        record = pack_record(
            topic_part(topic), queue, body, section, self._clock.wall_ms(), self._host
        )
        lane.records.append(record)
        lane.size_bytes += len(record)
        lane.count += 1
        if len(lane.records) >= self._options.batch_messages or lane.size_bytes >= _REQUEST_BYTES:
            self._flush(lane)

    def _queue(self, topic: str, wanted: int | None, sharding_key: str | None) -> int:
        count = self._queues.get(topic)
        if count is None:
            info = self._server.ask(self._server.calls.describe_topic(topic))
            count = info.queue_count
            if info.write_queue_count is not None:
                count = min(count, info.write_queue_count)
            self._queues[topic] = count
        if wanted is not None:
            if not 0 <= wanted < count:
                raise SinkError(f"topic {topic} takes messages in {count} queues, not in {wanted}")
            return wanted
        if sharding_key is not None:
            return queue_by_hash(sharding_key, count)
        # One queue a task: its numbers are then runs, of which the broker remembers many.
        return self._task % count

    def _lane(self, topic: str, queue: int, *, is_delayed: bool) -> _Lane:
        key = (topic, queue, is_delayed)
        lane = self._lanes.get(key)
        if lane is None:
            producer = f"{self._producer}-{queue}{'-delayed' if is_delayed else ''}"
            lane = self._lanes[key] = _Lane(topic, queue, is_delayed, producer)
        return lane

    def _flush(self, lane: _Lane) -> None:
        if not lane.records:
            return
        call = self._server.calls.send_batch(
            lane.topic,
            lane.queue,
            lane.records,
            AckMode.SYNC,
            # The broker knows the numbers of what it has.
            is_repeatable=True,
            is_delayed=lane.is_delayed,
        )
        self._server.ask(call)
        lane.records = []
        lane.size_bytes = 0


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _headers(entries: list[dict[str, Any]] | None) -> dict[str, str]:
    return {one["key"]: _text(one["value"] or b"") for one in entries or ()}


def _check(schema: StructType, options: SinkOptions) -> None:
    kinds = {found.name: found.dataType for found in schema.fields}
    if "value" not in kinds:
        raise BadColumns("rows need a column value, text or binary")
    if options.topic is None and "topic" not in kinds:
        raise BadOption("give the option topic, or a column of that name")
    for name, kind in kinds.items():
        if name == HEADERS:
            is_right = kind.simpleString() == COLUMNS[HEADERS].simpleString()
        elif name in _KINDS:
            is_right = isinstance(kind, _KINDS[name])
        else:
            raise BadColumns(
                f"the sink has no column {name}; it has {', '.join(_KINDS)} and {HEADERS}"
            )
        if not is_right:
            raise BadColumns(f"column {name} cannot be of type {kind.simpleString()}")


def _sent(
    options: SinkOptions, rows: Iterator[pa.RecordBatch], *, producer: str, batch: int, task: int
) -> Sent:
    sending = _Sending(options, producer=producer, batch=batch, task=task)
    try:
        for part in rows:
            sending.send(part)
        sending.finish()
    except MqError as error:
        raise SinkError(f"the broker did not take rows: {error}") from error
    finally:
        sending.close()
    return Sent(sending.rows)


class BatchWriter(DataSourceArrowWriter):
    """Sends a DataFrame. With `producerId` a job that is run again adds nothing."""

    def __init__(self, options: SinkOptions, schema: StructType, *, is_overwrite: bool) -> None:
        """Check the columns. Raises BadColumns or BadOption."""
        if is_overwrite:
            raise BadOption("messages cannot be overwritten: use mode('append')")
        _check(schema, options)
        self._options = options
        self._producer = options.producer_id or secrets.token_hex(16)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one task."""
        task = _context().partitionId()
        return _sent(self._options, iterator, producer=self._producer, batch=0, task=task)


class StreamWriter(DataSourceStreamArrowWriter):
    """Sends the batches of a query; numbered by its id, which a checkpoint keeps."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        """Check the columns. Raises BadColumns or BadOption."""
        _check(schema, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one task of one batch."""
        context = _context()
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            raise SinkError(
                "Spark does not say which batch this is, so a repeat would not be known"
            )
        producer = self._options.producer_id or query
        task = context.partitionId()
        return _sent(self._options, iterator, producer=producer, batch=int(batch), task=task)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: what was sent is there."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: what was sent is there, and a repeat adds nothing to it."""


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise SinkError("rows are sent by tasks of Spark only")
    return context
