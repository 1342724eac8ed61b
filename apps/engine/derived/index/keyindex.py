"""The key index of a store: its files, what of them is on the disk, and how they are made again.

Knows frames and index files; not who asks, nor what a record is worth. It is derived: whatever is
lost or does not verify is thrown away and dispatched from the log again.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from apps.engine.config import EngineConfig
from apps.engine.derived.filecache import FileCache
from apps.engine.derived.index import layout
from apps.engine.derived.index.incoming import Incoming, Rows
from apps.engine.derived.index.indexfile import (
    DIRECTORY,
    FLUSH_ENTRIES,
    IndexDamaged,
    IndexFile,
)
from apps.engine.derived.index.remaking import Remaking
from apps.engine.derived.stretch import Stretch
from apps.engine.errors import EngineError, StoreDamaged, WriteFailed
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk
from apps.engine.files.refusals import write_refusal

CHECKPOINT = "checkpoint/index"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    """What a checkpoint writes into a file, and the `count` the file has then."""

    file: IndexFile
    writes: list[tuple[int, bytes]]
    count: int


class KeyIndex:
    """Index files in order of the log. All calls come from one thread but what is for a thread."""

    def __init__(self, disk: Disk, *, config: EngineConfig, failpoints: Failpoints) -> None:
        """Bind to a store; `load` fills it."""
        self._disk = disk
        self._failpoints = failpoints
        self._slot_count = config.index_slots
        self._capacity = config.index_entries
        self._cache = FileCache(disk)
        self.incoming = Incoming()
        """Takes in records, in order of the log; `frame_added` ends each frame."""
        self._frame_start = 0
        self.files: list[IndexFile] = []
        self.dispatched_offset = 0
        """All frames below were taken in; some of their keys may not be in a file yet."""
        self.rebuilt_from: str | None = None
        """Why the last `load` threw something away; None when it did not."""
        self._damaged: set[str] = set()
        # Damaged files that the log does not make again; the next start begins without them.
        self._lost: set[str] = set()

    # --- opening -------------------------------------------------------------------------------

    def load(self, *, log_start: int, log_end: int) -> int:
        """Take up the checkpoint and return the log offset to dispatch from.

        The first file that does not verify is thrown away with those behind it, and dispatch
        begins where it began. Files that no checkpoint names are removed.
        """
        self._dispatch_from(log_start)
        try:
            content = atomic.load(self._disk, CHECKPOINT)
        except StoreDamaged as error:
            content, self.rebuilt_from = None, str(error)
        if content is not None:
            offset = int(content["dispatched_offset"])
            if log_start <= offset <= log_end:
                self._dispatch_from(offset)
                self._take_up(content["files"], log_start)
            else:
                self.rebuilt_from = f"{CHECKPOINT} is about {offset}, which is not in the log"
        # A file that is made again must not be written to by the descriptor of the one before it.
        self._cache.close()
        named = {file.name for file in self.files}
        for name in self._disk.names(DIRECTORY):
            if name not in named:
                self._disk.remove(f"{DIRECTORY}/{name}")
        if self.rebuilt_from is not None:
            _log.warning("index_rebuilt", extra={"reason": self.rebuilt_from})
        return self.dispatched_offset

    def _take_up(self, rows: list[list[object]], log_start: int) -> None:
        kept = [IndexFile.kept(self._cache, row) for row in rows]
        kept = [file for file in kept if file.end_offset >= log_start]
        for number, file in enumerate(kept):
            try:
                if file.room:
                    file.take_up()
                else:
                    file.check()
            except (IndexDamaged, StoreDamaged) as error:
                self.rebuilt_from = str(error)
                self._dispatch_from(max(file.dispatch_from, log_start))
                self._reopen(kept[:number])
                return
            self.files.append(file)

    def _reopen(self, files: list[IndexFile]) -> None:
        """Let the last of the files grow again, or, where it cannot, another one begin."""
        self.files = files
        if files and files[-1].room:
            try:
                files[-1].take_up()
            except (IndexDamaged, StoreDamaged):
                self._dispatch_from(files[-1].dispatch_from)
                self._reopen(files[:-1])

    def _dispatch_from(self, log_offset: int) -> None:
        self.dispatched_offset = log_offset

    # --- growing -------------------------------------------------------------------------------

    def frame_added(self, frame_end: int) -> None:
        """Note that all records of the frame that ends here were taken in."""
        self.dispatched_offset = frame_end
        if self.incoming.is_much:
            self.settle()

    def dispatch(self, stretch: Stretch) -> None:
        """Take in frames as they lie in the log; what was taken in before changes nothing."""
        known = sum(frame.end <= self.dispatched_offset for frame in stretch.frames)
        if known == len(stretch.frames):
            return
        if known:
            stretch = Stretch(stretch.frames[known:])
        self.incoming.add_stretch(stretch)
        self.frame_added(stretch.end)

    def settle(self) -> None:
        """Give entries to all that was taken in. Raises WriteFailed."""
        if not len(self.incoming):
            return
        rows = self._unknown(self.incoming.take())
        start, count = 0, len(rows.hashes)
        while start < count:
            if not self.files or not self.files[-1].room:
                self._begin_file(rows, start)
            file = self.files[-1]
            stop = min(count, start + file.room)
            file.append(
                rows.hashes[start:stop], rows.log_offsets[start:stop], rows.times_ms[start:stop]
            )
            file.flush(least=FLUSH_ENTRIES)
            start = stop

    def _unknown(self, rows: Rows) -> Rows:
        """Leave out what the files have: all of earlier records, and the first of the last one."""
        if not self.files or not len(rows.hashes):
            return rows
        last = self.files[-1]
        if rows.log_offsets[0] > last.end_offset:
            return rows
        known = int(np.searchsorted(rows.log_offsets, last.end_offset, side="left"))
        same = int(np.searchsorted(rows.log_offsets, last.end_offset, side="right")) - known
        known += min(same, last.end_repeat)
        return Rows(
            rows.hashes[known:],
            rows.log_offsets[known:],
            rows.times_ms[known:],
            rows.frames[known:],
        )

    def _begin_file(self, rows: Rows, row: int) -> None:
        begin_ms = int(rows.times_ms[row])
        name = layout.file_name(begin_ms)
        end_repeat = 0
        if self.files:
            last = self.files[-1]
            if int(rows.log_offsets[row]) == last.end_offset:
                end_repeat = last.end_repeat
            created_ms = begin_ms
            while name <= last.name:
                # Files that begin in one millisecond are named one after the other.
                created_ms += 1
                name = layout.file_name(created_ms)
        self._disk.make_directory(DIRECTORY)
        file = IndexFile.new(
            self._cache,
            name=name,
            slot_count=self._slot_count,
            capacity=self._capacity,
            begin_ms=begin_ms,
            begin_offset=int(rows.log_offsets[row]),
            dispatch_from=int(rows.frames[row]),
        )
        # A record's keys may be spread over files: how many it has so far is counted through.
        file.end_repeat = end_repeat
        file.end_offset = file.begin_offset
        self.files.append(file)

    # --- asking --------------------------------------------------------------------------------

    def newest_first(self) -> list[IndexFile]:
        """Return the files, the newest first, with all that was taken in. Raises WriteFailed."""
        self.settle()
        return self.files[::-1]

    def condemn(self, file: IndexFile, reason: str) -> None:
        """Note that a file does not verify: `remaking` makes it again, or the next start."""
        if file.name not in self._damaged and not file.is_gone:
            self._damaged.add(file.name)
            _log.error("index_damaged", extra={"file": file.path, "reason": reason})

    def remaking(self) -> Remaking | None:
        """Begin to make the first damaged file again; None where there is none that could be."""
        before = None
        for file in self.files:
            if file.name in self._damaged - self._lost:
                return Remaking(self._disk, file, before)
            before = file
        return None

    def remade(self, made: Remaking) -> bool:
        """Read the file again that `made` has written; False where it has changed meanwhile."""
        # The file may have been missing, and what is open then is not what was written.
        self._cache.forget(made.file.path)
        if not made.take_place():
            return False
        self._damaged.discard(made.file.name)
        _log.warning("index_remade", extra={"file": made.file.path})
        return True

    def postpone(self, made: Remaking, error: EngineError) -> None:
        """Leave a file as it is for now: searches go on saying that they may miss something."""
        _log.warning("index_not_remade", extra={"file": made.path, "error": str(error)})

    def give_up(self, made: Remaking) -> None:
        """Leave a file to the next start: the log does not have all of it any more."""
        self._lost.add(made.file.name)
        reason = "the log does not have all of it any more"
        _log.warning("index_not_remade", extra={"file": made.file.path, "error": reason})

    # --- durability ----------------------------------------------------------------------------

    def begin_checkpoint(self) -> Callable[[], None]:
        """Take a picture; return what to run in a thread once the log is synced past it.

        The picture is about `dispatched_offset` as it is now.
        """
        self.settle()
        offset, files = self.dispatched_offset, list(self.files)
        for number, file in enumerate(files):
            if file.name in self._damaged:
                offset, files = file.dispatch_from, files[:number]
                break
        for file in files:
            file.flush()
        if any(file.flushed < file.count for file in files):
            # The disk is full. What was checkpointed before holds on, and is dispatched from.
            return _nothing
        grown = [file for file in files if not file.is_stored]
        changes = [_Changes(file=file, writes=file.changes(), count=file.count) for file in grown]
        content: dict[str, object] = {
            "dispatched_offset": offset,
            "files": [file.row() for file in files],
        }
        return lambda: self._write(content, changes)

    def _write(self, content: dict[str, object], changes: list[_Changes]) -> None:
        """Bring a picture to the disk; for a thread."""
        self._pass("index.before_write")
        for change in changes:
            _write_file(self._disk, change)
        if changes:
            self._disk.sync_directory(DIRECTORY)
        self._pass("index.after_write")
        atomic.replace(self._disk, CHECKPOINT, content, failpoints=self._failpoints)
        for change in changes:
            change.file.stored = change.count
            if change.count == change.file.capacity:
                # It is full, and the disk has its slots.
                change.file.slots = None

    def _pass(self, name: str) -> None:
        try:
            self._failpoints.hit(name)
        except OSError as error:
            raise write_refusal(error, "cannot write the key index") from error

    def follow(self, log_start: int) -> None:
        """Drop the files of which no entry lies at or above `log_start`, where the log begins."""
        gone = [file for file in self.files if file.end_offset < log_start]
        if not gone:
            return
        # Opened again when next asked for; a dropped one may not stay open.
        self._cache.close()
        for file in gone:
            file.is_gone = True
            self.files.remove(file)
            self._disk.remove(file.path)

    def close(self) -> None:
        """Close the files; what was not checkpointed is dispatched again at the next start."""
        self._cache.close()

    def verify(self) -> Iterator[tuple[str, str | None]]:
        """Prove file after file as the last checkpoint has it: its path, and what is wrong."""
        for file in list(self.files):
            try:
                file.verify()
            except (IndexDamaged, StoreDamaged) as error:
                yield file.path, str(error)
            else:
                yield file.path, None


def _nothing() -> None:
    """Write nothing."""


def _write_file(disk: Disk, change: _Changes) -> None:
    # A descriptor of its own: the cached ones belong to the other thread.
    try:
        file = disk.open(change.file.path)
    except FileNotFoundError as error:
        if change.file.is_gone:
            return
        raise WriteFailed(f"{change.file.path} is missing") from error
    try:
        for position, data in change.writes:
            file.write(position, [data])
        file.sync()
    finally:
        file.close()
