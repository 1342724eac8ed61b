"""Histories of a group in order whose operators skip, park, suspend and reset, and all goes well.

Knows what good looks like and nothing of the product. The same seed makes the same events. One
client does one thing at a time; after an act it has time to hear of it.
"""

import random
from typing import Any

from tests.histories.building import GROUP, TOPIC, Story
from tests.histories.events import Kind, Verb
from tests.histories.history import History

_HEARD_MS = 4_000.0
_LEASE_MS = 600_000
_BACK, _FORTH = 4, 3


class World:
    """A queue, its group and their operator."""

    def __init__(self, seed: int) -> None:
        """Begin with a client that holds the queue."""
        self._rng = random.Random(seed)
        self._told = Story()
        self._at_ms = 10.0
        self._sent = self._next = self._acts = self._epoch = 0
        self._letters: list[list[Any]] = []
        self._reasons: dict[str, str] = {}
        self._lock()

    def history(self) -> History:
        """Go through every kind of act a few times, drain, and read what there is to read."""
        acts = [self._skip, self._park, self._suspend, self._go_back, self._pass_over, self._undo]
        for _ in range(3):
            self._rng.shuffle(acts)
            for act in acts:
                self._send(self._rng.randrange(6, 12))
                self._work(self._rng.randrange(5, 6 + self._sent - self._next - _FORTH - 2))
                act()
        self._told.fault("kill", "b", at_ms=self._tick())
        self._told.heal(at_ms=self._tick())
        self._work(self._sent - self._next)
        self._told.progress(self._sent, self._sent, at_ms=self._tick(2))
        asked = {"group": GROUP}
        times_ms = (self._tick(), self._tick())
        self._told.operate(
            "run", Verb.LETTERS, times_ms, asked, letters=self._letters, reasons=self._reasons
        )
        return self._told.history()

    def _tick(self, step_ms: float = 1.0) -> float:
        self._at_ms += step_ms
        return self._at_ms

    def _send(self, count: int) -> None:
        for _ in range(count):
            self._told.send(f"m{self._sent}", at_ms=self._tick(2), offset=self._sent)
            self._sent += 1

    def _work(self, count: int) -> None:
        for _ in range(count):
            self._told.deliver((f"m{self._next}", self._next), at_ms=self._tick(2))
            self._next += 1
            self._told.commit(self._next, at_ms=self._tick(2), epoch=self._epoch)

    def _lock(self) -> None:
        self._epoch += 1
        self._told.lock(self._epoch, at_ms=self._tick(2), lease_ms=_LEASE_MS)

    def _act(self, verb: Verb, told: dict[str, Any], **asked: Any) -> str:
        """Do something; now and then the first answer is lost, and it is asked for again."""
        self._acts += 1
        name = f"act-{self._acts}"
        about = {"act": name, "group": GROUP, "topic": TOPIC, "queue": 0, **asked}
        if self._rng.random() < 0.4:
            times_ms = (self._tick(), self._tick())
            self._told.operate("run", verb, times_ms, about, Kind.INFO, code="unanswered")
        times_ms = (self._tick(), self._tick())
        self._told.operate("run", verb, times_ms, about, **told)
        self._tick(_HEARD_MS)
        return name

    def _settle(self, verb: Verb) -> int:
        head = self._next
        reason = f"reason {self._acts + 1}"
        self._act(verb, {"head": head + 1}, offset=head, reason=reason)
        self._next += 1
        self._lock()
        if verb is Verb.PARK:
            number = len(self._letters)
            self._letters.append([number, f"m{head}", f"digest of m{head}", 0, TOPIC, 0, head])
            self._reasons[str(number)] = reason
        return head

    def _skip(self) -> None:
        self._settle(Verb.SKIP)

    def _park(self) -> None:
        self._settle(Verb.PARK)

    def _suspend(self) -> None:
        self._act(Verb.SUSPEND, {"head": self._next})
        self._tick(10 * _HEARD_MS)
        self._act(Verb.RESUME, {"head": self._next})

    def _move(self, target: int, **asked: Any) -> str:
        told = {"before": self._next, "after": target}
        name = self._act(Verb.MOVE, told, offset=target, **asked)
        self._next = target
        self._lock()
        return name

    def _go_back(self) -> None:
        back_to = self._next - _BACK
        self._move(back_to)

    def _pass_over(self) -> None:
        self._move(self._next + _FORTH)

    def _undo(self) -> None:
        before = self._next
        name = self._move(before + _FORTH)
        self._move(before, undoes=name)


def good_history(seed: int) -> History:
    """Return the history of a good world."""
    return World(seed).history()
