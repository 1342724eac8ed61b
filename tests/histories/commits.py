"""Up to where a group had committed a queue at a moment. Knows histories; judges nothing."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from tests.histories import acts
from tests.histories.deliveries import Queue
from tests.histories.events import Verb
from tests.histories.history import History, Operation
from tests.histories.sends import Place


def certain(history: History) -> Iterator[tuple[Queue, Operation, int]]:
    """Yield each committed offset that was answered with ok and was in force from then on.

    One beside an act that moves the queue was before the act or after it, and nobody knows which.
    """
    for operation in history.of(Verb.COMMIT):
        if operation.is_ok:
            for topic, number, offset, _ in operation.asked["offsets"]:
                queue = operation.asked["group"], Place(topic, number)
                if not acts.are_fenced(history, queue, operation.start_ns, operation.end_ns):
                    yield queue, operation, offset


class Committed:
    """The highest committed offset of each group's queue over time; a reset begins anew."""

    def __init__(self, history: History) -> None:
        """Collect commits that were answered with ok, and resets."""
        changes: defaultdict[Queue, list[tuple[int, bool, int]]] = defaultdict(list)
        for act in acts.of(history, Verb.MOVE):
            goes_back = not act.is_sure or act.offset < act.told["before"]
            at_ns = act.start_ns if goes_back else act.end_ns
            changes[act.queue].append((at_ns, True, act.offset))
        for queue, operation, offset in certain(history):
            changes[queue].append((operation.end_ns, False, offset))
        for notice in history.noticed(Verb.RESET):
            values = notice.values
            place = Place(values["topic"], values["queue"])
            changes[values["group"], place].append((notice.at_ns, True, values["offset"]))
        self._at_ns: dict[Queue, list[int]] = {}
        self._offsets: dict[Queue, list[int]] = {}
        for queue, found in changes.items():
            highest = 0
            at_ns, offsets = self._at_ns.setdefault(queue, []), self._offsets.setdefault(queue, [])
            for moment_ns, is_reset, offset in sorted(found):
                highest = offset if is_reset else max(highest, offset)
                at_ns.append(moment_ns)
                offsets.append(highest)

    def before(self, group: str, place: Place, at_ns: int) -> int:
        """Return what was committed by answers before a moment, 0 without one."""
        queue = (group, place)
        count = bisect_left(self._at_ns.get(queue, ()), at_ns)
        return self._offsets[queue][count - 1] if count else 0
