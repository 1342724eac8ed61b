"""Give a log its length back where segments are missing or short. Knows names and lengths only."""

from apps.engine.errors import EngineError
from apps.engine.files.backend import Disk
from apps.engine.log.checkpoint import load_checkpoint
from apps.engine.log.identity import Identity
from apps.engine.log.opening import DIRECTORY
from apps.engine.log.retained import load_retained


def fill_missing(disk: Disk, identity: Identity) -> list[int]:
    """Make every segment that must be there and is not; return their log offsets.

    Those between others, and those that the checkpoint of the log names. A short one is made
    longer, and keeps what it has. A segment gets its name when it is whole on the disk, so a crash
    leaves some of them made. Raises StoreFull, WriteFailed or SyncFailed.
    """
    size_bytes = identity.segment_bytes
    known = {int(name) for name in disk.names(DIRECTORY) if name.isdigit()}
    wanted = known | _promised(disk, size_bytes)
    # What retention has deleted is not missing.
    log_start = load_retained(disk).log_start
    first = max(min(wanted, default=0), log_start - log_start % size_bytes)
    bases = range(first, max(wanted) + 1, size_bytes) if wanted else range(0)
    missing = []
    for base in bases:
        path = f"{DIRECTORY}/{base:020d}"
        if base in known:
            _lengthen(disk, path, size_bytes)
            continue
        _make(disk, path, size_bytes)
        missing.append(base)
    return missing


def _promised(disk: Disk, size_bytes: int) -> set[int]:
    try:
        checkpoint = load_checkpoint(disk)
    except EngineError:
        return set()  # The segments that are there say how far the log goes.
    if checkpoint is None:
        return set()
    return {
        offset - offset % size_bytes for offset in (checkpoint.log_start, checkpoint.synced_offset)
    }


def _lengthen(disk: Disk, path: str, size_bytes: int) -> None:
    file = disk.open(path)
    try:
        if file.size() < size_bytes:
            file.allocate(size_bytes)
            file.sync()
    finally:
        file.close()


def _make(disk: Disk, path: str, size_bytes: int) -> None:
    file = disk.open(f"{path}.new", create=True)
    try:
        file.allocate(size_bytes)
        file.sync()
    finally:
        file.close()
    disk.rename(f"{path}.new", path)
    disk.sync_directory(DIRECTORY)
