"""How much memory answers hold that were read and are not sent yet. Knows arrays, not who has them.

Counted where it is taken and given back when the last reference to it goes, so that no way through
the doors can forget to.
"""

import threading
import weakref

import numpy as np
from numpy.typing import NDArray

# Counting costs two microseconds; smaller answers pay more for that than they weigh.
_COUNTED_BYTES_MIN = 16 * 1024


class HeldBytes:
    """Memory for answers. May be taken and given back in any thread."""

    def __init__(self, *, bytes_max: int) -> None:
        """Count up to `bytes_max` as room; what is taken beyond it is for readers to refuse."""
        self.bytes = 0
        self.bytes_max = bytes_max
        # The last reference may go anywhere, also inside of `take`.
        self._mutex = threading.RLock()

    @property
    def is_full(self) -> bool:
        """Say whether nothing more should be read for answers."""
        return self.bytes >= self.bytes_max

    def take(self, size_bytes: int) -> NDArray[np.uint8]:
        """Return uint8[size_bytes], counted for as long as it or a view of it is there."""
        # Not a bytearray: it would be filled with zeros first.
        array = np.empty(size_bytes, dtype=np.uint8)
        if size_bytes >= _COUNTED_BYTES_MIN:
            with self._mutex:
                self.bytes += size_bytes
            weakref.finalize(array, self._give_back, size_bytes).atexit = False
        return array

    def _give_back(self, size_bytes: int) -> None:
        with self._mutex:
            self.bytes -= size_bytes
