"""When a failed message comes again, and when never more. Knows a group's settings and numbers."""

from collections.abc import Sequence

from apps.engine.errors import InvalidArgument
from apps.engine.failuretypes import RetryPolicy
from apps.engine.types import GroupSpec

# RocketMQ's: the first retry waits as long as level 3.
FIRST_LEVEL = 3
# The level of a failure after which there is no retry.
DEAD_LETTER_LEVEL = -1
_EXPONENTIAL_FIRST_MS = 5_000
_EXPONENTIAL_MAX_MS = 7_200_000
# From here on the doubled delay is over its maximum anyway.
_DOUBLINGS_MAX = 16


def is_over(spec: GroupSpec, failures: int) -> bool:
    """Say whether a message that has failed so many times gets no retry any more."""
    return spec.failures_max is not None and failures > spec.failures_max


def level_of(failures_before: int, levels_ms: Sequence[int]) -> int:
    """Return the level after a failure that so many others came before; the last one repeats."""
    return clamped_level(FIRST_LEVEL + failures_before, levels_ms)


def clamped_level(level: int, levels_ms: Sequence[int]) -> int:
    """Return the level, or the highest there is where it is above that."""
    return min(level, len(levels_ms))


def delay_ms(spec: GroupSpec, failures_before: int, levels_ms: Sequence[int]) -> int:
    """Return how long a message waits after a failure that so many others came before.

    A list of a group's own that is empty counts as RocketMQ's levels.
    """
    if spec.retry_policy is RetryPolicy.EXPONENTIAL:
        doubled = _EXPONENTIAL_FIRST_MS << min(failures_before, _DOUBLINGS_MAX)
        return min(doubled, _EXPONENTIAL_MAX_MS)
    if is_by_level(spec):
        return levels_ms[level_of(failures_before, levels_ms) - 1]
    delays = spec.retry_delays_ms
    return delays[min(failures_before, len(delays) - 1)]


def is_by_level(spec: GroupSpec) -> bool:
    """Say whether the group's retries wait in delay levels."""
    if spec.retry_policy is RetryPolicy.CUSTOM:
        return not spec.retry_delays_ms
    return spec.retry_policy is RetryPolicy.LEVELS


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
