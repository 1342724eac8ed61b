"""Everything anybody asked the product to store, however. Knows histories; judges nothing."""

from collections.abc import Mapping
from typing import NamedTuple

from tests.histories.events import Verb
from tests.histories.history import History, Operation
from tests.histories.sends import sends_of


class Origin(NamedTuple):
    """A message as it was handed over: sent, delayed, or as the half of a transaction."""

    id: str
    digest: str
    operation: Operation


def origins_of(history: History) -> Mapping[str, Origin]:
    """Return every message by id; the first operation that named it counts."""
    found = {
        sent.id: Origin(sent.id, sent.digest, sent.operation)
        for sent in history.once(sends_of).by_id.values()
    }
    for operation in history.of(Verb.DELAY):
        for id_, digest, _ in operation.asked["messages"]:
            found.setdefault(id_, Origin(id_, digest, operation))
    for operation in history.of(Verb.BEGIN):
        id_ = operation.asked["id"]
        found.setdefault(id_, Origin(id_, operation.asked["digest"], operation))
    return found


def is_own_topic(topic: str) -> bool:
    """Say whether a topic holds copies that the product made of messages of other topics."""
    return topic.startswith(("%RETRY%", "%DLQ%"))


def resent_ids(history: History) -> frozenset[str]:
    """Return what was, or may have been, sent again out of the dead letters."""
    ids = {
        (reading.asked["group"], number): id_
        for reading in history.of(Verb.LETTERS)
        if reading.is_ok
        for number, id_, *_ in reading.told["letters"]
    }
    return frozenset(
        ids[operation.asked["group"], number]
        for operation in history.of(Verb.RESEND)
        for number in operation.asked["numbers"]
        if (operation.asked["group"], number) in ids
    )
