"""What the operating system's refusals mean to a store. Knows error numbers, touches no file."""

import errno

from apps.engine.errors import StoreFull, SyncFailed, WriteFailed

# EFBIG is what a process sees past RLIMIT_FSIZE: room that is not there, whoever set the limit.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def write_refusal(error: OSError, what: str) -> StoreFull | WriteFailed:
    """Return the engine error for a refused write: StoreFull for want of room, else WriteFailed."""
    kind = StoreFull if error.errno in _NO_ROOM else WriteFailed
    return kind(f"{what}: {error.strerror or error}")


def sync_refusal(error: OSError, what: str) -> SyncFailed:
    """Return the engine error for a refused sync."""
    return SyncFailed(f"{what}: {error.strerror or error}")
