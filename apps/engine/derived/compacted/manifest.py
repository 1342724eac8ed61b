"""Which file of kept messages counts, queue by queue. Knows small files and names.

A manifest is replaced whole once its file is on the disk, so a crash leaves the generation before
or this one. Where it is lost, or names a file that is not there, the newest whole file is as good:
it had its name only when it was finished. So what is to be removed is disowned first.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from apps.engine.derived.compacted import layout
from apps.engine.errors import StoreDamaged
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk

_log = logging.getLogger(__name__)
_NAME = "manifest"
# No file counts, whichever are there: they are being removed. A file's generation is at least 1.
_NO_GENERATION = 0
# What a file is renamed to that was found damaged, once another one counts.
ASIDE = ".damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPlace:
    """The generation that counts for one queue, and when it was written, wall time."""

    topic: str
    queue: int
    generation: int
    written_ms: int = 0


def store_place(disk: Disk, place: PartPlace, *, failpoints: Failpoints) -> None:
    """Let a generation count, on the disk when this returns. Raises as `atomic.replace` does."""
    path = f"{layout.directory(place.topic, place.queue)}/{_NAME}"
    content: dict[str, object] = {
        "topic": place.topic,
        "queue": place.queue,
        "generation": place.generation,
        "written_ms": place.written_ms,
    }
    atomic.replace(disk, path, content, failpoints=failpoints)


def remove_place(disk: Disk, topic: str, queue: int, *, failpoints: Failpoints) -> None:
    """Let no generation count, and remove all files; on the disk when this returns.

    Raises as `atomic.replace` does.
    """
    directory = layout.directory(topic, queue)
    nothing = PartPlace(topic=topic, queue=queue, generation=_NO_GENERATION)
    store_place(disk, nothing, failpoints=failpoints)
    for name in disk.names(directory):
        if name != _NAME:
            disk.remove(f"{directory}/{name}")
    disk.sync_directory(directory)
    disk.remove(f"{directory}/{_NAME}")


def load_place(disk: Disk, directory: str) -> PartPlace | None:
    """Return what a directory's manifest says; None without one.

    Raises StoreDamaged or UnknownFormat.
    """
    content = atomic.load(disk, f"{directory}/{_NAME}")
    if content is None:
        return None
    try:
        return PartPlace(
            topic=str(content["topic"]),
            queue=int(content["queue"]),
            generation=int(content["generation"]),
            written_ms=int(content["written_ms"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreDamaged(f"{directory}/{_NAME} holds something else than a place") from error


def directories(disk: Disk) -> Iterator[str]:
    """Iterate over the directories of queues that have kept messages."""
    for topic in disk.names(layout.DIRECTORY):
        for queue in disk.names(f"{layout.DIRECTORY}/{topic}"):
            yield f"{layout.DIRECTORY}/{topic}/{queue}"


def places(disk: Disk) -> Iterator[PartPlace]:
    """Iterate over the generations that count. Raises UnknownFormat."""
    for directory in directories(disk):
        place = counting(disk, directory)
        if place is not None:
            yield place


def counting(disk: Disk, directory: str) -> PartPlace | None:
    """Return the generation that counts; None where none does. Raises UnknownFormat."""
    try:
        place = load_place(disk, directory)
    except StoreDamaged as error:
        _log.error("compaction_manifest_damaged", extra={"reason": str(error)})
        return _newest(disk, directory)
    if place is None:
        # A crash before the first one leaves this too, and that file is as good.
        return _newest(disk, directory)
    if place.generation == _NO_GENERATION:
        return None
    if f"{place.generation:020d}" in disk.names(directory):
        return place
    reason = f"{directory}/{_NAME} names generation {place.generation}, which is not there"
    _log.error("compaction_manifest_damaged", extra={"reason": reason})
    return _newest(disk, directory) or place


def leftovers(disk: Disk, directory: str, generation: int) -> list[str]:
    """Return the paths of files that do not count: of crashes, and of what was replaced.

    What was put aside is none of them.
    """
    kept = {_NAME, f"{generation:020d}"}
    names = [name for name in disk.names(directory) if name not in kept]
    return [f"{directory}/{name}" for name in names if not name.endswith(ASIDE)]


def _newest(disk: Disk, directory: str) -> PartPlace | None:
    names = [name for name in disk.names(directory) if name.isdecimal()]
    for name in reversed(names):
        place = _own_place(disk, f"{directory}/{name}", int(name))
        if place is not None:
            return place
    return None


def _own_place(disk: Disk, path: str, generation: int) -> PartPlace | None:
    """Return the queue a file says it is of; None where it says nothing that can be read."""
    file = disk.open(path)
    try:
        trailer = bytearray(layout.TRAILER.size)
        file.read_into(max(0, file.size() - layout.TRAILER.size), memoryview(trailer))
        start, length = layout.TRAILER.unpack(trailer)[7:9]
        index = bytearray(min(length, layout.PLACE.size + 255))
        file.read_into(max(0, start), memoryview(index))
    finally:
        file.close()
    if len(index) < layout.PLACE.size:
        return None
    queue, name_bytes, _ = layout.PLACE.unpack_from(index)
    name = bytes(index[layout.PLACE.size : layout.PLACE.size + name_bytes])
    return PartPlace(topic=name.decode("utf-8", "replace"), queue=queue, generation=generation)
