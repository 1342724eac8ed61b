"""How the fence of a lock is written. Pure."""


def fence_text(fence: int) -> str:
    """Return a fence as the store's epoch and the number within it, as in `3.17`."""
    return f"{fence >> 32}.{fence & 0xFFFF_FFFF}"
