"""Exit codes of the product's processes: what the supervisor and a person may conclude."""

from enum import IntEnum


class Exit(IntEnum):
    """Why a process ended. Anything else is a crash, and the supervisor starts it again."""

    OK = 0
    """Asked to stop, and stopped."""
    FAILED = 1
    """Something unforeseen; the log says what."""
    REFUSED = 2
    """Settings, flags or the address are wrong; starting again cannot help."""
    HELD = 3
    """Another process owns the store or the data directory."""
    FATAL = 4
    """The engine could not trust the disk any more; a start recovers."""
    UNOPENABLE = 5
    """The store cannot be opened and a person must look; nothing was changed."""


# The supervisor gives up at once on these: the next start would end the same way.
FINAL = frozenset({Exit.REFUSED, Exit.HELD, Exit.UNOPENABLE})
