"""Reading as Spark asks for it: plans on the driver, Arrow batches in the tasks.

Knows Spark's interfaces and our plans; no files. What is read is fixed when it is planned, so a
task that is tried again reads the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from apps.engine.errors import InvalidFilter
from apps.engine.filters.subscription import Filter, compile_filter
from apps.engine.offline.slices import QueueExtent, QueueSlice, RecordBlock
from pyspark_mqweb.arrow import batches, corrupt
from pyspark_mqweb.backends import Lease, Planner, blocks, planner
from pyspark_mqweb.columns import check_columns
from pyspark_mqweb.errors import BadOption
from pyspark_mqweb.options import (
    EARLIEST,
    LATEST,
    Mode,
    SourceOptions,
    Start,
    document_of,
    offsets_of,
)
from pyspark_mqweb.planning import (
    Key,
    Loss,
    Range,
    borders,
    checked,
    rationed,
    shares,
    task_count,
    wanted_queues,
)

_READ_ON = "mode=PERMISSIVE shows where they were, mode=DROPMALFORMED reads on without them"


class Share(InputPartition):
    """What one task reads: slices of queues, about as many rows as every other task."""

    def __init__(self, slices: Sequence[QueueSlice], lease: Lease | None) -> None:
        """Hold what the task needs; it is sent to it whole."""
        super().__init__(None)
        self.slices = tuple(slices)
        self.lease = lease

    def __len__(self) -> int:
        """Return how many rows that are."""
        return sum(map(len, self.slices))


@dataclass(frozen=True, slots=True)
class Task:
    """How a task reads its share; the same for batches and streams."""

    options: SourceOptions
    schema: pa.Schema
    filter: Filter

    def read(self, share: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of a share; Spark makes None of a plan without any."""
        if not isinstance(share, Share):
            return
        for wanted in share.slices:
            yield from self._slice(wanted, share.lease)

    def _slice(self, wanted: QueueSlice, lease: Lease | None) -> Iterator[pa.RecordBatch]:
        options = self.options
        loss = Loss(is_fatal=options.is_loss_fatal)
        damage = Loss(is_fatal=options.mode is Mode.FAILFAST, way_out=_READ_ON)
        key = wanted.topic, wanted.queue
        damaged: list[tuple[int, int, str]] = []

        def on_damage(first: int, last: int, why: str) -> None:
            if options.mode is Mode.PERMISSIVE:
                damaged.append((first, last, why))
            else:
                damage.tell(*key, first, last, why)

        found = blocks(
            options,
            [wanted],
            lease,
            hashes=self.filter.hashes,
            on_loss=partial(loss.tell, *key),
            on_damage=on_damage,
        )
        for block in found:
            # What is damaged in front of a block, and in it, was told before it came.
            row = 0
            for one in damaged:
                stop = int(np.searchsorted(block.offsets, one[0]))
                yield from self._whole(block.of(slice(row, stop)))
                yield from self._damaged(wanted, *one)
                row = stop
            damaged.clear()
            yield from self._whole(block.of(slice(row, None)) if row else block)
        for one in damaged:
            yield from self._damaged(wanted, *one)

    def _whole(self, block: RecordBlock) -> Iterator[pa.RecordBatch]:
        return batches(block, self.schema, rows_max=self.options.batch_rows, tags=self.filter.tags)

    def _damaged(
        self, wanted: QueueSlice, first: int, last: int, why: str
    ) -> Iterator[pa.RecordBatch]:
        rows_max = self.options.batch_rows
        return corrupt(wanted.topic, wanted.queue, first, last, why, self.schema, rows_max=rows_max)


def _task(options: SourceOptions, schema: StructType) -> Task:
    check_columns(schema)
    try:
        wanted = compile_filter(options.sub_expression or "*")
    except InvalidFilter as error:
        raise BadOption(f"subExpression is tags, as A || B: {error}") from error
    return Task(options, to_arrow_schema(schema, timezone="UTC"), wanted)


def _plan(options: SourceOptions, asked: Planner, ranges: Sequence[Range]) -> list[InputPartition]:
    count = task_count(options, sum(end - begin for _, begin, end in ranges))
    if not count:
        return []
    lease = asked.hold([asked.cut(*key, begin, end) for key, begin, end in ranges])
    return [
        Share([asked.cut(*key, begin, end) for key, begin, end in share], lease)
        for share in shares(ranges, count)
    ]


