"""Slots of time: how long they are, how long they are kept, which of them answer a question.

Pure: takes times as values. A slot is named by its beginning, a multiple of its length since 1970.
"""

from dataclasses import dataclass

_HOUR_S = 3600
_DAY_S = 24 * _HOUR_S

# What an answer holds when the caller leaves the resolution to us, and the most it holds at all:
# every slot of an hour that is kept.
POINTS_WANTED = 1_000
POINTS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """Slots of one length, and how long their rows are kept."""

    seconds: int
    kept_s: int

    @property
    def ms(self) -> int:
        """Return the length of a slot in milliseconds."""
        return self.seconds * 1000

    def slot_ms(self, at_ms: int) -> int:
        """Return the beginning of the slot a moment lies in."""
        return at_ms - at_ms % self.ms

    def kept_from_ms(self, now_ms: int) -> int:
        """Return the moment before which rows are old."""
        return now_ms - self.kept_s * 1000


FINE = Resolution(seconds=5, kept_s=2 * _HOUR_S)
MINUTE = Resolution(seconds=60, kept_s=7 * _DAY_S)
HOUR = Resolution(seconds=_HOUR_S, kept_s=400 * _DAY_S)

RESOLUTIONS = (FINE, MINUTE, HOUR)

assert HOUR.kept_s // HOUR.seconds <= POINTS_MAX


def best_resolution(*, from_ms: int, to_ms: int, now_ms: int) -> Resolution:
    """Return the finest resolution that is still kept and answers in POINTS_WANTED points.

    Where none does, the coarsest.
    """
    for resolution in RESOLUTIONS:
        is_kept = from_ms >= resolution.kept_from_ms(now_ms)
        if is_kept and to_ms - from_ms <= POINTS_WANTED * resolution.ms:
            return resolution
    return RESOLUTIONS[-1]
