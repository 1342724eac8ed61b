"""INV-3: a place of a queue is one message's for ever, places rise with time and leave no hole.

What is known of a place comes from answers, deliveries and readings of a queue's end, over all
restarts. A message that was asked for behind something known lies behind it.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.histories.deliveries import deliveries_of
from tests.histories.events import Verb
from tests.histories.history import History
from tests.histories.origins import is_own_topic, origins_of, resent_ids
from tests.histories.sends import Place, sends_of
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-3 offsets"


class Fact(NamedTuple):
    """Somebody knows from a moment on that a message lies at an offset.

    `asked_ns` is when it was asked to be stored, or a queue was asked for its end; None where it
    lay there already. `id` is empty for the end of a queue: something lies before it.
    """

    known_ns: int
    asked_ns: int | None
    offset: int
    id: str
    who: object


def check(history: History) -> Verdict:
    """Check places for being one message's, for rising with time, and for leaving no hole."""
    findings = Findings(NAME)
    facts = history.once(facts_of)
    _check_one_to_one(history, facts, findings)
    for place, known in facts.items():
        _check_rising(place, known, findings)
    _check_within_operations(history, findings)
    _check_dense(history, facts, findings)
    findings.counts["places"] = sum(len({f.offset for f in known}) for known in facts.values())
    return findings.verdict(unknown="" if findings.counts["places"] else "no place is known")


def facts_of(history: History) -> dict[Place, list[Fact]]:
    """Return what is known of each place, by when it was known."""
    found: defaultdict[Place, list[Fact]] = defaultdict(list)
    for place, fact in (*_answered(history), *_seen(history)):
        found[place].append(fact)
    for known in found.values():
        known.sort(key=lambda fact: fact.known_ns)
    return dict(found)


def _answered(history: History) -> Iterator[tuple[Place, Fact]]:
    for sent in history.once(sends_of).by_id.values():
        if sent.place is not None and sent.offset is not None:
            operation = sent.operation
            known_ns, asked_ns = operation.end_ns, operation.start_ns
            yield sent.place, Fact(known_ns, asked_ns, sent.offset, sent.id, sent)
    for operation in history.of(Verb.END):
        place = operation.told.get("place") if operation.is_ok else None
        if place is not None:
            # A repeated answer tells a place that was given before it was asked for.
            asked_ns = None if operation.told["repeat"] else operation.start_ns
            id_ = operation.asked["id"]
            fact = Fact(operation.end_ns, asked_ns, place[2], id_, operation)
            yield Place(*place[:2]), fact


def _seen(history: History) -> Iterator[tuple[Place, Fact]]:
    for delivery in history.once(deliveries_of):
        fact = Fact(delivery.start_ns, None, delivery.offset, delivery.id, delivery)
        yield delivery.place, fact
    for reading in history.of(Verb.PROGRESS):
        if reading.is_ok:
            for topic, queue, _, end in reading.told["offsets"]:
                if end > 0:
                    yield (
                        Place(topic, queue),
                        Fact(reading.end_ns, reading.start_ns, end - 1, "", reading),
                    )


def _check_one_to_one(history: History, facts: dict[Place, list[Fact]], findings: Findings) -> None:
    resent = history.once(resent_ids)
    lies: dict[str, tuple[Place, int]] = {}
    for place, known in facts.items():
        at: dict[int, str] = {}
        for fact in known:
            if not fact.id:
                continue
            if at.setdefault(fact.offset, fact.id) != fact.id:
                findings.counts["two values"] += 1
                findings.violation(
                    f"{place}@{fact.offset} is {at[fact.offset]} and {fact.id}:", fact.who
                )
            # A retry is a copy of the product's own, and what is sent again lies there once more.
            if is_own_topic(place.topic) or fact.id in resent:
                continue
            here = (place, fact.offset)
            if lies.setdefault(fact.id, here) != here:
                other, offset = lies[fact.id]
                findings.violation(
                    f"{fact.id} lies at {other}@{offset} and {place}@{fact.offset}:", fact.who
                )


def _check_rising(place: Place, known: list[Fact], findings: Findings) -> None:
    """Check what was asked for against what was known before, restarts or not."""
    asked = sorted(
        ((fact.asked_ns, fact) for fact in known if fact.asked_ns is not None),
        key=lambda pair: pair[0],
    )
    highest, count = -1, 0
    for asked_ns, fact in asked:
        while count < len(known) and known[count].known_ns < asked_ns:
            highest = max(highest, known[count].offset)
            count += 1
        if fact.id and fact.offset <= highest:
            findings.counts["went back"] += 1
            findings.violation(f"{place} gave {fact.offset} though {highest} was known:", fact.who)
        elif fact.offset < highest:
            findings.counts["went back"] += 1
            findings.violation(
                f"{place} ended at {fact.offset + 1} though {highest} was known:", fact.who
            )


def _check_within_operations(history: History, findings: Findings) -> None:
    """Check that the messages of one send lie in a queue in the order they were sent in."""
    for operation in history.of(Verb.SEND):
        # Some of what is sent again may have been stored, and the rest lies behind it.
        if not operation.is_ok or any(operation.told.get("repeats", ())):
            continue
        highest: dict[int, int] = {}
        for queue, offset in operation.told["places"]:
            if offset <= highest.get(queue, -1):
                findings.violation(f"queue {queue} got {offset} out of order:", operation)
            highest[queue] = max(offset, highest.get(queue, -1))


def _check_dense(history: History, facts: dict[Place, list[Fact]], findings: Findings) -> None:
    """Check that nothing is missing between what is known, but what nobody had an answer about."""
    known_ids = {fact.id for known in facts.values() for fact in known}
    unplaced: defaultdict[str, int] = defaultdict(int)
    for origin in history.once(origins_of).values():
        if origin.id not in known_ids:
            unplaced[origin.operation.asked["topic"]] += 1
    resent = sum(len(operation.asked["numbers"]) for operation in history.of(Verb.RESEND))
    holes: defaultdict[str, list[str]] = defaultdict(list)
    for place, known in facts.items():
        if not is_own_topic(place.topic):
            offsets = {fact.offset for fact in known if fact.id}
            # A place at which a queue ended is one of a message that nobody may have seen.
            end = max(fact.offset for fact in known) + 1
            first = min(offsets, default=end)
            holes[place.topic] += [
                f"{place}@{offset}" for offset in range(first, end) if offset not in offsets
            ]
    for topic, found in holes.items():
        findings.counts["unseen"] += len(found)
        if len(found) > unplaced[topic] + resent:
            findings.counts["holes"] += len(found)
            findings.violation(f"{topic} has {len(found)} holes, the first", *found[:3])
