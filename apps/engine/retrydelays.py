"""How long a failed message waits before it comes again. Knows a group's settings and numbers.

Doors tell their clients by it what the engine does.
"""

from collections.abc import Sequence

from apps.engine.failuretypes import RetryPolicy
from apps.engine.types import GroupSpec

# RocketMQ's: the first retry waits as long as level 3.
FIRST_LEVEL = 3
_EXPONENTIAL_FIRST_MS = 5_000
_EXPONENTIAL_MAX_MS = 7_200_000
# From here on the doubled delay is over its maximum anyway.
_DOUBLINGS_MAX = 16


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
