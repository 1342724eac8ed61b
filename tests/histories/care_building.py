"""Write tiny histories of delays, transactions, dead letters and repeats by hand, in milliseconds.

Knows what lines look like; nothing is checked here, for what is written is wrong on purpose.
"""

from typing import Any, Self

from tests.histories.building import GROUP, MS_NS, TOPIC, Story
from tests.histories.events import Event, Kind, Verb

PRODUCERS = "payers"
WALL_MS = 1_700_000_000_000
"""What the wall clock says at 0."""


class CareStory(Story):
    """A story whose clients also delay, decide, fail and repeat. The wall clock can be set."""

    def __init__(self) -> None:
        """Begin with a wall clock that is right."""
        self._jumps: list[tuple[float, float]] = [(0.0, float(WALL_MS))]
        super().__init__(is_ordered=False)

    def jump(self, by_ms: float, *, at_ms: float) -> Self:
        """Set the wall clock forward or back from a moment on; later moments only."""
        self._jumps.append((at_ms, self._jumps[-1][1] + by_ms))
        return self

    def wall_ms(self, at_ms: float) -> float:
        """Return what the wall clock says."""
        return next(shift for from_ms, shift in reversed(self._jumps) if from_ms <= at_ms) + at_ms

    def delay(self, id_: str, *, due_ms: float, at_ms: float = 1, kind: Kind = Kind.OK) -> Self:
        """Send a message that is due when the wall clock, not set, would be at `due_ms`."""
        messages = [[id_, f"digest of {id_}", WALL_MS + int(due_ms)]]
        asked = {"producer": "p", "topic": TOPIC, "messages": messages}
        told = {} if kind is Kind.OK else {"code": "unanswered"}
        return self.operate("p", Verb.DELAY, (at_ms, at_ms + 1), asked, kind, **told)

    def recall(self, id_: str, outcome: str, *, at_ms: float, verb: Verb = Verb.RECALL) -> Self:
        """Ask for a delayed message back, or with HASTEN for it to come at once."""
        kind = Kind.OK if outcome else Kind.INFO
        told = {"outcome": outcome} if outcome else {"code": "unanswered"}
        return self.operate("p", verb, (at_ms, at_ms + 1), {"id": id_}, kind, **told)

    def begin(self, id_: str, *, at_ms: float = 1, kind: Kind = Kind.OK) -> Self:
        """Store a half message."""
        asked = {"producer": "p", "topic": TOPIC, "id": id_, "digest": f"digest of {id_}"}
        return self.operate("p", Verb.BEGIN, (at_ms, at_ms + 1), asked, kind)

    def end(
        self,
        id_: str,
        outcome: str = "committed",
        *,
        at_ms: float,
        offset: int | None = None,
        is_repeat: bool = False,
        kind: Kind = Kind.OK,
    ) -> Self:
        """Decide a transaction."""
        told: dict[str, Any] = {"code": "transaction_decided"}
        if kind is Kind.INFO:
            told = {"code": "unanswered"}
        if kind is Kind.OK:
            place = None if offset is None else [TOPIC, 0, offset]
            told = {"repeat": is_repeat, "place": place}
        asked = {"id": id_, "outcome": outcome}
        return self.operate("p", Verb.END, (at_ms, at_ms + 1), asked, kind, **told)

    def check(self, id_: str, number: int, *, at_ms: float, checks_max: int = 15) -> Self:
        """Ask a producer about a transaction."""
        asked = {"group": PRODUCERS, "client": "p"}
        checks = [[id_, number, checks_max]]
        return self.operate("p", Verb.CHECKS, (at_ms, at_ms + 1), asked, checks=checks)

    def fail(
        self, id_: str, offset: int, *, at_ms: float, outcome: str = "retry", level: int = 0
    ) -> Self:
        """Deliver a message to a listener that fails, and send it back."""
        self.deliver((id_, offset), at_ms=at_ms, done=0)
        asked = {"group": GROUP, "client": "a", "ids": [id_], "level": level}
        times_ms = (at_ms + 2, at_ms + 3)
        return self.operate("a", Verb.BACK, times_ms, asked, outcomes=[outcome])

    def lease(self, id_: str, offset: int, *, at_ms: float, is_failed: bool = False) -> Self:
        """Hand a message out for a while, and let the client say that it failed, or nothing."""
        asked = {
            "group": GROUP,
            "client": "a",
            "topic": TOPIC,
            "queue": 0,
            "messages": [[id_, offset, f"digest of {id_}"]],
            "invisible_ms": 1_000,
        }
        self.operate("a", Verb.DELIVER, (at_ms, at_ms + 1), asked, done=0)
        if is_failed:
            asked = {"group": GROUP, "client": "a", "ids": [id_]}
            self.operate("a", Verb.NACK, (at_ms + 2, at_ms + 3), asked)
        return self

    def ack(self, id_: str, *, at_ms: float) -> Self:
        """Acknowledge a message of a lease."""
        asked = {"group": GROUP, "client": "a", "ids": [id_]}
        return self.operate("a", Verb.ACK, (at_ms, at_ms + 1), asked)

    def policy(self, failures_max: int) -> Self:
        """Say how often a message may fail."""
        return self.notice(0, Verb.POLICY, group=GROUP, failures_max=failures_max)

    def letters(self, *letters: tuple[str, int, int], at_ms: float) -> Self:
        """Read the dead letters: id, failures, offset where it comes from; numbered in order."""
        told = [
            [number, id_, f"digest of {id_}", failures, TOPIC, 0, offset]
            for number, (id_, failures, offset) in enumerate(letters)
        ]
        times_ms = (at_ms, at_ms + 1)
        return self.operate("run", Verb.LETTERS, times_ms, {"group": GROUP}, letters=told)

    def resend(self, number: int, *, at_ms: float, outcome: str = "sent") -> Self:
        """Send a dead letter again."""
        asked = {"group": GROUP, "numbers": [number]}
        times_ms = (at_ms, at_ms + 1)
        return self.operate("run", Verb.RESEND, times_ms, asked, outcomes=[outcome])

    def numbered(
        self,
        id_: str,
        number: int,
        *,
        at_ms: float,
        offset: int | None,
        is_repeat: bool = False,
        producer: str = "p",
    ) -> Self:
        """Send a message under a producer's number; without an offset it has no answer."""
        asked = {
            "producer": producer,
            "topic": TOPIC,
            "messages": [[id_, None, None, f"digest of {id_}"]],
            "sequences": [number],
        }
        times_ms = (at_ms, at_ms + 1)
        if offset is None:
            return self.operate("p", Verb.SEND, times_ms, asked, Kind.INFO, code="unanswered")
        told = {"places": [[0, offset]], "repeats": [is_repeat]}
        return self.operate("p", Verb.SEND, times_ms, asked, **told)

    def _add(
        self,
        process: str,
        number: int,
        kind: Kind,
        verb: Verb,
        at_ms: float,
        values: dict[str, Any],
    ) -> None:
        at_ns, wall_ns = int(at_ms * MS_NS), round(self.wall_ms(at_ms) * 1_000) * 1_000
        self._events.append(Event(process, number, kind, verb, at_ns, wall_ns, values))
