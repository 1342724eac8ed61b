"""Half messages that are undecided, and how the last ones ended. Knows offsets and times.

Ages are counted on the monotonic clock; the wall clock only carries them over a restart, as it does
for leases, and one that was set back then makes them younger: nobody is asked too early.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apps.engine.broker.careevents import (
    GivenUpSent,
    HalfChecked,
    HalfEnded,
    HalfStored,
    TransactionEvent,
)
from apps.engine.clock import Clock
from apps.engine.transactiontypes import Outcome

# Decisions that are remembered, so that one made twice is told from one that is new.
_REMEMBERED = 65_536


@dataclass(slots=True, kw_only=True)
class Half:
    """An undecided half message. `checked_ms` is its last check, or 0; both are wall times.

    `begun_at_ms` and `checked_at_ms` are the same moments on the monotonic clock.
    """

    half_offset: int
    epoch: int
    producer_group: str
    immunity_ms: int
    begun_ms: int
    begun_at_ms: int
    checks: int = 0
    checked_ms: int = 0
    checked_at_ms: int = 0
    client_id: str = ""
    is_hurried: bool = False


class TransactionState:
    """Undecided half messages by offset, in order, and the decisions on the last others.

    `sent` are given-up messages, by their offset among those, that a person sent after all, with
    the wall time of that. They are few, and remembered as long as the store: none is sent twice.
    """

    def __init__(self, clock: Clock) -> None:
        """Start with none."""
        self._clock = clock
        self.pending: dict[int, Half] = {}
        self.decided: OrderedDict[int, tuple[int, HalfEnded]] = OrderedDict()
        self.sent: dict[int, tuple[int, GivenUpSent]] = {}

    def apply(self, event: TransactionEvent, *, at_ms: int) -> None:
        """Carry out an event that was made at a wall time."""
        match event:
            case HalfStored():
                self.pending[event.half_offset] = Half(
                    half_offset=event.half_offset,
                    epoch=event.epoch,
                    producer_group=event.producer_group,
                    immunity_ms=event.immunity_ms,
                    begun_ms=at_ms,
                    begun_at_ms=self._monotonic_ms(at_ms),
                )
            case HalfChecked():
                half = self.pending.get(event.half_offset)
                if half is not None:
                    half.is_hurried = not event.client_id
                    if event.client_id:
                        half.checks += 1
                        half.checked_ms = at_ms
                        half.checked_at_ms = self._monotonic_ms(at_ms)
                        half.client_id = event.client_id
            case HalfEnded():
                half = self.pending.pop(event.half_offset, None)
                if half is not None:
                    self.decided[event.half_offset] = (half.epoch, event)
                    if len(self.decided) > _REMEMBERED:
                        self.decided.popitem(last=False)

            case GivenUpSent():
                self.sent[event.given_up_offset] = (at_ms, event)

    def _monotonic_ms(self, at_ms: int) -> int:
        """Return a wall time of the past on the monotonic clock; one yet to come counts as now."""
        return self._clock.monotonic_ms() - max(0, self._clock.wall_ms() - at_ms)

    def dump(self) -> dict[str, object]:
        """Return everything as plain values, for the checkpoint."""
        return {
            "pending": [
                [
                    *(half.half_offset, half.epoch, half.producer_group, half.immunity_ms),
                    *(half.begun_ms, half.checks, half.checked_ms, half.client_id),
                    half.is_hurried,
                ]
                for half in self.pending.values()
            ],
            "decided": [
                [epoch, e.half_offset, e.outcome.value, e.by, e.topic, e.queue, e.queue_offset]
                for epoch, e in self.decided.values()
            ],
            "sent": [
                [at_ms, e.given_up_offset, e.by, e.topic, e.queue, e.queue_offset]
                for at_ms, e in self.sent.values()
            ],
        }

    def load(self, content: dict[str, Iterable[Any]]) -> None:
        """Take up what `dump` gave. Raises KeyError, TypeError or ValueError for anything else."""
        for row in content["pending"]:
            half_offset, epoch, group, immunity_ms, begun_ms, checks, checked_ms, *last = row
            client_id, is_hurried = last
            self.pending[half_offset] = Half(
                half_offset=half_offset,
                epoch=epoch,
                producer_group=group,
                immunity_ms=immunity_ms,
                begun_ms=begun_ms,
                begun_at_ms=self._monotonic_ms(begun_ms),
                checks=checks,
                checked_ms=checked_ms,
                checked_at_ms=self._monotonic_ms(checked_ms),
                client_id=client_id,
                is_hurried=is_hurried,
            )
        for epoch, half_offset, outcome, by, topic, queue, queue_offset in content["decided"]:
            ended = HalfEnded(
                half_offset=half_offset,
                outcome=Outcome(outcome),
                by=by,
                topic=topic,
                queue=queue,
                queue_offset=queue_offset,
            )
            self.decided[half_offset] = (epoch, ended)
        # A checkpoint from before such were sent has none.
        for at_ms, given_up_offset, by, topic, queue, queue_offset in content.get("sent", ()):
            sent = GivenUpSent(
                given_up_offset=given_up_offset,
                by=by,
                topic=topic,
                queue=queue,
                queue_offset=queue_offset,
            )
            self.sent[given_up_offset] = (at_ms, sent)
