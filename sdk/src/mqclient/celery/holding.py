"""What a consumer has been handed, and what is due for it: settling and extending.

Knows leases and times; no threads, sockets or kombu. The caller's lock guards it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice

from mqclient.celery.messages import Document
from mqclient.limits import HANDLES_MAX
from mqclient.wire.records import Message

# In a message that was stored anew: it was handed out before.
AGAIN = "CELERY_AGAIN"
# Acknowledgements that come close together share a request.
LINGER_S = 0.005
# A lease is extended when a third of it is over: two tries may fail before the last.
_EXTENSIONS = 3


@dataclass(slots=True, eq=False)
class Held:
    """A message of a lane that is this consumer's until it is settled.

    `is_lost` says that its time was over before it was settled: the next receiver has it.
    """

    record: Message
    lane: str
    document: Document
    is_lost: bool = False

    @property
    def is_redelivered(self) -> bool:
        """Tell whether the message was handed out before."""
        return (self.record.delivery_attempt or 1) > 1 or AGAIN in self.record.properties


class Verb(Enum):
    """What a step asks the broker for."""

    ACK = auto()
    GIVE_BACK = auto()
    EXTEND = auto()


@dataclass(frozen=True, slots=True)
class Step:
    """One request's worth of settling or extending."""

    verb: Verb
    items: list[Held]


class Holdings:
    """Messages held, and the steps that are due for them, one after the other.

    A step must be done before the next is taken: an extension gives new handles, and settling
    needs the newest.
    """

    def __init__(self, *, visibility_s: float) -> None:
        """Hold nothing yet; leases last `visibility_s`."""
        self._pace_s = visibility_s / _EXTENSIONS
        # In the order of the times, because all leases last equally long.
        self._due_s: dict[Held, float] = {}
        self._acks: list[Held] = []
        self._returns: list[Held] = []
        self._settle_s = 0.0
        self._failed: Verb | None = None

    @property
    def has_unsettled_work(self) -> bool:
        """Tell whether an acknowledgement or a return waits to be sent."""
        return bool(self._acks or self._returns)

    def hold(self, items: Iterable[Held], now_s: float) -> None:
        """Take over messages whose leases begin now."""
        for item in items:
            self._due_s[item] = now_s + self._pace_s

    def ack(self, item: Held, now_s: float) -> None:
        """Have a message settled for good soon."""
        self._release(item, now_s)
        self._acks.append(item)

    def give_back(self, items: Iterable[Held], now_s: float) -> None:
        """Have messages handed to the next receiver soon."""
        for item in items:
            self._release(item, now_s)
            self._returns.append(item)

    def next_step(self, now_s: float, *, in_haste: bool = False) -> Step | None:
        """Return what to do now, None when nothing is due; `in_haste` nothing lingers."""
        verbs = self._due_verbs(now_s, in_haste=in_haste)
        if not verbs:
            return None
        # What failed must not keep everything else from being done.
        verb = next((one for one in verbs if one is not self._failed), verbs[0])
        if verb is Verb.EXTEND:
            return Step(verb, self._due(now_s))
        return Step(verb, _cut(self._acks if verb is Verb.ACK else self._returns))

    def wait_s(self, now_s: float) -> float | None:
        """Return in how many seconds the next step is due, None for not before an event."""
        moments_s = [self._settle_s] if self.has_unsettled_work else []
        moments_s += islice(self._due_s.values(), 1)
        return max(0.0, min(moments_s) - now_s) if moments_s else None

    def done(self, step: Step, now_s: float) -> None:
        """Take note of a step carried out: an extension's leases begin anew.

        What was lost or settled meanwhile is held no more.
        """
        self._failed = None
        if step.verb is Verb.EXTEND:
            for item in step.items:
                if self._due_s.pop(item, None) is not None and not item.is_lost:
                    self._due_s[item] = now_s + self._pace_s

    def put_back(self, step: Step) -> None:
        """Have a step that failed carried out again, before what came after it of its kind."""
        self._failed = step.verb
        if step.verb is Verb.ACK:
            self._acks[:0] = step.items
        elif step.verb is Verb.GIVE_BACK:
            self._returns[:0] = step.items

    def _due_verbs(self, now_s: float, *, in_haste: bool) -> list[Verb]:
        verbs = []
        if (
            in_haste
            or now_s >= self._settle_s
            or len(self._acks) + len(self._returns) >= HANDLES_MAX
        ):
            verbs += [Verb.ACK] if self._acks else []
            verbs += [Verb.GIVE_BACK] if self._returns else []
        return [*verbs, Verb.EXTEND] if self._due(now_s, items_max=1) else verbs

    def _due(self, now_s: float, *, items_max: int = HANDLES_MAX) -> list[Held]:
        return [item for item, due_s in islice(self._due_s.items(), items_max) if due_s <= now_s]

    def _release(self, item: Held, now_s: float) -> None:
        if not self.has_unsettled_work:
            self._settle_s = now_s + LINGER_S
        self._due_s.pop(item, None)


def _cut(items: list[Held]) -> list[Held]:
    """Take a request's worth from the front of a list."""
    taken = items[:HANDLES_MAX]
    del items[:HANDLES_MAX]
    return taken
