"""What of the log is damaged: found once, kept as it is, copied aside, and known at every start.

Knows ranges of the log and their manifest; not how damage is found, nor who is told.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.engine.errors import StoreDamaged, StoreFull
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk
from apps.engine.files.segments import Segments
from apps.engine.types import LostMessages, QuarantinedRange

DIRECTORY = "quarantine"
MANIFEST = "quarantine/manifest"
_STEP_BYTES = 1 << 20
_NOTHING = np.empty(0, dtype=np.int64)


class Unreadable(StoreDamaged):
    """A read came to bytes that are not what was written; `ranges` says to which.

    The reader's answer is to have them quarantined and to read again without them.
    """

    def __init__(self, message: str, *, ranges: Sequence[QuarantinedRange] = ()) -> None:
        """Say what is damaged; use `unreadable`."""
        super().__init__(message)
        self.ranges = tuple(ranges)


def unreadable(ranges: Sequence[QuarantinedRange]) -> Unreadable:
    """Return the error that names these ranges, at least one."""
    first = ranges[0]
    return Unreadable(f"at log offset {first.log_offset}: {first.reason}", ranges=ranges)


class Quarantine:
    """Damaged ranges of one store, in log order, none over another."""

    def __init__(
        self,
        disk: Disk,
        segments: Segments,
        ranges: Sequence[QuarantinedRange],
        *,
        failpoints: Failpoints,
    ) -> None:
        """Take up what the manifest says; use `open_quarantine`."""
        self.ranges: tuple[QuarantinedRange, ...] = tuple(ranges)
        self._disk = disk
        self._segments = segments
        self._failpoints = failpoints

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self.ranges)

    def add(self, found: QuarantinedRange, *, is_copied: bool = True) -> bool:
        """Copy the bytes aside and write the range down; False where it is known.

        A range that names more lost messages than the one that is known replaces it, and one that
        holds known ones takes their place. It is on the disk when this returns; on a full disk it
        is in memory only, and written with the next one or found again. Raises WriteFailed or
        SyncFailed.
        """
        inside = [one for one in self.ranges if _overlap(one, found)]
        for one in inside:
            if one.log_offset <= found.log_offset and found.end <= one.end:
                if set(found.lost) <= set(one.lost) or not one.is_gap:
                    return False
                found = replace(one, lost=_merged(one.lost, found.lost))
        kept = [one for one in self.ranges if one not in inside]
        ranges = sorted([*kept, found], key=lambda one: one.log_offset)
        try:
            if is_copied:
                self._copy(found)
            self._store(ranges)
        except StoreFull:
            self.ranges = tuple(ranges)
        return True

    def accept(self) -> int:
        """Let the store open without what the ranges held; return how many were not accepted."""
        count = sum(not one.is_accepted for one in self.ranges)
        if count:
            self._store([replace(one, is_accepted=True) for one in self.ranges])
        return count

    def gap_at(self, log_offset: int) -> QuarantinedRange | None:
        """Return the gap that a walk through the log must jump over here, None for none."""
        if not self.ranges:
            return None
        at = bisect_right(self.ranges, log_offset, key=lambda one: one.log_offset) - 1
        found = self.ranges[at] if at >= 0 else None
        return found if found is not None and found.is_gap and log_offset < found.end else None

    def within(self, start: int, stop: int) -> list[QuarantinedRange]:
        """Return the ranges that begin at `start` or later, before `stop`."""
        return [one for one in self.ranges if start <= one.log_offset < stop]

    def touching(self, start: int, stop: int) -> list[QuarantinedRange]:
        """Return the ranges that have any byte from `start` up to, not with, `stop`."""
        return [one for one in self.ranges if one.log_offset < stop and start < one.end]

    def lost(self, topic: str, queue: int) -> NDArray[np.int64]:
        """Return the queue offsets that cannot be read, int64[n], ascending."""
        parts = [
            np.arange(one.first, one.last + 1)
            for found in self.ranges
            for one in found.lost
            if (one.topic, one.queue) == (topic, queue)
        ]
        return np.unique(np.concatenate(parts)) if parts else _NOTHING

    def queues(self) -> set[tuple[str, int]]:
        """Return the topics and queues that lost messages."""
        return {(one.topic, one.queue) for found in self.ranges for one in found.lost}

    def message_count(self) -> int:
        """Return how many messages are known to be lost."""
        return sum(len(self.lost(*key)) for key in self.queues())

    def forget_below(self, log_start: int) -> None:
        """Forget ranges the log no longer holds; their copies stay. Raises what `add` raises."""
        kept = [one for one in self.ranges if one.end > log_start]
        if len(kept) < len(self.ranges):
            self._store(kept)

    def _copy(self, found: QuarantinedRange) -> None:
        self._disk.make_directory(DIRECTORY)
        path = f"{DIRECTORY}/{found.log_offset:020d}-{found.length_bytes}"
        if self._disk.exists(path):
            return
        file = self._disk.open(f"{path}.new", create=True)
        try:
            file.truncate(0)
            for at in range(0, found.length_bytes, _STEP_BYTES):
                chunk = bytearray(min(_STEP_BYTES, found.length_bytes - at))
                self._segments.read_into(found.log_offset + at, memoryview(chunk))
                file.write(at, [chunk])
            file.sync()
        finally:
            file.close()
        self._disk.rename(f"{path}.new", path)
        self._disk.sync_directory(DIRECTORY)

    def _store(self, ranges: Sequence[QuarantinedRange]) -> None:
        content: dict[str, object] = {"ranges": [_dump(one) for one in ranges]}
        atomic.replace(self._disk, MANIFEST, content, failpoints=self._failpoints)
        self.ranges = tuple(ranges)


def open_quarantine(disk: Disk, segments: Segments, *, failpoints: Failpoints) -> Quarantine:
    """Take up what was found before. Raises StoreDamaged for a manifest that is damaged itself."""
    return Quarantine(disk, segments, load_ranges(disk), failpoints=failpoints)


def load_ranges(disk: Disk) -> list[QuarantinedRange]:
    """Return what the manifest says, nothing where there is none. Raises StoreDamaged."""
    content = atomic.load(disk, MANIFEST)
    if content is None:
        return []
    try:
        return [_load(one) for one in content["ranges"]]
    except (KeyError, TypeError, ValueError) as error:
        raise StoreDamaged(f"{MANIFEST} holds something else than ranges") from error


def _overlap(one: QuarantinedRange, other: QuarantinedRange) -> bool:
    return one.log_offset < other.end and other.log_offset < one.end


def _merged(
    some: Sequence[LostMessages], others: Sequence[LostMessages]
) -> tuple[LostMessages, ...]:
    found = {(one.topic, one.queue, one.first, one.last): one for one in (*some, *others)}
    return tuple(found[key] for key in sorted(found))


def _dump(one: QuarantinedRange) -> dict[str, object]:
    return {
        "log_offset": one.log_offset,
        "length_bytes": one.length_bytes,
        "reason": one.reason,
        "found_ms": one.found_ms,
        "lost": [[lost.topic, lost.queue, lost.first, lost.last] for lost in one.lost],
        "is_gap": one.is_gap,
        "is_complete": one.is_complete,
        "is_accepted": one.is_accepted,
    }


def _load(content: dict[str, Any]) -> QuarantinedRange:
    return QuarantinedRange(
        log_offset=int(content["log_offset"]),
        length_bytes=int(content["length_bytes"]),
        reason=str(content["reason"]),
        found_ms=int(content["found_ms"]),
        lost=tuple(
            LostMessages(topic=str(topic), queue=int(queue), first=int(first), last=int(last))
            for topic, queue, first, last in content["lost"]
        ),
        is_gap=content["is_gap"] is True,
        is_complete=content["is_complete"] is True,
        is_accepted=content["is_accepted"] is True,
    )
