"""When something that delivers was away. Knows histories; judges nothing."""

from bisect import bisect_left
from collections import defaultdict

from tests.histories.events import Verb
from tests.histories.faults import pauses_of
from tests.histories.history import NEVER_NS, History


class Outages:
    """Times at which a process was ended or stood still, of any role, joined where they overlap."""

    def __init__(self, history: History) -> None:
        """Collect them; what never came back was over at once, for it was not needed any more."""
        spans = [
            (pause.pause_ns, min(pause.resume_ns, history.end_ns))
            for pauses in history.once(pauses_of).values()
            for pause in pauses
        ]
        ended_ns: dict[str, int] = {}
        ends: defaultdict[str, list[int]] = defaultdict(list)
        for notice in history.noticed(Verb.PROCESS):
            target, state = notice.values["target"], notice.values["state"]
            if state == "ended":
                ended_ns[target] = notice.at_ns
                ends[target].append(notice.at_ns)
            elif target in ended_ns:
                spans.append((ended_ns.pop(target), notice.at_ns))
        spans += [(at_ns, at_ns) for at_ns in ended_ns.values()]
        self._spans: list[tuple[int, int]] = []
        for start_ns, end_ns in sorted(spans):
            if self._spans and start_ns <= self._spans[-1][1]:
                self._spans[-1] = (self._spans[-1][0], max(self._spans[-1][1], end_ns))
            else:
                self._spans.append((start_ns, end_ns))
        self._ends_ns = [end_ns for _, end_ns in self._spans]

    def time_to_go(self, due_ns: int, within_ns: int) -> int:
        """Return until when something due must have come: so long without an outage after it.

        NEVER_NS where the last outage has no end.
        """
        start_ns = due_ns
        for began_ns, over_ns in self._spans[bisect_left(self._ends_ns, due_ns) :]:
            if began_ns > start_ns + within_ns:
                break
            start_ns = max(start_ns, over_ns)
        return min(start_ns + within_ns, NEVER_NS)
