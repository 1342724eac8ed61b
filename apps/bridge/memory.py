"""How the broker process keeps memory. Knows the C library's allocator, nothing of the engine."""

import ctypes

# Parameters of glibc's mallopt(3).
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# Every batch and answer is a buffer of up to some megabytes. By default each would be mapped,
# touched page by page for the first time, and given back: more work than what is done with it.
_KEPT_BYTES = 64 * 1024 * 1024


def keep_buffers() -> bool:
    """Let freed buffers be used again instead of going back to the system; False without glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    # The larger threshold is refused above glibc's own maximum; its default then stays.
    return bool(
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES // 2) and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    )
