"""What the store of waiting messages asks of the one who knows which of them wait no more."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Ends(Protocol):
    """Numbers of messages that were delivered or cancelled."""

    @property
    def floor_number(self) -> int:
        """All messages below have ended that are due at `floor_due_ms` or before."""
        ...

    @property
    def floor_due_ms(self) -> int:
        """See `floor_number`."""
        ...

    def is_done(self, numbers: NDArray[np.int64], due_ms: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of each message whether it waits no more: bool[n]."""
        ...

    def delivered_until_ms(self) -> int:
        """Return the due time of the last that was delivered in order, as far as known."""
        ...

    def apart_due_ms(self) -> NDArray[np.int64]:
        """Return the due times, ascending, of those that were ended before their time."""
        ...

    def held_ms_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return by how much each message is held back after the clock jumped: int64[n]."""
        ...

    def frozen(self) -> "Ends":
        """Return a copy that does not change, for a thread."""
        ...
