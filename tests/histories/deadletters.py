"""INV-9: who failed once more than it may is a dead letter, once and whole, and nobody else is."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.histories.deliveries import Delivery, deliveries_of
from tests.histories.events import Kind, Verb
from tests.histories.faults import CUT, faults_of
from tests.histories.history import SECOND_NS, History, Operation
from tests.histories.liveness import drained_ns
from tests.histories.origins import origins_of
from tests.histories.sends import sends_of
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-9 dead letters"
_STRAIGHT = -1


class Letter(NamedTuple):
    """A dead letter as a reading of them showed it; `number` is its place among the group's."""

    number: int
    id: str
    digest: str
    failures: int
    topic: str
    queue: int
    offset: int


@dataclass(slots=True)
class Fate:
    """What a group did with one message."""

    deliveries: list[Delivery] = field(default_factory=list)
    failures: list[Operation] = field(default_factory=list)
    """Failures that were taken note of; each is an answer that said so."""
    buried: list[Operation] = field(default_factory=list)
    """Answers that said that it is a dead letter now, or that it is to be one at once."""
    is_straight: bool = False
    """Somebody may have sent it to the dead letters before its last attempt."""
    acks: list[Operation] = field(default_factory=list)


Fates = Mapping[tuple[str, str], Fate]


def check(history: History, *, settle_s: float = 2.0) -> Verdict:
    """Check every group whose limit is known and whose dead letters were read.

    `settle_s` is how long after its burial a client may still act on what it had been given before.
    """
    findings = Findings(NAME)
    limits = {n.values["group"]: n.values["failures_max"] for n in history.noticed(Verb.POLICY)}
    fates = history.once(_fates_of)
    readings = {
        group: [r for r in history.of(Verb.LETTERS) if r.is_ok and r.asked["group"] == group]
        for group in limits
    }
    undecided = sum(not found for found in readings.values())
    for group, found in readings.items():
        if not found:
            continue
        resent = _resends(history, group, found)
        _check_readings(group, found, findings)
        letters = [Letter(*values) for values in found[-1].told["letters"]]
        findings.counts["letters"] += len(letters)
        for letter in letters:
            fate = fates.get((group, letter.id), Fate())
            _check_content(history, letter, findings)
            _check_limit(letter, fate, limits[group], findings)
            _check_end(letter, fate, found, resent, int(settle_s * SECOND_NS), findings)
        _check_exhausted(history, group, letters, fates, limits[group], resent, found[-1], findings)
        _check_copies(letters, resent, findings)
        undecided += _check_resent(history, group, letters, fates, findings)
    reason = f"{undecided} readings or resent letters are missing" if undecided else ""
    is_judged = limits and findings.counts["letters"] > 0
    return findings.verdict(unknown=reason if is_judged else "no dead letter was read")


def _fates_of(history: History) -> Fates:
    fates: defaultdict[tuple[str, str], Fate] = defaultdict(Fate)
    for delivery in history.once(deliveries_of):
        fates[delivery.group, delivery.id].deliveries.append(delivery)
    for group, id_, operation, outcome in _failures(history):
        fate = fates[group, id_]
        is_straight = operation.asked.get("level") == _STRAIGHT
        fate.is_straight |= is_straight and operation.kind is not Kind.FAIL
        if operation.is_ok and outcome in ("retry", "dead_letter"):
            fate.failures.append(operation)
        if operation.is_ok and (outcome == "dead_letter" or is_straight):
            fate.buried.append(operation)
    for operation in history.of(Verb.ACK):
        if operation.is_ok:
            for id_ in operation.asked["ids"]:
                fates[operation.asked["group"], id_].acks.append(operation)
    return fates


def _failures(history: History) -> Iterator[tuple[str, str, Operation, str]]:
    """Yield each answer about a failed message: group, id, and what became of it."""
    for operation in history.of(Verb.NACK):
        for id_ in operation.asked["ids"]:
            yield operation.asked["group"], id_, operation, "retry"
    for operation in history.of(Verb.BACK):
        outcomes = operation.told.get("outcomes", [""] * len(operation.asked["ids"]))
        for id_, outcome in zip(operation.asked["ids"], outcomes, strict=True):
            yield operation.asked["group"], id_, operation, outcome


def _resends(history: History, group: str, readings: list[Operation]) -> Counter[str]:
    """Return how often each message was, or may have been, sent again."""
    ids = {number: id_ for reading in readings for number, id_, *_ in reading.told["letters"]}
    found: Counter[str] = Counter()
    for operation in history.of(Verb.RESEND):
        numbers = operation.asked["numbers"]
        outcomes = operation.told.get("outcomes", ["sent"] * len(numbers))
        if operation.asked["group"] != group or operation.kind is Kind.FAIL:
            continue
        for number, outcome in zip(numbers, outcomes, strict=True):
            found[ids.get(number, "")] += outcome == "sent"
    return found


def _check_readings(group: str, readings: list[Operation], findings: Findings) -> None:
    """Check that a letter never changes and never goes while the run lasts."""
    before: dict[int, list[object]] = {}
    for reading in readings:
        letters = {values[0]: values for values in reading.told["letters"]}
        for number, values in before.items():
            if letters.get(number) != values:
                findings.violation(f"letter {number} of {group} changed or went:", reading)
        before = letters


