"""When what was disturbed, by design or by accident. Knows histories; judges nothing."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import NamedTuple

from tests.histories.events import Kind, Verb
from tests.histories.history import NEVER_NS, SECOND_NS, History

HEAL = "heal"
KILL = "kill"
CUT = "cut"
"""A power cut: what was not synced is gone. A kill leaves everything that was written."""
PAUSE = "pause"
RESUME = "resume"


class Pause(NamedTuple):
    """A process that stood still. `resume_ns` is NEVER_NS while it does."""

    pause_ns: int
    resume_ns: int


class Moments:
    """Moments by subject, to be asked whether one lies in an interval."""

    def __init__(self) -> None:
        self._at_ns: defaultdict[object, list[int]] = defaultdict(list)
        self._is_sorted = True

    def add(self, subject: object, at_ns: int) -> None:
        """Note a moment."""
        self._at_ns[subject].append(at_ns)
        self._is_sorted = False

    def any_in(self, subject: object, start_ns: int, end_ns: int) -> bool:
        """Say whether a moment of the subject lies in the interval, ends included."""
        if not self._is_sorted:
            for moments in self._at_ns.values():
                moments.sort()
            self._is_sorted = True
        moments = self._at_ns.get(subject, [])
        return bisect_left(moments, start_ns) < bisect_right(moments, end_ns)


def pauses_of(history: History) -> dict[str, list[Pause]]:
    """Return when each process stood still."""
    found: defaultdict[str, list[Pause]] = defaultdict(list)
    for notice in history.noticed(Verb.NEMESIS):
        target, fault = notice.values["target"], notice.values["fault"]
        if fault == PAUSE:
            found[target].append(Pause(notice.at_ns, NEVER_NS))
        elif fault == RESUME and found[target]:
            found[target][-1] = found[target][-1]._replace(resume_ns=notice.at_ns)
    return found


def healed_ns(history: History) -> int | None:
    """Return when the last fault was over, None when nobody said so."""
    heals = [n.at_ns for n in history.noticed(Verb.NEMESIS) if n.values["fault"] == HEAL]
    return heals[-1] if heals else None


def faults_of(history: History) -> list[tuple[int, str, str]]:
    """Return every fault that was made: when, what, and to whom. Healing is none."""
    return [
        (notice.at_ns, notice.values["fault"], notice.values["target"])
        for notice in history.noticed(Verb.NEMESIS)
        if notice.values["fault"] not in (HEAL, RESUME)
    ]


def broker_starts(history: History) -> list[int]:
    """Return when a broker began to serve, the first time included."""
    return [
        notice.at_ns
        for notice in history.noticed(Verb.PROCESS)
        if notice.values["role"] == "broker" and notice.values["state"] == "started"
    ]


def broker_ends(history: History) -> list[int]:
    """Return when a broker ended, however it did."""
    return [
        notice.at_ns
        for notice in history.noticed(Verb.PROCESS)
        if notice.values["role"] == "broker" and notice.values["state"] == "ended"
    ]


def broker_pauses(history: History) -> list[Pause]:
    """Return when a broker stood still, first to last."""
    brokers = {
        notice.values["target"]
        for notice in history.noticed(Verb.PROCESS)
        if notice.values["role"] == "broker"
    }
    pauses = history.once(pauses_of)
    return sorted(pause for broker in brokers for pause in pauses.get(broker, ()))


def was_paused_before(pauses: list[Pause], at_ns: int, *, within_ns: int = 2 * SECOND_NS) -> bool:
    """Say whether a process stood still until shortly before a moment.

    A check that passes before a pause and an act right behind it are as close as code can bring
    them, and no closer: what follows a pause at once may be what was decided before it.
    """
    return any(p.pause_ns <= at_ns and p.resume_ns >= at_ns - within_ns for p in pauses)


def is_refused_for_lock(kind: Kind, code: str | None) -> bool:
    """Say whether an operation was refused because its lock is another's."""
    return kind is Kind.FAIL and code == "lock_lost"