class BatchReader(DataSourceReader):
    """Reads ranges that are settled when the job is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """Check the columns. Raises BadColumns."""
        if options.max_offsets_per_trigger is not None:
            raise BadOption("maxOffsetsPerTrigger is for streams")
        self._options = options
        self._task = _task(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Return the shares of the tasks.

        Raises BadOption, DataLoss, or what says that there is no such store or topic.
        """
        asked = planner(self._options)
        try:
            return self._planned(asked)
        finally:
            asked.done()

    def _planned(self, asked: Planner) -> Sequence[InputPartition]:
        options = self._options
        queues = wanted_queues(options, asked)
        if options.log_range is not None:
            spans = {key: asked.within(one, *options.log_range) for key, one in queues.items()}
            ranges = [(key, *span) for key, span in sorted(spans.items()) if span[0] < span[1]]
            return _plan(options, asked, ranges)
        begin = options.starting or Start(name="startingOffsets", everywhere=EARLIEST)
        end = options.ending or Start(name="endingOffsets", everywhere=LATEST)
        if isinstance(begin, Start) and begin.everywhere == LATEST:
            raise BadOption("startingOffsets is earliest or JSON where a batch is read")
        ranges = checked(
            queues,
            borders(begin, queues, asked, unnamed=EARLIEST),
            borders(end, queues, asked, unnamed=LATEST),
            Loss(is_fatal=options.is_loss_fatal),
        )
        return _plan(options, asked, ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of a share, as Arrow batches."""
        return self._task.read(partition)


@dataclass(slots=True)
class _Looked:
    """What the driver saw last; the object it asks is made on the driver, when first asked."""

    asked: Planner | None = None
    queues: dict[Key, QueueExtent] = field(default_factory=dict)
    committed: dict[Key, int] = field(default_factory=dict)
    pinned: dict[Key, int] | None = None
    turn: int = 0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on from where the last batch ended, as many rows at a time as it is told."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """Check the columns. Raises BadColumns or BadOption."""
        if options.ending is not None:
            raise BadOption(f"{options.ending.name} is for batches: a stream does not end")
        if options.log_range is not None:
            raise BadOption("commitLogRange is for batches: a stream does not end")
        self._options = options
        self._task = _task(options, schema)
        self._loss = Loss(is_fatal=options.is_loss_fatal)
        self._looked = _Looked()

    # --- on the driver -------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query begins: by default behind what is there."""
        self._look()
        begin = self._options.starting or Start(name="startingOffsets", everywhere=LATEST)
        found = borders(begin, self._looked.queues, self._asked(), unnamed=EARLIEST)
        return document_of(found)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return what `maxOffsetsPerTrigger` says."""
        rows_max = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Settle where a query ends that reads what is there and no more."""
        self._look()
        self._looked.pinned = {key: one.max_offset for key, one in self._looked.queues.items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends. Raises DataLoss."""
        looked = self._looked
        self._look()
        begins = _keys(offsets_of("an offset", start))
        ends = self._ends()
        for key in ends:
            begins.setdefault(key, looked.queues[key].min_offset)
        ranges = checked(looked.queues, begins, {**begins, **ends}, self._loss)
        self._hold(looked.committed or begins)
        available = {key: end - begin for key, begin, end in ranges}
        if isinstance(limit, ReadMaxRows):
            looked.turn += 1
            available = rationed(available, limit.max_rows, turn=looked.turn)
        starts_at = {key: begin for key, begin, _ in ranges}
        reached = {key: starts_at[key] + count for key, count in available.items()}
        return document_of({**begins, **reached})

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return where the queues end, so that Spark can tell how far a query is behind."""
        queues = self._looked.queues
        return document_of({key: one.max_offset for key, one in queues.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the shares of a batch. Raises DataLoss for what is gone of it meanwhile."""
        begins, ends = _keys(offsets_of("an offset", start)), _keys(offsets_of("an offset", end))
        queues = self._looked.queues
        if any(key not in queues or queues[key].max_offset < at for key, at in ends.items()):
            # A batch that was begun before a restart: nobody has asked how far the queues go.
            self._look()
        ranges = checked(self._looked.queues, begins, ends, self._loss)
        return _plan(self._options, self._asked(), ranges)

    def commit(self, end: dict[str, Any]) -> None:
        """Note what is done: the log in front of it need not be kept for this query any more."""
        self._looked.committed = _keys(offsets_of("an offset", end))

    def stop(self) -> None:
        """Give back what is held."""
        asked, self._looked = self._looked.asked, _Looked()
        if asked is not None:
            asked.close()

    # --- in a task -----------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows of a share, as Arrow batches."""
        return self._task.read(partition)

    # -------------------------------------------------------------------------------------------

    def _asked(self) -> Planner:
        if self._looked.asked is None:
            self._looked.asked = planner(self._options)
        return self._looked.asked

    def _look(self) -> None:
        asked = self._asked()
        asked.refresh()
        self._looked.queues = wanted_queues(self._options, asked)

    def _ends(self) -> dict[Key, int]:
        """Return how far a batch may go at most."""
        looked = self._looked
        ends = {key: one.max_offset for key, one in looked.queues.items()}
        if looked.pinned is None:
            return ends
        # A queue that came later is left to the next run.
        return {
            key: min(end, looked.pinned[key]) for key, end in ends.items() if key in looked.pinned
        }

    def _hold(self, offsets: Mapping[Key, int]) -> None:
        """Keep the log from where the query is, whatever it is behind."""
        asked, queues = self._asked(), self._looked.queues
        asked.hold(
            [
                asked.cut(*key, max(offset, queues[key].min_offset), queues[key].max_offset)
                for key, offset in offsets.items()
                if key in queues and offset < queues[key].max_offset
            ]
        )


def _keys(offsets: Mapping[str, Mapping[int, int]]) -> dict[Key, int]:
    return {
        (topic, queue): offset
        for topic, queues in offsets.items()
        for queue, offset in queues.items()
    }
