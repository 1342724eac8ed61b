"""A disk in memory with two planes: what processes see, and what a power cut leaves.

Implements the seam of `apps.engine.files.backend`. The fault model:

- A write is in the live plane at once and in the durable plane after a sync of its file; until
  then each of its 4 KiB pages may survive a power cut or not, in any order.
- A page may be torn at 512-byte sectors, or hold garbage where nothing was before. Bytes that
  were synced are old or new and never garbage, when they or their neighbours are written again:
  drives write a sector whole, and every log that appends within a sector stands on that.
- A new, renamed or removed name is durable after a sync of its directory; until then the last
  ones may be undone, in order.
- A failed sync leaves its pages visible, clean, and not on the disk: a second sync that succeeds
  does not bring them there; only writing them again does. Names are journalled by file systems
  and stay to be synced.
"""

import random
import re
import threading
from collections import Counter
from collections.abc import Iterable, Sequence

from apps.engine.errors import StoreFull, SyncFailed, WriteFailed
from apps.engine.files.backend import Buffer, HeldLock, NotCached
from apps.engine.files.locks import refusal
from apps.engine.testing.crashes import PAGE_BYTES, Change, CrashMode, Inode, Names, image

_NOT_ZERO = re.compile(rb"[^\0]")


class SimulatedFile:
    """One open file of a simulated disk."""

    def __init__(self, disk: "SimulatedDisk", inode: Inode, path: str) -> None:
        """Open; use `SimulatedDisk.open`."""
        self._disk = disk
        self._inode = inode
        self._path = path

    def size(self) -> int:
        """Return the length in bytes."""
        return len(self._inode.live)

    def write(self, start: int, buffers: Sequence[Buffer]) -> None:
        """Write the buffers end to end from `start`. Raises StoreFull or WriteFailed."""
        self._disk.write(self._inode, self._path, start, b"".join(buffers))

    def read_into(self, start: int, target: memoryview, *, wait: bool = True) -> int:
        """Fill `target` and return how many bytes the file had. Raises NotCached when cold."""
        return self._disk.read(self._inode, self._path, start, target, wait=wait)

    def data_from(self, start: int) -> tuple[int, int] | None:
        """Return the next pages that hold other bytes than zeros, None where there are none."""
        return self._disk.data_from(self._inode, start)

    def allocate(self, size_bytes: int) -> None:
        """Make the file `size_bytes` long. Raises StoreFull and leaves it as it was."""
        if size_bytes > self.size():
            self._disk.resize(self._inode, self._path, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`."""
        self._disk.resize(self._inode, self._path, size_bytes)

    def sync(self) -> None:
        """Make finished writes durable. Raises SyncFailed."""
        self._disk.sync(self._inode, self._path)

    def close(self) -> None:
        """Do nothing: there is no descriptor."""


class _SimulatedLock:
    def __init__(self, owners: dict[str, dict[str, object]], path: str) -> None:
        self._owners = owners
        self._path = path

    def release(self) -> None:
        """Give the lock back."""
        self._owners.pop(self._path, None)


class SimulatedDisk:
    """Disk with faults to order. Set the public attributes at any time; None means never.

    `fail_sync_from` and `fail_write_from` count from 1: that call and all later ones fail.
    `cut_at_sync` does the same with syncs that lie: they succeed and nothing becomes durable.
    `faults` counts what fired, by kind.
    """

    def __init__(self, *, capacity_bytes: int = 1 << 40) -> None:
        """Start empty."""
        self.capacity_bytes = capacity_bytes
        self.sync_count = 0
        self.write_count = 0
        self.fail_sync_from: int | None = None
        self.cut_at_sync: int | None = None
        self.fail_write_from: int | None = None
        self.faults: Counter[str] = Counter()
        self._live: Names = {}
        self._durable: Names = {}
        self._pending: list[Change] = []
        self._cold: set[Inode] = set()
        self._owners: dict[str, dict[str, object]] = {}
        self._mutex = threading.RLock()

    # --- the seam ------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        """Open for reading and writing; raise FileNotFoundError when absent and not `create`."""
        with self._mutex:
            inode = self._live.get(path)
            if inode is None:
                directory = path.rpartition("/")[0]
                if not create or (directory and directory not in self._live):
                    raise FileNotFoundError(path)
                inode = Inode()
                self._name(directory, (path, inode))
            if inode.is_directory:
                raise WriteFailed(f"{path} is a directory")
            return SimulatedFile(self, inode, path)

    def exists(self, path: str) -> bool:
        """Say whether a file or directory is there."""
        return path in self._live or not path

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty when the directory is absent."""
        prefix = f"{directory}/" if directory else ""
        with self._mutex:
            paths = [path for path in self._live if path.startswith(prefix)]
        return sorted(p[len(prefix) :] for p in paths if "/" not in p[len(prefix) :])

    def make_directory(self, path: str) -> None:
        """Make a directory with its parents, and sync each parent that got a new entry."""
        parent = path.rpartition("/")[0]
        with self._mutex:
            if self.exists(path):
                return
            self.make_directory(parent)
            self._name(parent, (path, Inode(is_directory=True)))
            self.sync_directory(parent)

    def remove(self, path: str) -> None:
        """Remove a file; nothing happens when it is absent."""
        with self._mutex:
            if path in self._live:
                self._name(path.rpartition("/")[0], (path, None))

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory; nothing happens when it is absent."""
        if self.names(path):
            raise OSError(f"{path} is not empty")
        self.remove(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file over another in one step, within one directory."""
        directory = source.rpartition("/")[0]
        assert directory == target.rpartition("/")[0]
        with self._mutex:
            if source not in self._live:
                raise FileNotFoundError(source)
            self._name(directory, (source, None), (target, self._live[source]))

    def sync_directory(self, path: str) -> None:
        """Make the names in the directory durable. Raises SyncFailed."""
        with self._mutex:
            mine = [change for change in self._pending if change.directory == path]
            if self._sync_point(mine, f"directory {path!r}"):
                self._settle(mine)

    def free_bytes(self) -> int:
        """Return how much of the capacity no file uses."""
        with self._mutex:
            return self.capacity_bytes - sum(len(inode.live) for inode in self._live.values())

    def total_bytes(self) -> int:
        """Return the capacity."""
        return self.capacity_bytes

    def lock(self, path: str, *, owner: dict[str, object]) -> HeldLock:
        """Take the lock; raise StoreLocked naming the holder. A crash image has no holders."""
        if path in self._owners:
            raise refusal(self._owners[path])
        self._owners[path] = owner
        return _SimulatedLock(self._owners, path)

    # --- faults --------------------------------------------------------------------------------

    def crash_image(
        self, rng: random.Random, mode: CrashMode | str, *, keep: int | None = None
    ) -> "SimulatedDisk":
        """Return the disk as the next process finds it; see CrashMode.

        `keep` makes `prefix` and `one_missing` exhaustive: how many changes survive, or which
        of `pending_count` is missing; drawn from `rng` when None.
        """
        mode = CrashMode(mode)
        with self._mutex:
            found = SimulatedDisk(capacity_bytes=self.capacity_bytes)
            if mode is CrashMode.EVERYTHING:
                # A killed process: the page cache stays, and with it what is not yet durable.
                twins = {id(inode): inode.copy() for inode in self._inodes()}
                found._live = {path: twins[id(i)] for path, i in self._live.items()}
                found._durable = {path: twins[id(i)] for path, i in self._durable.items()}
                found._pending = [change.moved(twins) for change in self._pending]
                return found
            found._live = image(self._durable, self._pending, rng, mode, keep)
            found._durable = dict(found._live)
            return found

    def crash_images(
        self, seed: int, modes: Iterable[CrashMode] = tuple(CrashMode)
    ) -> list[tuple[list[CrashMode], "SimulatedDisk"]]:
        """Return what crashes leave, each disk with all modes that leave just it.

        Every mode draws from `seed` anew. What starts on equal disks ends alike: once is enough.
        """
        found: dict[object, tuple[list[CrashMode], SimulatedDisk]] = {}
        for mode in modes:
            left = self.crash_image(random.Random(seed), mode)
            # With changes that are not durable there are two planes, and no disk is alike.
            what = (
                id(left)
                if left._pending
                else tuple(
                    (path, inode.is_directory, bytes(inode.live))
                    for path, inode in sorted(left._live.items())
                )
            )
            found.setdefault(what, ([], left))[0].append(mode)
        return list(found.values())

    @property
    def pending_count(self) -> int:
        """Return how many changes a power cut could take back."""
        return len(self._pending)

    def make_cold(self) -> None:
        """Drop the page cache: a read of a file must wait once before others need not."""
        self._cold = set(self._live.values())

    def flip(self, path: str, position: int, mask: int = 0x01) -> None:
        """Rot: invert the bits of `mask` in one byte, on the disk and in what processes see."""
        inode = self._live[path]
        inode.live[position] ^= mask
        if position < len(inode.durable):
            inode.durable[position] ^= mask

    def content(self) -> dict[str, bytes]:
        """Return every file's live bytes by path."""
        return {p: bytes(inode.live) for p, inode in self._live.items() if not inode.is_directory}

    # --- for the files -------------------------------------------------------------------------

    def write(self, inode: Inode, path: str, start: int, data: bytes) -> None:
        """Write to the live plane, and remember each page as not yet durable."""
        with self._mutex:
            self.write_count += 1
            grown = start + len(data) - len(inode.live)
            if grown > self.free_bytes():
                self.faults["full"] += 1
                raise StoreFull(f"cannot write {path}: no room")
            is_failing = self.fail_write_from is not None
            if is_failing and self.write_count >= (self.fail_write_from or 0):
                self.faults["write"] += 1
                self._write_pages(inode, start, data[: len(data) // 2])
                raise WriteFailed(f"cannot write {path}: simulated")
            self._write_pages(inode, start, data)

    def _write_pages(self, inode: Inode, start: int, data: bytes) -> None:
        done = 0
        while done < len(data):
            at = start + done
            step = min(PAGE_BYTES - at % PAGE_BYTES, len(data) - done)
            change = Change(inode=inode, start=at, data=data[done : done + step])
            change.apply_to(inode.live)
            self._pending.append(change)
            done += step

    def resize(self, inode: Inode, path: str, size_bytes: int) -> None:
        """Make a file longer with zeros, or shorter."""
        with self._mutex:
            if size_bytes - len(inode.live) > self.free_bytes():
                self.faults["full"] += 1
                raise StoreFull(f"cannot allocate {path}: no room")
            change = Change(inode=inode, size_bytes=size_bytes)
            change.apply_to(inode.live)
            self._pending.append(change)

    def read(self, inode: Inode, path: str, start: int, target: memoryview, *, wait: bool) -> int:
        """Copy live bytes into `target`."""
        with self._mutex:
            if inode in self._cold:
                if not wait:
                    self.faults["cold"] += 1
                    raise NotCached(path)
                self._cold.discard(inode)
            found = inode.live[start : start + len(target)]
            target[: len(found)] = found
            return len(found)

    def data_from(self, inode: Inode, start: int) -> tuple[int, int] | None:
        """Return the next pages with anything in them: as a file system that keeps no zeros."""
        with self._mutex:
            found = _NOT_ZERO.search(inode.live, start)
            if found is None:
                return None
            first = max(start, found.start() - found.start() % PAGE_BYTES)
            stop = found.start() - found.start() % PAGE_BYTES + PAGE_BYTES
            while any(inode.live[stop : stop + PAGE_BYTES]):
                stop += PAGE_BYTES
            return first, min(stop, len(inode.live))

    def sync(self, inode: Inode, path: str) -> None:
        """Make a file's changes durable."""
        with self._mutex:
            mine = [change for change in self._pending if change.inode is inode]
            if self._sync_point(mine, path):
                self._settle(mine)

    # --- inside --------------------------------------------------------------------------------

    def _inodes(self) -> list[Inode]:
        pending = [inode for change in self._pending for inode in change.inodes()]
        return [*self._live.values(), *self._durable.values(), *pending]

    def _name(self, directory: str, *entries: tuple[str, Inode | None]) -> None:
        change = Change(directory=directory, entries=entries)
        change.apply_names(self._live)
        self._pending.append(change)

    def _sync_point(self, covered: list[Change], what: str) -> bool:
        """Count a sync; return whether it does what it says."""
        self.sync_count += 1
        if self.fail_sync_from is not None and self.sync_count >= self.fail_sync_from:
            self.faults["sync"] += 1
            for change in covered:
                change.is_given_up = change.inode is not None
            raise SyncFailed(f"cannot sync {what}: simulated")
        if self.cut_at_sync is not None and self.sync_count >= self.cut_at_sync:
            self.faults["lie"] += 1
            return False
        return True

    def _settle(self, covered: list[Change]) -> None:
        # A page is written whole: one that was given up gets there when any of it is new again.
        written = {change.page() for change in covered if not change.is_given_up}
        settled = [change for change in covered if change.page() in written]
        for change in settled:
            if change.inode is not None:
                change.apply_to(change.inode.durable)
            else:
                change.apply_names(self._durable)
        gone = set(map(id, settled))
        self._pending = [change for change in self._pending if id(change) not in gone]
