"""What the operating system's refusals mean to a store. Knows error numbers, touches no file."""

import errno

from apps.engine.errors import OutOfMeans, StoreDamaged, StoreFull, SyncFailed, WriteFailed

# EFBIG is what a process sees past RLIMIT_FSIZE: room that is not there, whoever set the limit.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

# No more descriptors, of the process or the system, or no memory: nothing is wrong with the disk.
_NO_MEANS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def open_refusal(error: OSError, what: str) -> OutOfMeans | StoreFull | WriteFailed:
    """Return the engine error for a file that cannot be opened; nothing has changed yet."""
    if error.errno in _NO_MEANS:
        return OutOfMeans(f"{what}: {error.strerror or error}")
    return write_refusal(error, what)


def read_refusal(error: OSError, what: str) -> OutOfMeans | StoreDamaged:
    """Return the engine error for a refused read: OutOfMeans where memory lacks, else damage."""
    kind = OutOfMeans if error.errno in _NO_MEANS else StoreDamaged
    return kind(f"{what}: {error}")


def write_refusal(error: OSError, what: str) -> StoreFull | WriteFailed:
    """Return the engine error for a refused write: StoreFull for want of room, else WriteFailed."""
    kind = StoreFull if error.errno in _NO_ROOM else WriteFailed
    return kind(f"{what}: {error.strerror or error}")


def sync_refusal(error: OSError, what: str) -> SyncFailed:
    """Return the engine error for a refused sync."""
    return SyncFailed(f"{what}: {error.strerror or error}")