def _check_content(history: History, letter: Letter, findings: Findings) -> None:
    origin = history.once(origins_of).get(letter.id)
    if origin is None:
        findings.violation("nobody sent what is a dead letter:", letter)
        return
    if origin.digest != letter.digest:
        findings.violation("another body than was sent:", letter)
    sent = history.once(sends_of).by_id.get(letter.id)
    if sent is None or sent.place is None:
        return
    if (*sent.place, sent.offset) != (letter.topic, letter.queue, letter.offset):
        findings.violation(f"says that it comes from elsewhere than {sent}:", letter)


def _check_limit(letter: Letter, fate: Fate, failures_max: int, findings: Findings) -> None:
    findings.counts["straight"] += fate.is_straight
    if letter.failures != failures_max + 1 and not fate.is_straight:
        findings.violation(f"died of {letter.failures} failures, not {failures_max + 1}:", letter)


def _check_end(
    letter: Letter,
    fate: Fate,
    readings: list[Operation],
    resent: Counter[str],
    settle_ns: int,
    findings: Findings,
) -> None:
    """Check that a dead letter was not done, and is not tried any more unless sent again."""
    if resent[letter.id]:
        return
    if len(fate.failures) > letter.failures:
        findings.violation(f"failed {len(fate.failures)} times by its answers:", letter)
    if fate.acks:
        findings.violation("is acknowledged and dead:", letter, fate.acks[0])
    first = next(r for r in readings if any(v[0] == letter.number for v in r.told["letters"]))
    for delivery in fate.deliveries:
        if delivery.start_ns > first.end_ns + settle_ns:
            findings.violation("was dead and came:", letter, "in", delivery)


def _may_be_forgotten(given: Delivery, fate: Fate, cuts_ns: list[int]) -> bool:
    """Say whether a power cut may have taken back that a message was handed out.

    The answer of a `receive` does not wait for the disk, the one about a failure does.
    """
    settled_ns = min((f.end_ns for f in fate.failures if f.end_ns > given.start_ns), default=None)
    return any(
        given.start_ns <= cut_ns and (settled_ns is None or cut_ns < settled_ns)
        for cut_ns in cuts_ns
    )


def _check_exhausted(
    history: History,
    group: str,
    letters: list[Letter],
    fates: Fates,
    failures_max: int,
    resent: Counter[str],
    last: Operation,
    findings: Findings,
) -> None:
    """Check that what has failed too often, or was buried, is a dead letter."""
    cuts_ns = [at_ns for at_ns, fault, _ in faults_of(history) if fault == CUT]
    dead = {letter.id for letter in letters}
    for (of_group, id_), fate in fates.items():
        if of_group != group or resent[id_]:
            continue
        handed_out = [d for d in fate.deliveries if "invisible_ms" in d.operation.asked]
        forgotten = sum(_may_be_forgotten(given, fate, cuts_ns) for given in handed_out)
        findings.counts["forgotten"] += forgotten
        if len(handed_out) > failures_max + 1 + forgotten:
            findings.violation(f"{id_} was handed out {len(handed_out)} times to {group}")
        known = [failure for failure in fate.failures if failure.end_ns < last.start_ns]
        buried = [answer for answer in fate.buried if answer.end_ns < last.start_ns]
        if (len(known) > failures_max or buried) and id_ not in dead:
            findings.counts["missing"] += 1
            findings.violation(f"{id_} has failed for good and is no dead letter of {group}")


def _check_copies(letters: list[Letter], resent: Counter[str], findings: Findings) -> None:
    for id_, copies in Counter(letter.id for letter in letters).items():
        if copies > 1 + resent[id_]:
            findings.counts["doubled"] += 1
            findings.violation(f"{id_} is {copies} dead letters")


def _check_resent(
    history: History, group: str, letters: list[Letter], fates: Fates, findings: Findings
) -> int:
    """Check that each letter is sent again once at most and comes; return how many may yet."""
    sent: defaultdict[int, list[Operation]] = defaultdict(list)
    for operation in history.of(Verb.RESEND):
        if operation.is_ok and operation.asked["group"] == group:
            asked = operation.asked["numbers"]
            for number, outcome in zip(asked, operation.told["outcomes"], strict=True):
                findings.counts[f"resent {outcome}"] += 1
                if outcome == "sent":
                    sent[number].append(operation)
    undecided = 0
    for letter in letters:
        answers = sent[letter.number]
        if len(answers) > 1:
            findings.violation(f"letter {letter.number} of {group} was sent twice:", answers[1])
        if not answers:
            continue
        came = [
            delivery
            for delivery in fates.get((group, letter.id), Fate()).deliveries
            if delivery.start_ns >= answers[0].start_ns
        ]
        places = {(delivery.place, delivery.offset) for delivery in came}
        if came:
            findings.counts["came again"] += 1
        elif drained_ns(history, group, since_ns=answers[0].end_ns) is None:
            undecided += 1
        else:
            findings.violation("was sent again and never came:", letter)
        if len({place for place in places if place[0].topic == letter.topic}) > 1:
            findings.violation(f"came again at {len(places)} places:", letter)
    return undecided
