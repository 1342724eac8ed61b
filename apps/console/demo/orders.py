"""Orders and their steps, and the check that steps arrive in order. Pure: no queue, clock, thread.

Every order is created, then paid, then shipped. Its number is the sharding key, so its steps share
a queue, and each group must see them in that order.
"""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

# Enough orders under way that a tick rarely wants one twice.
OPEN_MAX = 300
# A message may come again long after its order is done; beyond this it would look out of order.
REMEMBERED_MAX = 100_000

assert OPEN_MAX < REMEMBERED_MAX


class Step(IntEnum):
    """What happens to an order, in order."""

    CREATED = 0
    PAID = 1
    SHIPPED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderEvent:
    """One step of one order. `run` tells this demonstration from earlier ones on the same store."""

    run: str
    order: int
    step: Step

    @property
    def key(self) -> str:
        """Return the sharding key: one for each order."""
        return f"{self.run}-{self.order}"

    @property
    def tag(self) -> str:
        """Return the message's tag: the step in lower case."""
        return self.step.name.lower()

    def encode(self) -> bytes:
        """Return the message body."""
        return json.dumps({"run": self.run, "order": self.order, "step": self.tag}).encode()

    @classmethod
    def decode(cls, body: bytes) -> "OrderEvent":
        """Read a message body; raises ValueError for anything that is no event of an order."""
        document = json.loads(body)
        if not isinstance(document, Mapping):
            raise ValueError("an order event is an object")
        try:
            run, order, step = document["run"], document["order"], Step[document["step"].upper()]
        except (KeyError, AttributeError) as error:
            raise ValueError(f"no order event: {error!r}") from error
        if not isinstance(run, str) or not isinstance(order, int):
            raise ValueError("run is a text and order a number")
        return cls(run=run, order=order, step=step)


class Shop:
    """Takes orders and moves them along; its events of one order are always in order."""

    def __init__(self, *, run: str, dice: random.Random) -> None:
        self._run = run
        self._dice = dice
        self._orders_taken = 0
        self._open: dict[int, Step] = {}

    def events(self, count: int) -> list[OrderEvent]:
        """Return at most `count` events, no two of one order, so that any may be sent again."""
        moved = self._dice.sample(sorted(self._open), k=min(len(self._open), round(count * 2 / 3)))
        found = [self._move(order) for order in moved]
        while len(found) < count and len(self._open) < OPEN_MAX:
            found.append(self._take())
        return found

    def _take(self) -> OrderEvent:
        self._orders_taken += 1
        self._open[self._orders_taken] = Step.CREATED
        return self._event(self._orders_taken, Step.CREATED)

    def _move(self, order: int) -> OrderEvent:
        step = Step(self._open[order] + 1)
        if step is Step.SHIPPED:
            del self._open[order]
        else:
            self._open[order] = step
        return self._event(order, step)

    def _event(self, order: int, step: Step) -> OrderEvent:
        return OrderEvent(run=self._run, order=order, step=step)


class Verdict(StrEnum):
    """What a message is to the group that got it."""

    IN_ORDER = "in order"
    DUPLICATE = "duplicate"
    OUT_OF_ORDER = "out of order"
    FOREIGN = "foreign"


class Ledger:
    """What one group has seen of each order, and what it counted."""

    def __init__(self, *, run: str) -> None:
        self.counts = dict.fromkeys(Verdict, 0)
        self._run = run
        self._last_steps: dict[int, Step] = {}

    def note(self, body: bytes) -> Verdict:
        """Judge a message and count it.

        In order is the step after the last one seen. An earlier or equal one is a duplicate, which
        delivery at least once allows; a later one means that a step was lost or overtaken. What is
        no event of this run is foreign.
        """
        verdict = self._judge(body)
        self.counts[verdict] += 1
        return verdict

    def _judge(self, body: bytes) -> Verdict:
        try:
            event = OrderEvent.decode(body)
        except ValueError:
            return Verdict.FOREIGN
        if event.run != self._run:
            return Verdict.FOREIGN
        last = self._last_steps.get(event.order, -1)
        if event.step <= last:
            return Verdict.DUPLICATE
        self._remember(event)
        return Verdict.IN_ORDER if event.step == last + 1 else Verdict.OUT_OF_ORDER

    def _remember(self, event: OrderEvent) -> None:
        self._last_steps[event.order] = event.step
        if len(self._last_steps) > REMEMBERED_MAX:
            del self._last_steps[next(iter(self._last_steps))]
