"""What becomes of a client's batches before they are written: stored as they are, or delayed.

Knows the ways a batch may go, and the one that is chosen by its properties.
"""

from collections.abc import Callable, Sequence

from apps.engine.broker.produce import CheckedBatch
from apps.engine.errors import MalformedBatch, Unsupported
from apps.engine.types import Appended, Special


class Routed:
    """Where a client's batch goes: `parts` are written, in one frame, and `answer` says so.

    `answer` is given where the parts went, in order.
    """

    __slots__ = ("answer", "parts")

    def __init__(
        self, parts: Sequence[CheckedBatch], answer: Callable[[Sequence[Appended]], Appended]
    ) -> None:
        """Keep both."""
        self.parts = parts
        self.answer = answer


class Intake:
    """Routes batches by what is special about them.

    `delay` makes of a delayed batch what is stored instead; None where there are no delays.
    """

    def __init__(self, *, delay: Callable[[CheckedBatch], Routed] | None = None) -> None:
        """Bind to a store's ways."""
        self._delay = delay

    def route(self, batches: Sequence[CheckedBatch]) -> list[Routed]:
        """Return the way of each batch. Raises what the ways raise, with nothing changed."""
        return [self._route(batch) for batch in batches]

    def _route(self, batch: CheckedBatch) -> Routed:
        if Special.TRANSACTION in batch.special:
            raise MalformedBatch("a half message is begun as a transaction, not sent")
        if Special.DELAY not in batch.special:
            return Routed([batch], _only)
        if self._delay is None:
            raise Unsupported("this store has no delays")
        return self._delay(batch)


def _only(appended: Sequence[Appended]) -> Appended:
    (one,) = appended
    return one
