"""What becomes of a client's batches before they are written: stored as they are, or delayed.

Knows the ways a batch may go, and the one that is chosen by its properties.
"""

from collections.abc import Callable, Sequence

from apps.engine.broker.produce import CheckedBatch
from apps.engine.errors import MalformedBatch
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


def answers_of(routed: Sequence[Routed], stored: Sequence[Appended]) -> list[Appended]:
    """Return the answer to each batch, given where the parts of all went, in order."""
    each = iter(stored)
    return [way.answer([next(each) for _ in way.parts]) for way in routed]


class Intake:
    """Routes batches by what is special about them."""

    def __init__(self, delay: Callable[[CheckedBatch], Routed]) -> None:
        """Bind to a store; `delay` makes of a delayed batch what is stored instead."""
        self._delay = delay

    def route(self, batches: Sequence[CheckedBatch]) -> list[Routed]:
        """Return the way of each batch. Raises what the ways raise, with nothing changed."""
        return [self._route(batch) for batch in batches]

    def _route(self, batch: CheckedBatch) -> Routed:
        if Special.TRANSACTION in batch.special:
            raise MalformedBatch("a half message is begun as a transaction, not sent")
        if Special.DELAY not in batch.special:
            return Routed([batch], _only)
        return self._delay(batch)


def _only(appended: Sequence[Appended]) -> Appended:
    (one,) = appended
    return one
