"""All waiting messages of a store: those near in memory, the others in runs, and how one moves.

Knows parcels, rows and runs, and is told what waits no more; writes nothing to the log. Memory
holds every message that is in no run, and of the runs what is due soon.

A row moves from the log to a run in three steps, so that a crash anywhere leaves it in one place:
a thread writes the run, a checkpoint puts the run into the manifest in place of the parcels, and
then memory follows.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.timer import jobs, reading
from apps.engine.derived.timer.ends import Ends
from apps.engine.derived.timer.jobs import Job
from apps.engine.derived.timer.manifest import PATH as MANIFEST
from apps.engine.derived.timer.manifest import Manifest, load_manifest, store_manifest
from apps.engine.derived.timer.rows import FROM_LOG, PARCEL_MESSAGES_MAX, Places, Rows
from apps.engine.derived.timer.runfile import Run, RunDamaged, RunPlace, write_run
from apps.engine.derived.timer.tuning import TimerTuning
from apps.engine.derived.timer.waiting import WaitingRows
from apps.engine.errors import EngineError, Stopping, StoreDamaged, UnknownFormat
from apps.engine.failpoints import Failpoints
from apps.engine.files.backend import Disk
from apps.engine.log.commitlog import CommitLog
from apps.engine.log.quarantine import Unreadable

_log = logging.getLogger(__name__)
_EPOCHS_MAX = 64


class TimerStore:
    """Waiting messages by number. `open` fills it."""

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        queue: ConsumeQueue,
        ends: Ends,
        *,
        failpoints: Failpoints,
        tuning: TimerTuning,
    ) -> None:
        """Bind to a store; `queue` is that of the parcels."""
        self.places = Places()
        self.waiting = WaitingRows()
        self.runs: dict[int, Run] = {}
        self._disk = disk
        self._log = log
        self._queue = queue
        self._ends = ends
        self._failpoints = failpoints
        self._tuning = tuning
        self._store_id = bytes.fromhex(log.store_id)
        self._manifest = Manifest()
        self._epochs: list[tuple[int, int]] = []
        self._next_run = 0
        self._moved_ms: int | None = None
        self._job: Job | None = None
        self._is_written = False
        self._durable: Manifest | None = None

    # --- at a start ----------------------------------------------------------------------------

    def open(self) -> None:
        """Bring memory up to the end of the log.

        Where runs or their manifest are damaged everything is read from the log's parcels again.
        Raises StoreDamaged where the log no longer has all of them, and Unreadable for a parcel
        that is damaged: to be called again when that is known.
        """
        try:
            self._open(load_manifest(self._disk))
        except (StoreDamaged, UnknownFormat) as error:
            if not self._rebuild(error):
                raise

    def rebuild(self, error: RunDamaged) -> bool:
        """Drop all runs and read everything from the log again; False where that cannot be.

        The next checkpoint puts it into the manifest. For a run that turned out to be damaged.
        """
        return self._job is None and self._rebuild(error)

    def _rebuild(self, error: EngineError) -> bool:
        if self._log.log_start or isinstance(error, Unreadable):
            return False
        _log.warning("delays_rebuilt", extra={"reason": str(error)})
        numbers = [int(name[:-4]) for name in self._disk.names("timer") if name.endswith(".run")]
        self._open(Manifest(next_run=max([self._next_run - 1, *numbers]) + 1))
        return True

    def _open(self, manifest: Manifest) -> None:
        self.close()
        self.runs.clear()
        self.waiting.replace(lambda rows: rows[:0])
        self._manifest = manifest
        if not manifest.next_run and self._log.log_start and self._disk.names("timer"):
            raise StoreDamaged(f"{MANIFEST} is missing, and the log has not all that it named")
        if manifest.parcels_from > self._queue.end:
            raise StoreDamaged(
                f"the log holds {self._queue.end} records of delayed messages, "
                f"and runs have taken {manifest.parcels_from}"
            )
        if manifest.parcels_from < self._queue.min_offset:
            raise StoreDamaged(
                f"delayed messages wait from parcel {manifest.parcels_from} on, "
                f"the log begins at {self._queue.min_offset}"
            )
        self._next_run = manifest.next_run
        self._epochs = list(manifest.epochs)
        for place in manifest.runs:
            self._add_run(Run(self._disk, place, store_id=self._store_id, places=self.places))
        self._remove_others()
        for epoch, rows in reading.parcels(
            self._log, self._queue, manifest.parcels_from, self.places
        ):
            self._note_epoch(int(rows["number"][0]), epoch)
            self._add(rows)

    def _remove_others(self) -> None:
        """Remove what a crash left of runs that do not count, and what atomic replacing left."""
        known = {run.place.path.rpartition("/")[2] for run in self.runs.values()}
        for name in self._disk.names("timer"):
            if name.endswith((".run", ".new")) and name not in known:
                self._disk.remove(f"timer/{name}")

    def _add_run(self, run: Run) -> None:
        """Count what of a run waits no more, and pass over its blocks in which nothing does."""
        self.runs[run.number] = run
        ends = self._ends
        is_over = (run.last_due_ms <= ends.floor_due_ms) & (run.last_number < ends.floor_number)
        run.dead[is_over] = run.counts[is_over]
        until_ms = max(ends.floor_due_ms, ends.delivered_until_ms())
        apart_ms = ends.apart_due_ms()
        first = np.searchsorted(apart_ms, run.first_due_ms, side="left")
        stop = np.searchsorted(apart_ms, run.last_due_ms, side="right")
        is_touched = ~is_over & ((run.first_due_ms <= until_ms) | (stop > first))
        for block in np.flatnonzero(is_touched).tolist():
            rows = run.block(block, wait=True)
            run.dead[block] = int(ends.is_done(rows["number"], rows["due_ms"]).sum())
        while run.cursor < run.block_count and run.dead[run.cursor] == run.counts[run.cursor]:
            run.cursor += 1

    # --- what waits ----------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return how many messages wait."""
        return len(self.waiting) + sum(run.unread for run in self.runs.values())

    @property
    def next_number(self) -> int:
        """Return the first number that no message has."""
        return self._queue.end * PARCEL_MESSAGES_MAX

    @property
    def next_ms(self) -> int | None:
        """Return the first moment at which there is something to look at; None without any."""
        moments = [self.waiting.next_ms, *(run.next_ms for run in self.runs.values())]
        return min((moment for moment in moments if moment is not None), default=None)

    def first_number(self) -> int:
        """Return a number below which nothing waits; 0 where only a run could tell."""
        if any(run.unread for run in self.runs.values()):
            return 0
        found = self.waiting.first_number()
        return self.next_number if found is None else found

    def epoch_of(self, number: int) -> int | None:
        """Return in which epoch of the store a number was given out; None where forgotten."""
        at = bisect_right(self._epochs, (number, 1 << 62)) - 1
        return self._epochs[at][1] if at >= 0 else None

    def insert(self, rows: Rows, *, epoch: int) -> None:
        """Add the rows of a parcel that was just written."""
        self._note_epoch(int(rows["number"][0]), epoch)
        self.waiting.add(rows)

    def _note_epoch(self, number: int, epoch: int) -> None:
        if not self._epochs or self._epochs[-1][1] != epoch:
            self._epochs.append((number, epoch))
            del self._epochs[:-_EPOCHS_MAX]

    def _add(self, rows: Rows) -> None:
        """Add those of the rows that still wait, at their moments."""
        rows = rows[~self._ends.is_done(rows["number"], rows["due_ms"])]
        if len(rows):
            rows["at_ms"] = rows["due_ms"] + self._ends.held_ms_of(rows["number"])
            self.waiting.add(rows)

    def load_ahead(self, now_ms: int, *, wait: bool) -> None:
        """Bring what is due soon from the runs to memory. Raises ColdRead with a part done."""
        tuning = self._tuning
        for run in self.runs.values():
            while (next_ms := run.next_ms) is not None:
                is_room = len(self.waiting) < tuning.rows_max
                if next_ms > now_ms + (tuning.near_ms if is_room else tuning.next_ms):
                    break
                rows = run.block(run.cursor, wait=wait)
                run.cursor += 1
                self._add(rows)

    def jumped(self) -> None:
        """Take over how long messages are held back now."""

        def moved(rows: Rows) -> Rows:
            rows["at_ms"] = rows["due_ms"] + self._ends.held_ms_of(rows["number"])
            return rows

        self.waiting.replace(moved)

    def forget_parcels(self, parcels: NDArray[np.int64]) -> None:
        """Let messages of parcels, int64[n], wait no more, but those in runs: none can be read."""

        def left(rows: Rows) -> Rows:
            is_lost = np.isin(rows["number"] // PARCEL_MESSAGES_MAX, parcels)
            kept: Rows = rows[~(is_lost & (rows["source"] == FROM_LOG))]
            return kept

        if len(parcels):
            self.waiting.replace(left)

    def find(self, number: int, due_ms: int, *, wait: bool) -> Rows | None:
        """Return the row of a waiting message, ROW[]; None where none waits. Raises ColdRead."""
        held_ms = int(self._ends.held_ms_of(np.array([number]))[0])
        row = self.waiting.find(number, due_ms + held_ms)
        if row is not None:
            return row
        for run in self.runs.values():
            for block in self._blocks(run, due_ms):
                rows = run.block(block, wait=wait)
                found = np.flatnonzero(rows["number"] == number)
                if len(found) and not self._ends.is_done(rows["number"], rows["due_ms"])[found[0]]:
                    return rows[found[0]]  # type: ignore[no-any-return]
        return None

    @staticmethod
    def _blocks(run: Run, due_ms: int) -> range:
        """Return the blocks of a run that are not in memory and may hold a due time."""
        first = int(np.searchsorted(run.last_due_ms, due_ms, side="left"))
        stop = int(np.searchsorted(run.first_due_ms, due_ms, side="right"))
        return range(max(first, run.cursor), stop)

    def end(self, row: Rows, *, wait: bool) -> None:
        """Let a message that `find` returned wait no more; after its end was recorded."""
        number, due_ms = int(row["number"]), int(row["due_ms"])
        held_ms = int(self._ends.held_ms_of(np.array([number]))[0])
        in_memory = self.waiting.find(number, due_ms + held_ms)
        if in_memory is not None:
            self.waiting.kill(in_memory)
            return
        run = self.runs[int(row["source"])]
        for block in self._blocks(run, due_ms):
            if number in run.block(block, wait=wait)["number"]:
                run.dead[block] += 1

    def records(self, rows: Rows, *, wait: bool) -> bytes:
        """Return the records of rows end to end; see `reading.records_of`."""
        return reading.records_of(rows, self._log, self.runs, wait=wait)

    def fronts(self, rows: Rows, *, wait: bool) -> list[tuple[bytes, bytes]]:
        """Return header and properties of each row's record; see `reading.fronts_of`."""
        return reading.fronts_of(rows, self._log, self.runs, wait=wait)

    # --- moving to the disk --------------------------------------------------------------------

    def plan(self, now_ms: int, *, monotonic_ms: int) -> Job | None:
        """Return a run that should be written, and forbid another one until it is adopted."""
        if self._job is not None:
            return None
        self._job = self._flush(now_ms, monotonic_ms) or self._merge()
        return self._job

    def adopt(self, job: Job) -> None:
        """Take over a job that was run: the next checkpoint puts its run into the manifest.

        A job without a place has failed, or found nothing that waits; it is planned anew.
        """
        assert job is self._job
        if job.place is None and not job.replaced:
            self._job = None
        else:
            self._is_written = True

    def abandon(self, job: Job) -> None:
        """Forget a job whose run was not written."""
        assert job is self._job
        self._job = None

    def _flush(self, now_ms: int, monotonic_ms: int) -> Job | None:
        until = self._queue.visible
        first = self._manifest.parcels_from
        if self._moved_ms is None or until <= first:
            self._moved_ms = monotonic_ms
            return None
        tuning = self._tuning
        behind_bytes = self._log.written_offset - self._log_offset(first)
        is_due = (
            until - first >= tuning.flush_parcels
            or behind_bytes >= tuning.flush_log_bytes
            or monotonic_ms - self._moved_ms >= tuning.flush_age_ms
        )
        if not is_due and len(self.waiting) < tuning.flush_rows:
            return None
        far = self.waiting.count_behind(now_ms + tuning.near_ms)
        if not far or (not is_due and far < tuning.flush_rows):
            return None
        chosen = jobs.Chosen(
            parts=self.waiting.parts(),
            below=until * PARCEL_MESSAGES_MAX,
            is_done=self._ends.frozen().is_done,
        )
        read = partial(reading.records_of, log=self._log, runs={}, wait=True)
        return self._job_of(partial(jobs.flushed, chosen, read), parcels_from=until)

    def needed_from(self, *, wait: bool) -> int | None:
        """Return the log offset of the first parcel that is read at a start; None without any.

        Raises ColdRead when `wait` is false and the disk would have to be waited for.
        """
        parcel = self._manifest.parcels_from
        if parcel >= self._queue.end:
            return None
        return self._log_offset(parcel, wait=wait)

    def _log_offset(self, parcel: int, *, wait: bool = True) -> int:
        entries = self._queue.read(parcel, 1, wait=wait)
        return int(entries["log_offset"][0])

    def _merge(self) -> Job | None:
        tuning = self._tuning
        runs = sorted(self.runs.values(), key=lambda run: run.unread)
        chosen = runs[: tuning.merged_runs] if len(runs) > tuning.runs_max else []
        for run in runs:
            total = int(run.counts.sum())
            if not chosen and 2 * run.unread < total and total >= tuning.rewritten_rows_min:
                chosen = [run] if run.next_ms is not None else []
        if not chosen:
            return None
        by_number = {run.number: run for run in chosen}
        read = partial(reading.records_of, log=self._log, runs=by_number, wait=True)
        is_done = self._ends.frozen().is_done
        return self._job_of(partial(jobs.merged, chosen, is_done, read), replaced=tuple(chosen))

    def _job_of(
        self,
        blocks: Callable[[], jobs.Blocks],
        *,
        parcels_from: int | None = None,
        replaced: tuple[Run, ...] = (),
    ) -> Job:
        number = self._next_run
        self._next_run += 1

        def uncancelled() -> jobs.Blocks:
            for block in blocks():
                if job.is_cancelled:
                    raise Stopping("the engine is stopping")
                yield block

        def write() -> RunPlace | None:
            return write_run(
                self._disk,
                number,
                uncancelled(),
                store_id=self._store_id,
                places=self.places,
                failpoints=self._failpoints,
            )

        job = Job(parcels_from=parcels_from, replaced=replaced, write=write)
        return job

    # --- checkpoints ---------------------------------------------------------------------------

    def begin_checkpoint(self) -> Callable[[], None] | None:
        """Return what makes this moment count at a start, for a thread once the log is synced.

        None where nothing has changed.
        """
        manifest = self._wanted()
        if manifest == self._manifest:
            return None

        def write() -> None:
            self._disk.make_directory("timer")
            store_manifest(self._disk, manifest, failpoints=self._failpoints)
            self._durable = manifest

        return write

    def _wanted(self) -> Manifest:
        first = self.waiting.first_number(FROM_LOG)
        parcels_from = self._queue.end if first is None else first // PARCEL_MESSAGES_MAX
        job = self._job if self._is_written else None
        gone = {run.number for run in self.runs.values() if self._is_over(run)}
        # A thread may be reading the runs of a job; they end with it.
        gone -= {run.number for run in self._job.replaced} if self._job is not None else set()
        places = []
        if job is not None:
            parcels_from = max(job.parcels_from or 0, self._manifest.parcels_from)
            gone |= {run.number for run in job.replaced}
            places = [job.place] if job.place is not None else []
        return Manifest(
            parcels_from=parcels_from,
            next_run=self._next_run,
            runs=(*(r.place for r in self.runs.values() if r.number not in gone), *places),
            epochs=tuple(self._epochs),
        )

    def _is_over(self, run: Run) -> bool:
        return run.next_ms is None and self.waiting.first_number(run.number) is None

    def settle(self) -> None:
        """Let memory follow a manifest that was written; cheap where there was none."""
        manifest, self._durable = self._durable, None
        if manifest is None:
            return
        if manifest.parcels_from != self._manifest.parcels_from:
            self._moved_ms = None
        self._manifest = manifest
        named = {place.number for place in manifest.runs}
        gone = [run for run in self.runs.values() if run.number not in named]
        for run in gone:
            del self.runs[run.number]
        job = self._job
        if job is not None and self._is_written and self._is_named(job, named, gone):
            self._follow(job, {run.number for run in gone})
            self._job, self._is_written = None, False
        for run in gone:
            run.remove()

    @staticmethod
    def _is_named(job: Job, named: set[int], gone: list[Run]) -> bool:
        """Say whether a manifest has a job's outcome: it may be that of an earlier moment."""
        if job.place is not None:
            return job.place.number in named
        return set(job.replaced) <= set(gone)

    def _follow(self, job: Job, gone: set[int]) -> None:
        below = (job.parcels_from or 0) * PARCEL_MESSAGES_MAX
        self.waiting.drop(FROM_LOG, below, gone)
        if job.place is not None:
            self._add_run(Run(self._disk, job.place, store_id=self._store_id, places=self.places))

    def close(self) -> None:
        """Close the runs."""
        for run in self.runs.values():
            run.close()
