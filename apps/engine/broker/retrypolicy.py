"""When a failed message comes again, and when never more. Knows a group's settings and numbers."""

from apps.engine.errors import InvalidArgument
from apps.engine.retrydelays import FIRST_LEVEL, clamped_level, delay_ms, is_by_level, level_of
from apps.engine.types import GroupSpec

__all__ = [
    "DEAD_LETTER_LEVEL",
    "FIRST_LEVEL",
    "check_delay",
    "clamped_level",
    "delay_ms",
    "is_by_level",
    "is_over",
    "level_of",
]

# The level of a failure after which there is no retry.
DEAD_LETTER_LEVEL = -1


def is_over(spec: GroupSpec, failures: int) -> bool:
    """Say whether a message that has failed so many times gets no retry any more."""
    return spec.failures_max is not None and failures > spec.failures_max


def check_delay(delay_level: int | None, asked_ms: int | None, *, delay_ms_max: int) -> None:
    """Raise InvalidArgument for a delay of a failed message that nobody may ask for.

    Level 0 is what the group's policy says, as in RocketMQ, and -1 is no retry.
    """
    if delay_level is not None and asked_ms is not None:
        raise InvalidArgument("a delay is either a level or milliseconds")
    if delay_level is not None and delay_level < DEAD_LETTER_LEVEL:
        raise InvalidArgument(f"delay_level must be at least {DEAD_LETTER_LEVEL}")
    if asked_ms is not None and not 0 <= asked_ms <= delay_ms_max:
        raise InvalidArgument(f"delay_ms must be 0 to {delay_ms_max}, not {asked_ms}")


def check_put_off(delay_level: int | None, asked_ms: int | None, *, is_failure: bool) -> None:
    """Raise InvalidArgument where what is put off is not so for a time of its own."""
    if not is_failure and (asked_ms is None or delay_level is not None):
        raise InvalidArgument("what is put off is so for delay_ms")
