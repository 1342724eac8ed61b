"""INV-7: what is delayed comes once, not before its time, soon after it, and not when cancelled.

The time is reckoned twice: by the wall clock, and by the steady clock from the moment the message
was handed over. The later of the two counts, whatever was done to the wall clock meanwhile.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from tests.histories.deliveries import Delivery, deliveries_of, subscriptions_of
from tests.histories.events import Kind, Verb
from tests.histories.history import NEVER_NS, SECOND_NS, History, Operation
from tests.histories.origins import is_own_topic
from tests.histories.outages import Outages
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-7 delay"
_MS_NS = 1_000_000


class Delayed(NamedTuple):
    """A message with a due time. `due_steady_ns` is that time by the steady clock."""

    id: str
    topic: str
    due_ms: int
    due_steady_ns: int
    operation: Operation


class Wishes(NamedTuple):
    """What was asked about one delayed message since: answers that cancel or hasten it."""

    cancelled: list[Operation]
    delivered: list[Operation]
    """Answers that said it had been delivered, by a recall or for being sent before its time."""
    unknown: list[Operation]
    """Answers that said that nobody knows it."""
    unanswered: list[Operation]
    hastened_ns: int
    """When somebody first wanted it before its time, NEVER_NS when nobody did."""


def delayed_of(history: History) -> list[Delayed]:
    """Return everything that was sent with a due time."""
    found = []
    for operation in history.of(Verb.DELAY):
        for id_, _, due_ms in operation.asked["messages"]:
            steady_ns = operation.start_ns + due_ms * _MS_NS - operation.wall_ns
            found.append(Delayed(id_, operation.asked["topic"], due_ms, steady_ns, operation))
    return found


def check(history: History, *, late_s: float = 5.0) -> Verdict:
    """Check each delayed message against its deliveries and its recalls.

    Without an outage it has come to every group of its topic `late_s` after its time at the latest;
    `latest ms` is the longest that one took, outages not counted.
    """
    findings = Findings(NAME)
    delayed, wishes = history.once(delayed_of), history.once(_wishes_of)
    given: defaultdict[str, list[Delivery]] = defaultdict(list)
    for delivery in history.once(deliveries_of):
        given[delivery.id].append(delivery)
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for group, topic in history.once(subscriptions_of):
        groups[topic].append(group)
    outages, late_ns = Outages(history), int(late_s * SECOND_NS)
    undecided, latest_ms = 0, 0.0
    for message in delayed:
        about, came = wishes.get(message.id, _NOBODY), given[message.id]
        findings.counts["delayed"] += 1
        _check_early(message, about, came, findings)
        _check_once(message, came, findings)
        _check_answers(message, about, came, findings)
        if message.operation.kind is not Kind.OK or about.cancelled or about.unanswered:
            continue
        for group in groups[message.topic]:
            delivery = next((one for one in came if one.group == group), None)
            first = NEVER_NS if delivery is None else delivery.start_ns
            seen = history.operations[-1] if delivery is None else delivery.operation
            start_ns = min(_due_ns(message, seen), about.hastened_ns)
            until_ns = outages.time_to_go(max(start_ns, message.operation.end_ns), late_ns)
            if first > until_ns and until_ns < history.end_ns:
                what = "never came" if first == NEVER_NS else f"came {_s(first - start_ns)} late"
                findings.violation(f"{what} to {group}:", _said(message))
                findings.counts["lost" if first == NEVER_NS else "late"] += 1
            elif first == NEVER_NS:
                undecided += 1
            else:
                latest_ms = max(latest_ms, (first - until_ns + late_ns) / _MS_NS)
                findings.counts["came"] += 1
    reason = f"{undecided} messages may not be due yet" if undecided else ""
    reason = reason if delayed else "nothing was delayed"
    return findings.verdict(unknown=reason, counts={"latest ms": latest_ms})


_NOBODY = Wishes([], [], [], [], NEVER_NS)


def _wishes_of(history: History) -> Mapping[str, Wishes]:
    found: dict[str, Wishes] = {}
    for operation in (*history.of(Verb.RECALL), *history.of(Verb.HASTEN)):
        id_, is_hastened = operation.asked["id"], operation.verb is Verb.HASTEN
        about = found.get(id_) or Wishes([], [], [], [], NEVER_NS)
        if is_hastened and operation.kind is not Kind.FAIL:
            about = about._replace(hastened_ns=min(about.hastened_ns, operation.start_ns))
        found[id_] = about
        if operation.is_ok:
            answers = {
                "cancelled": about.cancelled,
                "delivered": about.delivered,
                "unknown": about.unknown,
            }
            answers[operation.told["outcome"]].append(operation)
        elif operation.kind is Kind.INFO and not is_hastened:
            about.unanswered.append(operation)
    return found


def _due_ns(message: Delayed, seen: Operation) -> int:
    """Return by the steady clock when it was due, by both clocks, as an operation saw them."""
    return max(message.due_steady_ns, seen.start_ns + message.due_ms * _MS_NS - seen.wall_ns)


def _check_early(message: Delayed, about: Wishes, came: list[Delivery], findings: Findings) -> None:
    for delivery in came:
        if delivery.start_ns >= about.hastened_ns:
            findings.counts["sent before its time"] += 1
            continue
        early_ns = max(
            message.due_steady_ns - delivery.start_ns,
            message.due_ms * _MS_NS - delivery.operation.wall_ns,
        )
        if early_ns > 0:
            findings.counts["early"] += 1
            findings.violation(f"came {_s(early_ns)} early:", _said(message), "in", delivery)


def _check_once(message: Delayed, came: list[Delivery], findings: Findings) -> None:
    places = {(one.place, one.offset) for one in came if not is_own_topic(one.place.topic)}
    if len(places) > 1:
        findings.counts["delivered twice"] += 1
        findings.violation(f"lies at {len(places)} places:", _said(message))


def _check_answers(
    message: Delayed, about: Wishes, came: list[Delivery], findings: Findings
) -> None:
    findings.counts["cancelled"] += bool(about.cancelled)
    findings.counts["recalled too late"] += bool(about.delivered)
    if about.cancelled and came:
        findings.violation("came though it was cancelled:", _said(message), "in", came[0])
    if about.cancelled and about.delivered:
        findings.violation("was called cancelled and delivered:", about.delivered[0])
    for operation in about.delivered:
        is_due = operation.end_ns >= min(message.due_steady_ns, about.hastened_ns)
        if not is_due:
            findings.violation("was called delivered before its time:", operation)
    if message.operation.is_ok:
        for operation in about.unknown:
            findings.violation("is called unknown and was accepted:", operation)


def _said(message: Delayed) -> str:
    return f"message {message.id} (due {message.due_ms} ms, {message.operation})"


def _s(duration_ns: int) -> str:
    return f"{duration_ns / SECOND_NS:.3f} s"
