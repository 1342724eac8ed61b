"""Up to where a group had committed a queue at a moment. Knows histories; judges nothing."""

from bisect import bisect_left
from collections import defaultdict

from tests.histories.deliveries import Queue
from tests.histories.events import Verb
from tests.histories.history import History
from tests.histories.sends import Place


class Committed:
    """The highest committed offset of each group's queue over time; a reset begins anew."""

    def __init__(self, history: History) -> None:
        """Collect commits that were answered with ok, and resets."""
        changes: defaultdict[Queue, list[tuple[int, bool, int]]] = defaultdict(list)
        for operation in history.of(Verb.COMMIT):
            if operation.is_ok:
                for topic, queue, offset, _ in operation.asked["offsets"]:
                    place = Place(topic, queue)
                    change = (operation.end_ns, False, offset)
                    changes[operation.asked["group"], place].append(change)
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
