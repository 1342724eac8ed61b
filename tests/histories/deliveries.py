"""What listeners were given, and what groups subscribed to. Knows histories; judges nothing."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tests.histories.events import Verb
from tests.histories.history import SECOND_NS, History, Operation
from tests.histories.sends import Place, Sends


class Subscribed(NamedTuple):
    """What a group wants of a topic from a moment on. `tags` None wants everything."""

    group: str
    topic: str
    is_ordered: bool
    tags: frozenset[str] | None
    from_ns: int


class Delivery(NamedTuple):
    """One message given to one listener.

    `end_ns` is when the listener returned, or when its process ended; NEVER_NS where neither is
    known. `is_done` says that the listener was content.
    """

    group: str
    client: str
    place: Place
    id: str
    offset: int
    digest: str
    start_ns: int
    end_ns: int
    is_done: bool
    operation: Operation

    def __str__(self) -> str:
        """Return what a person needs to find it."""
        return (
            f"{self.place}@{self.offset} ({self.id}) by {self.client} "
            f"at {self.start_ns / SECOND_NS:.6f} (#{self.operation.number})"
        )


Queue = tuple[str, Place]
"""A group and a place: what order, progress and locks are about."""


def deliveries_of(history: History) -> list[Delivery]:
    """Return every message of every listener's run, by the run's start."""
    found = []
    for operation in history.of(Verb.DELIVER):
        asked, told = operation.asked, operation.told
        group, client = asked["group"], asked["client"]
        place = Place(asked["topic"], asked["queue"])
        start_ns, end_ns = operation.start_ns, history.end_of(operation)
        done = told["done"] if operation.is_ok else 0
        found += [
            Delivery(
                group, client, place, id_, offset, digest, start_ns, end_ns, index < done, operation
            )
            for index, (id_, offset, digest) in enumerate(asked["messages"])
        ]
    return found


def by_queue(deliveries: Iterable[Delivery]) -> Mapping[Queue, list[Delivery]]:
    """Return deliveries by group and place, each by start."""
    found: defaultdict[Queue, list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        found[delivery.group, delivery.place].append(delivery)
    return found


def subscriptions_of(history: History) -> Mapping[tuple[str, str], list[Subscribed]]:
    """Return what each group wants of each topic, oldest first; the same said again counts once."""
    found: defaultdict[tuple[str, str], list[Subscribed]] = defaultdict(list)
    for notice in history.noticed(Verb.SUBSCRIBE):
        group, topic = notice.values["group"], notice.values["topic"]
        tags = notice.values["tags"]
        wanted = Subscribed(
            group,
            topic,
            notice.values["ordered"],
            None if tags is None else frozenset(tags),
            notice.at_ns,
        )
        versions = found[group, topic]
        if not versions or versions[-1]._replace(from_ns=wanted.from_ns) != wanted:
            versions.append(wanted)
    return found


def ordered_topics(history: History) -> frozenset[tuple[str, str]]:
    """Return the groups and topics that are read in order."""
    return frozenset(
        key for key, versions in history.once(subscriptions_of).items() if versions[-1].is_ordered
    )


class Existing(NamedTuple):
    """The offsets of a queue that a group has to go through, rising, and one past its last."""

    offsets: list[int]
    end: int


def existing_offsets(
    history: History, sends: Sends, deliveries: Mapping[Queue, list[Delivery]]
) -> Mapping[Queue, Existing]:
    """Return what each group has to go through in each queue it was given anything of.

    Offsets begin with the lowest one it was given. Without a filter they are dense, for a queue has
    no holes: an offset in between exists although nobody was told of it. With one they are those of
    messages known to match.
    """
    stored: defaultdict[Place, dict[int, str]] = defaultdict(dict)
    for sent in sends.by_id.values():
        if sent.place is not None and sent.offset is not None:
            stored[sent.place][sent.offset] = sent.id
    for (_, place), given in deliveries.items():
        stored[place].update((delivery.offset, delivery.id) for delivery in given)
    ends: defaultdict[Place, int] = defaultdict(int)
    for reading in history.of(Verb.PROGRESS):
        if reading.is_ok:
            for topic, queue, _, end in reading.told["offsets"]:
                ends[Place(topic, queue)] = max(ends[Place(topic, queue)], end)
    subscriptions = history.once(subscriptions_of)
    found = {}
    for (group, place), given in deliveries.items():
        first = min(delivery.offset for delivery in given)
        end = max(ends[place], max(stored[place]) + 1)
        versions = subscriptions.get((group, place.topic), [])
        if all(version.tags is None for version in versions):
            found[group, place] = Existing(list(range(first, end)), end)
            continue
        wanted = frozenset.intersection(*(v.tags for v in versions if v.tags is not None))
        offsets = [
            offset
            for offset, id_ in sorted(stored[place].items())
            if offset >= first and _is_tagged(sends, id_, wanted)
        ]
        found[group, place] = Existing(offsets, end)
    return found


def _is_tagged(sends: Sends, id_: str, wanted: frozenset[str]) -> bool:
    sent = sends.by_id.get(id_)
    # What nobody sent is given and so exists; that nobody sent it is another checker's finding.
    return sent is None or sent.tag in wanted
