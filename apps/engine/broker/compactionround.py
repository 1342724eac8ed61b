"""One round of compaction: a new file of a queue's newest messages, from the old one and the log.

Knows one queue, its kept messages and the log; not when a round is due. The round is a series of
short steps, so that whoever has the loop and threads decides who waits for whom. Memory is that of
the rows of what is new: old ones pass by, a block at a time.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.selection import Selection, load, select
from apps.engine.clock import Clock
from apps.engine.codec.batch import count_within
from apps.engine.config import EngineConfig
from apps.engine.derived.compacted.keys import Hasher, Keys, newest, rows_of
from apps.engine.derived.compacted.layout import ROW, TOMBSTONE, Rows
from apps.engine.derived.compacted.manifest import PartPlace, store_place
from apps.engine.derived.compacted.part import Part, PartDamaged
from apps.engine.derived.compacted.writer import PartWriter
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk
from apps.engine.files.refusals import write_refusal
from apps.engine.log.commitlog import CommitLog
from apps.engine.types import MessageBlock

_log = logging.getLogger(__name__)

# What one step reads of the log: 1 to 2 ms of hashing.
_STEP_MESSAGES = 128
_STEP_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a round. One that reads is called with whether it may wait for the disk.

    Others are for a thread, and wait for the disk whatever they are called with.
    """

    work: Callable[[bool], object]
    reads: bool = False


