"""Numbers that only grow, also over restarts: generations and lock epochs. Knows the store's epoch.

A fence is `store epoch << 32 | n`. Every start has a higher store epoch, so a fence that a power
cut took back is never made again, and nothing about fences has to be kept.
"""

# Fences travel as JSON integers, which are exact up to here.
FENCE_MAX = 2**53 - 1
_COUNT_BITS = 32


class Fences:
    """Makes the fences of one run of the store."""

    def __init__(self, store_epoch: int) -> None:
        """Begin above every fence of the epochs before."""
        self.first = (store_epoch << _COUNT_BITS) + 1
        self._last = self.first - 1

    def next(self) -> int:
        """Return a fence higher than any before it."""
        self._last += 1
        assert self._last <= FENCE_MAX
        return self._last
