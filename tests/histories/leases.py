"""Which client could rely on which queue's lock, and until when. Knows histories; judges nothing.

A grant holds from its answer until its duration after its *request*: the broker began to count
later than that, so a lease counted so is never longer than the broker's own.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.histories.deliveries import Delivery, Queue
from tests.histories.events import Verb
from tests.histories.history import NEVER_NS, History
from tests.histories.sends import Place

_MS_NS = 1_000_000


class Grant(NamedTuple):
    """A lock, or its renewal, as its holder was told."""

    client: str
    epoch: int
    start_ns: int
    end_ns: int
    lease_end_ns: int


class Leases:
    """All grants of a history."""

    def __init__(self, history: History) -> None:
        """Collect grants and what ends them early."""
        grants: defaultdict[Queue, list[Grant]] = defaultdict(list)
        for operation in history.of(Verb.LOCK):
            if operation.is_ok:
                group, client = operation.asked["group"], operation.asked["client"]
                start_ns, end_ns = operation.start_ns, operation.end_ns
                for topic, queue, epoch, lease_ms in operation.told["locked"]:
                    lease_end_ns = start_ns + lease_ms * _MS_NS
                    grant = Grant(client, epoch, start_ns, end_ns, lease_end_ns)
                    grants[group, Place(topic, queue)].append(grant)
        self.by_queue: Mapping[Queue, list[Grant]] = grants
        """Grants of each group's queues, by request."""
        self._answered = {queue: _newest_by_time(found) for queue, found in grants.items()}
        self._released: defaultdict[tuple[Queue, str], list[int]] = defaultdict(list)
        self._left: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for operation in history.of(Verb.UNLOCK):
            group, client = operation.asked["group"], operation.asked["client"]
            for topic, queue in operation.asked["queues"]:
                queue_of_group = (group, Place(topic, queue))
                self._released[queue_of_group, client].append(operation.start_ns)
        for operation in history.of(Verb.LEAVE):
            asked = operation.asked
            self._left[asked["group"], asked["client"]].append(operation.start_ns)
        self._of_client: defaultdict[tuple[Queue, str], list[Grant]] = defaultdict(list)
        for queue_of_group, found in grants.items():
            for grant in sorted(found, key=lambda grant: grant.end_ns):
                self._of_client[queue_of_group, grant.client].append(grant)
        self._answered_ns = {
            key: [grant.end_ns for grant in found] for key, found in self._of_client.items()
        }

    def held(self, queue: Queue, client: str, at_ns: int) -> Grant | None:
        """Return the client's newest grant answered by then, whether or not it is over."""
        key = (queue, client)
        count = bisect_right(self._answered_ns.get(key, ()), at_ns)
        return self._of_client[key][count - 1] if count else None

    def newest(self, queue: Queue, at_ns: int) -> Grant | None:
        """Return the last renewal of the highest epoch that was answered before a moment."""
        found = self._answered.get(queue, [])
        count = bisect_left(found, at_ns, key=lambda pair: pair[0])
        return found[count - 1][1] if count else None

    def reliable_end_ns(self, delivery: Delivery) -> int:
        """Return until when its lock protected a delivery: renewals on the way lengthen it.

        0 where the client had no grant.
        """
        queue = (delivery.group, delivery.place)
        grant = self.held(queue, delivery.client, delivery.start_ns)
        if grant is None:
            return 0
        end_ns = grant.lease_end_ns
        for renewal in self._answered_after(queue, delivery.client, delivery.start_ns):
            if renewal.epoch != grant.epoch or renewal.end_ns > delivery.end_ns:
                break
            end_ns = max(end_ns, renewal.lease_end_ns)
        return end_ns

    def release_ns(self, queue: Queue, grant: Grant) -> int:
        """Return when the holder first gave a grant back by itself, NEVER_NS when it did not."""
        group, _ = queue
        gave_back = (
            *self._released.get((queue, grant.client), ()),
            *self._left.get((group, grant.client), ()),
        )
        return min((at_ns for at_ns in gave_back if at_ns >= grant.start_ns), default=NEVER_NS)

    def _answered_after(self, queue: Queue, client: str, at_ns: int) -> Iterator[Grant]:
        key = (queue, client)
        first = bisect_right(self._answered_ns.get(key, ()), at_ns)
        grants = self._of_client[key]
        return (grants[index] for index in range(first, len(grants)))


def _newest_by_time(grants: list[Grant]) -> list[tuple[int, Grant]]:
    """Return, for each answer by time, the newest grant known from then on."""
    found: list[tuple[int, Grant]] = []
    for grant in sorted(grants, key=lambda grant: grant.end_ns):
        newest = found[-1][1] if found else grant
        found.append((grant.end_ns, grant if grant.epoch >= newest.epoch else newest))
    return found
