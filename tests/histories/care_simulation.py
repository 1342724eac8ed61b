"""Histories of a world that keeps its promises about time and failure, with faults of all kinds.

Knows what good looks like and nothing of the product. The same seed makes the same events. Every
message has its own small fate, begun at its own moment, while the broker goes and the clock jumps.
"""

import random

from tests.histories.care_building import CareStory
from tests.histories.events import Kind, Verb
from tests.histories.history import History

FAILURES_MAX = 2
CHECKS_MAX = 3
# A message's fate begins every so often, and is over long before the end.
_STEP_MS = 200.0
_END_MS = 400_000.0
# Ahead by an hour and almost back: the steady clock decides, then the wall clock does.
_JUMPS_MS = ((20_000.0, 3_600_000.0), (40_000.0, -3_590_000.0))
_OUTAGE_MS = (60_000.0, 75_000.0)


class World:
    """Tells one fate after the other."""

    def __init__(self, seed: int) -> None:
        """Begin with a limit, jumps of the clock and an outage."""
        self._rng = random.Random(seed)
        self._told = CareStory().policy(FAILURES_MAX)
        self._offset = 0
        self._number = 0
        self._letters: list[tuple[str, int, int]] = []
        self._resent: list[tuple[int, str]] = []
        for at_ms, by_ms in _JUMPS_MS:
            self._told.jump(by_ms, at_ms=at_ms)
        self._told.fault("kill", "broker", at_ms=_OUTAGE_MS[0])
        self._told.start_broker(at_ms=_OUTAGE_MS[1])

    def history(self, fates: int) -> History:
        """Tell so many fates, read the dead letters and drain; return what clients saw."""
        kinds = (self._delay, self._transaction, self._failure, self._repeat)
        for step in range(fates):
            self._rng.choice(kinds)(f"m{step}", 10 + step * _STEP_MS)
        self._told.heal(at_ms=_END_MS - 100_000)
        self._told.letters(*self._letters, at_ms=_END_MS - 90_000)
        for number in range(0, len(self._letters), 3):
            self._resend(number, _END_MS - 80_000 + 10 * number)
        self._told.progress(self._offset, self._offset, at_ms=_END_MS)
        return self._told.history()

    def _next_offset(self) -> int:
        self._offset += 1
        return self._offset - 1

    def _due(self, at_ms: float, wait_ms: float) -> tuple[int, float]:
        """Return a due time as a story wants it, and when both clocks have reached it."""
        told = self._told
        wall_ms = told.wall_ms(at_ms) + wait_ms
        due_ms, moment_ms = at_ms + wait_ms, at_ms + wait_ms
        while told.wall_ms(moment_ms) < wall_ms:
            moment_ms += wall_ms - told.wall_ms(moment_ms)
        if _OUTAGE_MS[0] <= moment_ms <= _OUTAGE_MS[1]:
            moment_ms = _OUTAGE_MS[1]
        return round(wall_ms - told.wall_ms(0) + 0.5), max(moment_ms, due_ms) + 2

    def _delay(self, id_: str, at_ms: float) -> None:
        due_ms, comes_ms = self._due(at_ms, self._rng.uniform(500, 30_000))
        lateness_ms = self._rng.uniform(0, 100)
        self._told.delay(id_, due_ms=due_ms, at_ms=at_ms)
        match self._rng.randrange(6):
            case 0:
                self._told.recall(id_, "cancelled", at_ms=at_ms + 100)
            case 1:
                self._told.recall(id_, "delivered", at_ms=at_ms + 100, verb=Verb.HASTEN)
                self._deliver(id_, at_ms + 110)
            case 2:
                self._deliver(id_, comes_ms + lateness_ms)
                self._told.recall(id_, "delivered", at_ms=comes_ms + lateness_ms + 10)
            case _:
                self._deliver(id_, comes_ms + lateness_ms)

    def _deliver(self, id_: str, at_ms: float) -> None:
        self._told.deliver((id_, self._next_offset()), at_ms=at_ms)

    def _transaction(self, id_: str, at_ms: float) -> None:
        told, rng = self._told, self._rng
        told.begin(id_, at_ms=at_ms)
        fate = rng.choice(("committed", "committed", "rolled_back", "given up"))
        checks = CHECKS_MAX if fate == "given up" else rng.randrange(CHECKS_MAX)
        for number in range(1, checks + 1):
            told.check(id_, number, at_ms=at_ms + 10 * number, checks_max=CHECKS_MAX)
        end_ms = at_ms + 50
        if fate == "given up":
            told.notice(end_ms, Verb.GIVEN_UP, id=id_)
            return
        offset = self._next_offset() if fate == "committed" else None
        is_known = rng.random() < 0.7
        kind = Kind.OK if is_known else Kind.INFO
        told.end(id_, fate, at_ms=end_ms, offset=offset, kind=kind)
        told.end(id_, fate, at_ms=end_ms + 10, offset=offset, is_repeat=True)
        other = "committed" if fate == "rolled_back" else "rolled_back"
        told.end(id_, other, at_ms=end_ms + 20, kind=Kind.FAIL)
        if offset is not None:
            told.deliver((id_, offset), at_ms=end_ms + 30)

    def _failure(self, id_: str, at_ms: float) -> None:
        offset = self._next_offset()
        self._told.send(id_, at_ms=at_ms, offset=offset)
        failures = self._rng.choice((1, 2, FAILURES_MAX + 1, FAILURES_MAX + 1))
        is_straight = failures == 1 and self._rng.random() < 0.5
        for number in range(failures):
            is_last = number == FAILURES_MAX or is_straight
            self._told.fail(
                id_,
                offset,
                at_ms=at_ms + 10 * (number + 1),
                outcome="dead_letter" if is_last else "retry",
                level=-1 if is_straight else 0,
            )
        if is_straight or failures > FAILURES_MAX:
            self._letters.append((id_, failures, offset))
        else:
            self._told.deliver((id_, offset), at_ms=at_ms + 60).ack(id_, at_ms=at_ms + 62)

    def _resend(self, number: int, at_ms: float) -> None:
        """Click twice."""
        self._told.resend(number, at_ms=at_ms).resend(number, at_ms=at_ms + 2, outcome="already")
        self._deliver(self._letters[number][0], at_ms + 5)

    def _repeat(self, id_: str, at_ms: float) -> None:
        offset = self._next_offset()
        self._number += 1
        is_known = self._rng.random() < 0.5
        self._told.numbered(id_, self._number, at_ms=at_ms, offset=offset if is_known else None)
        is_repeat = is_known or self._rng.random() < 0.5
        self._told.numbered(id_, self._number, at_ms=at_ms + 10, offset=offset, is_repeat=is_repeat)
        self._told.deliver((id_, offset), at_ms=at_ms + 20)


def good_history(seed: int, *, fates: int = 400) -> History:
    """Return what clients saw of a whole run of a good world."""
    return World(seed).history(fates)