class Round:
    """A round for one queue: take `steps`, one after the other; then `new` may be read.

    `abandon` it when a step fails. Nothing that a reader sees has changed before the end.
    """

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        queue: ConsumeQueue,
        *,
        generation: int,
        config: EngineConfig,
        clock: Clock,
        failpoints: Failpoints,
    ) -> None:
        """Plan a round over what readers of the queue may see now."""
        self.queue = queue
        self.new: Part | None = None
        self.is_damaged = False
        self.messages_before = self.bytes_before = 0
        self._disk = disk
        self._log = log
        self._hasher = Hasher(log.store_id)
        self._failpoints = failpoints
        self._config = config
        self._now_ms = clock.wall_ms()
        self._begin = queue.min_offset
        self._at = max(queue.covered, queue.entries_from, queue.min_offset)
        self._stop = queue.visible
        self._generation = generation
        self._old: Part | None = None
        self._block: MessageBlock | None = None
        self._found: list[Rows] = []
        self._count = 0
        self._rows: Rows = np.empty(0, dtype=ROW)
        self._keys = Keys(self._rows)
        self._writer: PartWriter | None = None

    def steps(self) -> Iterator[Step]:
        """Iterate over the steps; each must have succeeded before the next is asked for."""
        while self._at < self._stop and self._count < self._config.compaction_keys_max:
            yield Step(work=self._read_log, reads=True)
            yield Step(work=self._note)
        yield Step(work=self._choose)
        for number in range(0 if self._old is None else self._old.block_count):
            yield Step(work=partial(self._copy_block, number))
        for rows in self._slices():
            yield Step(work=partial(self._read_again, rows), reads=True)
            yield Step(work=partial(self._copy, rows))
        yield Step(work=self._finish)

    def abandon(self) -> None:
        """Leave no unfinished file behind."""
        if self._writer is not None:
            self._writer.abandon()
        if self._old is not None:
            self._old.close()

    # --- what is new ---------------------------------------------------------------------------

    def _read_log(self, wait: bool) -> None:
        left = self._config.compaction_keys_max - self._count
        chosen = select(
            self.queue,
            self._at,
            messages_max=min(_STEP_MESSAGES, self._stop - self._at, left),
            bytes_max=_STEP_BYTES,
            hashes=None,
            wait=wait,
        )
        self._block = load(self._log, self.queue, chosen, wait=wait)
        self._at = chosen.next_offset

    def _note(self, _wait: bool) -> None:
        assert self._block is not None
        self._found.append(rows_of(self._block, self._hasher))
        self._count += len(self._block)
        self.messages_before += len(self._block)
        self.bytes_before += len(self._block.payload)
        self._block = None

    def _choose(self, _wait: bool) -> None:
        """Choose the newest of each key; what they replace is not copied from the old file."""
        if self._found:
            rows = np.empty(sum(map(len, self._found)), dtype=ROW)
            np.concatenate(self._found, out=rows)
            self._found = []
            rows = newest(rows)
            self._keys = Keys(rows)
            self._rows = rows[~self._is_over(rows)]
        self._writer = PartWriter(
            self._disk,
            self.queue.topic,
            self.queue.queue,
            self._generation,
            store_id=self._log.store_id,
            failpoints=self._failpoints,
        )
        kept = self.queue.kept
        if kept is not None:
            # A descriptor of its own: this one is read in a thread.
            self._old = Part(
                self._disk,
                kept.topic,
                kept.queue,
                kept.shape.generation,
                store_id=self._log.store_id,
            )

    def _is_over(self, rows: Rows) -> NDArray[np.bool_]:
        over_ms = self._now_ms - self._config.compaction_tombstone_ms
        is_tombstone = (rows["flags"] & TOMBSTONE) != 0
        is_over: NDArray[np.bool_] = is_tombstone & (rows["store_time_ms"] <= over_ms)
        return is_over

    # --- copying -------------------------------------------------------------------------------

    def _copy_block(self, number: int, _wait: bool) -> None:
        assert self._old is not None
        assert self._writer is not None
        while True:
            try:
                rows = self._old.block(number, wait=True)
                self.messages_before += len(rows)
                self.bytes_before += int(rows["size_bytes"].sum(dtype=np.int64))
                is_kept = (rows["queue_offset"] >= self._begin) & ~self._is_over(rows)
                rows = rows[is_kept & ~self._keys.has(rows)]
                records = self._old.records(rows, wait=True)
                break
            except PartDamaged as error:
                # What was written is not known any more. The old file is put aside, not removed.
                self.is_damaged = True
                if not self._old.pass_over(error):
                    raise
                _log.error("compaction_damage", extra={"reason": str(error)})
        self._writer.add(rows, records)

    def _slices(self) -> Iterator[Rows]:
        first = 0
        while first < len(self._rows):
            sizes = self._rows["size_bytes"][first : first + _STEP_MESSAGES]
            count = count_within(sizes, _STEP_BYTES)
            yield self._rows[first : first + count]
            first += count

    def _read_again(self, rows: Rows, wait: bool) -> None:
        offsets = rows["queue_offset"].astype(np.int64)
        chosen = Selection(
            offsets=offsets,
            log_offsets=rows["log_offset"].astype(np.int64),
            sizes=rows["size_bytes"].astype(np.int32),
            next_offset=int(offsets[-1]) + 1,
        )
        self._block = load(self._log, self.queue, chosen, wait=wait)

    def _copy(self, rows: Rows, _wait: bool) -> None:
        assert self._writer is not None
        assert self._block is not None
        self._writer.add(rows, memoryview(self._block.payload))
        self._block = None

    def _finish(self, _wait: bool) -> None:
        assert self._writer is not None
        queue = self.queue
        self._writer.finish(begin=self._begin, stop=self._at)
        place = PartPlace(
            topic=queue.topic,
            queue=queue.queue,
            generation=self._generation,
            written_ms=self._now_ms,
        )
        store_place(self._disk, place, failpoints=self._failpoints)
        try:
            self._failpoints.hit("compaction.after_manifest")
        except OSError as error:
            raise write_refusal(error, f"cannot write {self._writer.path}") from error
        if self._old is not None:
            self._old.close()
        self.new = open_part(self._disk, place, store_id=self._log.store_id)


def open_part(disk: Disk, place: PartPlace, *, store_id: str) -> Part:
    """Open the file that counts. Raises StoreDamaged or FileNotFoundError."""
    part = Part(disk, place.topic, place.queue, place.generation, store_id=store_id)
    part.written_ms = place.written_ms
    return part
