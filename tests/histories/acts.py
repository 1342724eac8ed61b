"""What operators did to queues of groups, and between which moments. Judges nobody.

Acts are asked for again under their own name until somebody answers, so attempts with one name are
one act. It took effect at some moment between its first request and the answer that said so; one
that nobody answered for may have, at any time from then on.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.histories.deliveries import Queue
from tests.histories.events import Kind, Verb
from tests.histories.history import NEVER_NS, SECOND_NS, History, Operation
from tests.histories.sends import Place, sends_of

SETTLE_NS = 2 * SECOND_NS
"""How long clients may act on what they had read before they were told that a queue is fenced."""


class Act(NamedTuple):
    """One act about one queue of a group.

    `told` is empty where nobody said that it was done, and `end_ns` NEVER_NS while it may be done
    yet. `offset` is the head's, or where a reset lets the group go on.
    """

    verb: Verb
    name: str
    group: str
    place: Place
    offset: int
    start_ns: int
    end_ns: int
    asked: Mapping[str, Any]
    told: Mapping[str, Any]
    is_sure: bool
    """An answer said that it was done."""

    @property
    def queue(self) -> Queue:
        """Return what it is about."""
        return self.group, self.place

    @property
    def is_fence(self) -> bool:
        """Say whether readers of the queue have to begin anew."""
        return self.verb in FENCES

    def __str__(self) -> str:
        """Return what a person needs to find it."""
        return f"{self.verb} {self.name} at {self.offset} of {self.group} {self.place}"


FENCES = frozenset({Verb.SKIP, Verb.PARK, Verb.MOVE})
VERBS = (Verb.SUSPEND, Verb.RESUME, *sorted(FENCES))


def acts_of(history: History) -> list[Act]:
    """Return every act that was done or may have been, by its first request."""
    attempts: defaultdict[str, list[Operation]] = defaultdict(list)
    for verb in VERBS:
        for operation in history.of(verb):
            attempts[operation.asked["act"]].append(operation)
    found = [act for tried in attempts.values() for act in _act(tried)]
    return sorted(found, key=lambda act: act.start_ns)


def by_queue(history: History) -> Mapping[Queue, list[Act]]:
    """Return the acts of each group's queues, by first request."""
    found: defaultdict[Queue, list[Act]] = defaultdict(list)
    for act in history.once(acts_of):
        found[act.queue].append(act)
    return found


def of(history: History, *verbs: Verb) -> list[Act]:
    """Return the acts of some verbs, by first request."""
    return [act for act in history.once(acts_of) if act.verb in verbs]


def are_fenced(history: History, queue: Queue, start_ns: int, end_ns: int) -> bool:
    """Say whether readers of a queue may have had to begin anew between two moments."""
    return any(
        act.is_fence and act.start_ns <= end_ns and act.end_ns >= start_ns
        for act in history.once(by_queue).get(queue, ())
    )


def passed_over(history: History) -> Mapping[Queue, set[int]]:
    """Return the offsets that a group need not do: skipped, parked, or left behind by a reset.

    A reset that goes back has what it goes back over done again, and takes that out.
    """
    found: defaultdict[Queue, set[int]] = defaultdict(set)
    for act in history.once(acts_of):
        offsets = found[act.queue]
        if act.verb in (Verb.SKIP, Verb.PARK):
            offsets.add(act.offset)
        elif act.verb is Verb.MOVE and act.is_sure:
            offsets.update(range(act.told["before"], act.offset))
            offsets.difference_update({one for one in offsets if one >= act.offset})
        elif act.verb is Verb.MOVE:
            # Nobody knows from where, or whether at all.
            offsets.update(range(act.offset))
    return found


def ids_passed_over(history: History) -> Mapping[tuple[str, str], set[str]]:
    """Return the same as ids of messages whose place is known, by group and topic."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    offsets = history.once(passed_over)
    for sent in history.once(sends_of).by_id.values():
        for group, place in offsets:
            if place == sent.place and sent.offset in offsets[group, place]:
                found[group, place.topic].add(sent.id)
    return found


def _act(tried: list[Operation]) -> Iterator[Act]:
    """Yield the act of its attempts, nothing where each was refused."""
    possible = [operation for operation in tried if operation.kind is not Kind.FAIL]
    if not possible:
        return
    first = min(possible, key=lambda operation: operation.start_ns)
    done = min(
        (operation for operation in possible if operation.is_ok),
        key=lambda operation: operation.end_ns,
        default=None,
    )
    asked = first.asked
    yield Act(
        verb=first.verb,
        name=asked["act"],
        group=asked["group"],
        place=Place(asked["topic"], asked["queue"]),
        offset=asked.get("offset", -1),
        start_ns=first.start_ns,
        end_ns=_end_ns(tried) if done is None else done.end_ns,
        asked=asked,
        told={} if done is None else done.told,
        is_sure=done is not None,
    )


def _end_ns(tried: list[Operation]) -> int:
    """Return from when on an act that nobody confirmed is not done any more."""
    last = max(tried, key=lambda operation: operation.start_ns)
    return last.end_ns if last.kind is Kind.FAIL else NEVER_NS
