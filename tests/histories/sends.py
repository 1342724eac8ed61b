"""What producers tried to send and where it went. Knows histories; judges nothing."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.histories.events import Kind, Verb
from tests.histories.history import History, Operation


class Place(NamedTuple):
    """A queue of a topic."""

    topic: str
    queue: int

    def __str__(self) -> str:
        """Return it as people write it."""
        return f"{self.topic}/{self.queue}"


class Sent(NamedTuple):
    """One message of a send. `offset` and `place` are None unless the send was answered with ok.

    `position` is that in the send's operation.
    """

    id: str
    key: str | None
    tag: str | None
    digest: str
    producer: str
    position: int
    operation: Operation
    place: Place | None
    offset: int | None

    def __str__(self) -> str:
        """Return what a person needs to find it."""
        where = "nowhere known" if self.place is None else f"{self.place}@{self.offset}"
        return f"message {self.id} (key {self.key}, {where})"


@dataclass(frozen=True, slots=True)
class Sends:
    """All messages by id, and those of each producer in the order of their invocation."""

    by_id: dict[str, Sent] = field(default_factory=dict)
    by_producer: Mapping[str, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    repeated_ids: list[str] = field(default_factory=list)
    """Ids that name two messages: such a history proves nothing about either."""


def sends_of(history: History) -> Sends:
    """Collect every message that a producer tried to send."""
    sends = Sends()
    for operation in history.of(Verb.SEND):
        asked = operation.asked
        topic, places = asked["topic"], operation.told.get("places") if operation.is_ok else None
        for position, (id_, key, tag, digest) in enumerate(asked["messages"]):
            queue, offset = places[position] if places is not None else (None, None)
            place = None if queue is None else Place(topic, queue)
            producer = asked["producer"]
            sent = Sent(id_, key, tag, digest, producer, position, operation, place, offset)
            if id_ in sends.by_id:
                if _is_sent_again(sends.by_id[id_], sent):
                    _take_answer(sends, sent)
                    continue
                sends.repeated_ids.append(id_)
            sends.by_id[id_] = sent
            sends.by_producer[producer].append(sent)
    return sends


def is_acked(sent: Sent) -> bool:
    """Say whether the producer was told that the message is stored."""
    return sent.operation.kind is Kind.OK


def sequence_of(sent: Sent) -> int | None:
    """Return the producer's number of a message, None where it has none."""
    sequences = sent.operation.asked.get("sequences")
    return None if sequences is None else int(sequences[sent.position])


def _is_sent_again(earlier: Sent, later: Sent) -> bool:
    """Say whether a producer sent a message once more under the number it has."""
    number = sequence_of(earlier)
    topic, later_topic = earlier.operation.asked["topic"], later.operation.asked["topic"]
    is_same = (earlier.producer, topic, number) == (later.producer, later_topic, sequence_of(later))
    return number is not None and is_same


def _take_answer(sends: Sends, again: Sent) -> None:
    """Let the first answer with a place be that of a message; its first try is when it was sent."""
    first = sends.by_id[again.id]
    if first.place is None and again.place is not None:
        operation = again.operation._replace(start_ns=first.operation.start_ns)
        found = again._replace(operation=operation)
        sends.by_id[again.id] = found
        of_producer = sends.by_producer[first.producer]
        of_producer[of_producer.index(first)] = found
