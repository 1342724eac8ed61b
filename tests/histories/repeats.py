"""INV-14: what a producer sends again under its number is stored once, where it was first."""

from collections import defaultdict
from typing import NamedTuple

from tests.histories.deliveries import deliveries_of
from tests.histories.events import Kind, Verb
from tests.histories.history import History, Operation
from tests.histories.origins import is_own_topic, resent_ids
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-14 repeats"


class Answer(NamedTuple):
    """What a producer was told about a number. `place` and `is_repeat` of an ok only."""

    operation: Operation
    id: str
    place: tuple[int, int] | None
    is_repeat: bool


def check(history: History) -> Verdict:
    """Check each number's answers against each other and against what came of them."""
    findings = Findings(NAME)
    answers: defaultdict[tuple[str, str, int], list[Answer]] = defaultdict(list)
    numbers: dict[str, tuple[str, str, int]] = {}
    for operation in history.of(Verb.SEND):
        for number, answer in _answers(operation):
            key = (operation.asked["producer"], operation.asked["topic"], number)
            answers[key].append(answer)
            numbers[answer.id] = key
    places = _places(history)
    for key, found in answers.items():
        _check_number(key, found, places, findings)
    findings.counts["numbers"] = len(answers)
    findings.counts["sent again"] = sum(len(found) > 1 for found in answers.values())
    return findings.verdict(unknown="" if answers else "no message has a number")


def _answers(operation: Operation) -> list[tuple[int, Answer]]:
    """Return each number of a send with what was said about it."""
    numbers = operation.asked.get("sequences")
    if numbers is None:
        return []
    messages = operation.asked["messages"]
    nothing = [None] * len(messages)
    places = operation.told["places"] if operation.is_ok else nothing
    repeats = operation.told["repeats"] if operation.is_ok else [False] * len(messages)
    return [
        (number, Answer(operation, message[0], None if at is None else tuple(at), is_repeat))
        for number, message, at, is_repeat in zip(numbers, messages, places, repeats, strict=True)
    ]


def _places(history: History) -> defaultdict[str, set[tuple[str, int, int]]]:
    """Return where each message was seen to lie; the product's own copies are not meant."""
    found: defaultdict[str, set[tuple[str, int, int]]] = defaultdict(set)
    resent = history.once(resent_ids)
    for delivery in history.once(deliveries_of):
        if not is_own_topic(delivery.place.topic) and delivery.id not in resent:
            found[delivery.id].add((*delivery.place, delivery.offset))
    return found


def _check_number(
    key: tuple[str, str, int],
    answers: list[Answer],
    places: defaultdict[str, set[tuple[str, int, int]]],
    findings: Findings,
) -> None:
    producer, topic, number = key
    name = f"{producer} {topic} #{number}"
    ids = {answer.id for answer in answers}
    if len(ids) > 1:
        findings.violation(f"{name} names {sorted(ids)}: the run is useless")
    told = [answer for answer in answers if answer.place is not None]
    seen = set().union(*(places[id_] for id_ in ids))
    lies = seen | {(topic, *answer.place) for answer in told if answer.place is not None}
    if len(lies) > 1:
        findings.counts["stored twice"] += 1
        findings.violation(f"{name} lies at {sorted(lies)}:", answers[-1].operation)
    stored = [answer for answer in told if not answer.is_repeat]
    findings.counts["repeats"] += len(told) - len(stored)
    if len(stored) > 1:
        findings.violation(f"{name} was stored {len(stored)} times by its answers:", stored[1])
    for answer in told:
        if not answer.is_repeat:
            _check_first(name, answer, answers, findings)
        elif all(other.operation.start_ns >= answer.operation.start_ns for other in answers):
            findings.violation(f"{name} is called a repeat and is the first:", answer.operation)
    if any(answer.operation.kind is Kind.INFO for answer in answers):
        findings.counts["after an unknown answer"] += bool(told)


def _check_first(name: str, answer: Answer, answers: list[Answer], findings: Findings) -> None:
    """Check that nobody had been told before that it is stored."""
    for other in answers:
        is_known = other.place is not None and other.operation.end_ns < answer.operation.start_ns
        if is_known:
            findings.violation(f"{name} was stored and is stored again:", answer.operation)
            return
