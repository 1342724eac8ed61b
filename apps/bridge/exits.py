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
    """The store cannot be opened and a person must look; what was written is as it was."""
    LACKING = 6
    """What this command needs is not installed, as Java or PySpark; all others do without."""
    RUN_FAILED = 7
    """`spark_job`: the run failed; its row and its log say why."""
    RUN_CANCELLED = 8
    """`spark_job`: the run was called off."""
    RUN_INTERRUPTED = 9
    """`spark_job`: the run was cut off, by a signal or by the end of its worker."""
    DAMAGED_FILES = 10
    """`verifystore`: a small file that a store cannot be opened without is damaged."""
    DAMAGED_LOG = 11
    """`verifystore`: the log is damaged, at a place that may be in quarantine already."""
    DAMAGED_QUEUES = 12
    """`verifystore`: consume queues do not agree with the log; they are made anew from it."""
    DAMAGED_TIMERS = 13
    """`verifystore`: runs of delayed messages are damaged; they are made anew from the log."""
    DAMAGED_STATE = 14
    """`verifystore`: consumer state does not agree with the log."""
    DAMAGED_CATALOG = 15
    """`verifystore`: the catalog is damaged; it is published anew from the database."""
    DAMAGED_INDEX = 16
    """`verifystore`: the key index is not what was written; it is made anew from the log."""
    DAMAGED_COMPACTED = 17
    """`verifystore`: kept messages of a compacted topic are damaged; nothing makes them anew."""

    DAMAGED_AUDIT = 18
    """`verifyaudit`: the chain of the audit log is broken, or entries are missing from its end."""


# The supervisor gives up at once on these: the next start would end the same way.
FINAL = frozenset({Exit.REFUSED, Exit.HELD, Exit.UNOPENABLE})
