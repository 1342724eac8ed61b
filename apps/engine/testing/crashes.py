"""What a power cut may leave of changes that were not synced. Knows bytes and names, no disk."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

PAGE_BYTES = 4096
SECTOR_BYTES = 512


class CrashMode(StrEnum):
    """How a process or a machine dies, and what the next one finds."""

    NOTHING = "nothing"
    """Power cut; nothing unsynced survives."""
    EVERYTHING = "everything"
    """Kill -9; the page cache survives, and is still not on the disk."""
    PREFIX = "prefix"
    """Power cut; the changes reached the disk in order, up to one of them."""
    PAGES = "pages"
    """Power cut; any pages reached the disk, each up to one of its own writes."""
    ONE_MISSING = "one_missing"
    """Power cut; everything reached the disk but one page."""
    TORN = "torn"
    """Power cut; as `prefix`, and the last page is partly new, partly old or garbage."""
    METADATA = "metadata"
    """Power cut; names are undone from one on, file contents survive or do not."""


@dataclass(slots=True, eq=False)
class Inode:
    """One file's content in both planes, or a directory."""

    live: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    is_directory: bool = False

    def copy(self) -> "Inode":
        """Return a twin."""
        return Inode(bytearray(self.live), bytearray(self.durable), self.is_directory)


Names = dict[str, Inode]


@dataclass(slots=True, kw_only=True, eq=False)
class Change:
    """One change that is not durable: bytes of a page, a file's length, or names."""

    inode: Inode | None = None
    start: int = 0
    data: bytes = b""
    size_bytes: int | None = None
    directory: str | None = None
    entries: Sequence[tuple[str, Inode | None]] = ()
    is_given_up: bool = False
    """A sync of it failed: a later sync does not make it durable any more."""

    def apply_to(self, content: bytearray) -> None:
        """Carry out the change of a file."""
        end = self.start + len(self.data) if self.size_bytes is None else self.size_bytes
        content.extend(bytes(max(0, end - len(content))))
        if self.size_bytes is not None:
            del content[end:]
        else:
            content[self.start : end] = self.data

    def apply_names(self, names: Names) -> None:
        """Carry out the change of a directory."""
        for path, inode in self.entries:
            if inode is None:
                names.pop(path, None)
            else:
                names[path] = inode

    def inodes(self) -> Iterator[Inode]:
        """Iterate over the files it speaks of."""
        yield from (inode for _, inode in self.entries if inode is not None)
        if self.inode is not None:
            yield self.inode

    def moved(self, twins: dict[int, Inode]) -> "Change":
        """Return the same change of the files' twins."""
        entries = [(path, inode and twins[id(inode)]) for path, inode in self.entries]
        return replace(self, inode=self.inode and twins[id(self.inode)], entries=entries)

    def page(self) -> tuple[int, int]:
        """Return what tells the page from all others; a length counts as a page of its own."""
        return id(self.inode), self.start // PAGE_BYTES if self.size_bytes is None else -1


def image(
    durable: Names, pending: list[Change], rng: random.Random, mode: CrashMode, keep: int | None
) -> Names:
    """Return the files and directories a power cut leaves."""
    names = dict(durable)
    contents = {id(inode): bytearray(inode.durable) for inode in durable.values()}
    for change in _survivors(pending, rng, mode, keep):
        for inode in change.inodes():
            contents.setdefault(id(inode), bytearray(inode.durable))
        if change.inode is not None:
            change.apply_to(contents[id(change.inode)])
        else:
            change.apply_names(names)
    found: Names = {}
    for path in sorted(names):
        parent = path.rpartition("/")[0]
        # What was in a directory whose own name is lost cannot be found either.
        if not parent or parent in found:
            content = contents[id(names[path])]
            found[path] = Inode(content, bytearray(content), names[path].is_directory)
    return found


def _survivors(
    pending: list[Change], rng: random.Random, mode: CrashMode, keep: int | None
) -> list[Change]:
    match mode:
        case CrashMode.PREFIX:
            return pending[: rng.randint(0, len(pending)) if keep is None else keep]
        case CrashMode.ONE_MISSING:
            return _without_one_page(pending, rng, keep)
        case CrashMode.TORN:
            return _torn(pending, rng)
        case CrashMode.PAGES:
            return _some_pages(pending, rng)
        case CrashMode.METADATA:
            names = [change for change in pending if change.inode is None]
            kept = set(map(id, names[: rng.randint(0, max(0, len(names) - 1))]))
            has_data = rng.random() < 0.5
            return [c for c in pending if (has_data if c.inode is not None else id(c) in kept)]
        case _:
            return []


def _without_one_page(
    pending: list[Change], rng: random.Random, missing: int | None
) -> list[Change]:
    if not pending:
        return []
    lost = pending[rng.randrange(len(pending)) if missing is None else missing]
    if lost.inode is None:
        return pending[: pending.index(lost)]
    return [change for change in pending if change.page() != lost.page()]


def _some_pages(pending: list[Change], rng: random.Random) -> list[Change]:
    """Choose for each page how many of its writes reached the disk; names survive in order."""
    counts: dict[tuple[int, int], int] = {}
    for change in pending:
        counts[change.page()] = counts.get(change.page(), 0) + 1
    left = {page: rng.randint(0, count) for page, count in counts.items()}
    survivors = []
    for change in pending:
        if left[change.page()] > 0:
            left[change.page()] -= 1
            survivors.append(change)
    return survivors


def _torn(pending: list[Change], rng: random.Random) -> list[Change]:
    written = [number for number, change in enumerate(pending) if change.data]
    if not written:
        return list(pending)
    number = rng.choice(written)
    last = pending[number]
    # Sector borders inside the write, so that both sides are whole sectors of the file.
    first = (last.start // SECTOR_BYTES + 1) * SECTOR_BYTES - last.start
    borders = [0, *range(first, len(last.data), SECTOR_BYTES), len(last.data)]
    cut = rng.choice(borders)
    kind = rng.choice(["head", "tail", "garbage"])
    if kind == "head":
        torn = [replace(last, data=last.data[:cut])] if cut else []
    elif kind == "tail":
        torn = [replace(last, start=last.start + cut, data=last.data[cut:])]
    else:
        index = rng.randrange(len(borders) - 1)
        start, stop = borders[index], borders[index + 1]
        assert last.inode is not None
        before = last.inode.durable[last.start + start : last.start + stop]
        garbage = last.data[start:stop] if any(before) else rng.randbytes(stop - start)
        torn = [replace(last, data=last.data[:start] + garbage + last.data[stop:])]
    return [*pending[:number], *torn]
