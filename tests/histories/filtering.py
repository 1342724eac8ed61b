"""INV-12: a group is given what matches its subscription: all of it, and nothing else."""

from collections.abc import Callable

from tests.histories import acts
from tests.histories.deliveries import Subscribed, deliveries_of, subscriptions_of
from tests.histories.history import SECOND_NS, History
from tests.histories.liveness import drained_ns
from tests.histories.sends import Sent, is_acked, sends_of
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-12 filter"

Matches = Callable[[Sent, Subscribed], bool]


def has_wanted_tag(sent: Sent, wanted: Subscribed) -> bool:
    """Say whether a message has one of the tags that are wanted."""
    return wanted.tags is None or sent.tag in wanted.tags


def check(history: History, *, matches: Matches = has_wanted_tag, settle_s: float = 2.0) -> Verdict:
    """Check both inclusions for each group and topic that was subscribed to.

    After a change of the subscription the version before it may match for `settle_s` more. A
    message that matches some versions and others not may come, and need not.
    """
    findings = Findings(NAME)
    sends, subscriptions = history.once(sends_of), history.once(subscriptions_of)
    given: dict[tuple[str, str], set[str]] = {key: set() for key in subscriptions}
    for delivery in history.once(deliveries_of):
        key = (delivery.group, delivery.place.topic)
        sent = sends.by_id.get(delivery.id)
        if key not in subscriptions or sent is None:
            continue
        given[key].add(delivery.id)
        in_force = _in_force(subscriptions[key], delivery.start_ns, int(settle_s * SECOND_NS))
        if not any(matches(sent, version) for version in in_force):
            findings.violation("does not match and came:", sent, "in", delivery)
        findings.counts["deliveries"] += 1
    for key, ids in history.once(acts.ids_passed_over).items():
        given.setdefault(key, set()).update(ids)
    undecided = 0
    for (group, topic), versions in subscriptions.items():
        is_drained = drained_ns(history, group) is not None
        for sent in sends.by_id.values():
            if sent.operation.asked["topic"] != topic or not is_acked(sent):
                continue
            if not all(matches(sent, version) for version in versions):
                findings.counts["passed over"] += sent.id not in given[group, topic]
            elif sent.id not in given[group, topic]:
                undecided += not is_drained
                if is_drained:
                    findings.violation(f"matches and did not come to {group}:", sent)
    is_shown = subscriptions and findings.counts.total()
    reason = "" if is_shown else "nothing that a group subscribed to was delivered or passed over"
    if undecided:
        reason = f"{undecided} messages may still be on their way"
    return findings.verdict(unknown=reason)


def _in_force(versions: list[Subscribed], at_ns: int, settle_ns: int) -> list[Subscribed]:
    """Return the versions that may rule at a moment; the first also rules before it was said."""
    ends = [version.from_ns for version in versions[1:]]
    return [
        version
        for number, version in enumerate(versions)
        if (number == 0 or version.from_ns <= at_ns)
        and (number == len(ends) or ends[number] + settle_ns >= at_ns)
    ]
