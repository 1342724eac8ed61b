"""INV-13: after the last fault every queue moves on, nothing hangs, and the lag goes to 0."""

from collections import defaultdict

from tests.histories.deliveries import Queue, by_queue, deliveries_of, subscriptions_of
from tests.histories.events import Verb
from tests.histories.faults import healed_ns
from tests.histories.history import NEVER_NS, SECOND_NS, History, Operation
from tests.histories.sends import Place
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-13 liveness"


def drained_ns(history: History, group: str, *, since_ns: int = 0) -> int | None:
    """Return when a group was first seen to have done all there is, None when it never was.

    Only a reading that began after the last send had its answer, or its process ended, shows that;
    and after `since_ns`, where something was to come by another way than a send.
    """
    last_send_ns = max(
        (history.end_of(operation) for operation in history.of(Verb.SEND)), default=0
    )
    for operation in history.of(Verb.PROGRESS):
        is_of_group = operation.is_ok and operation.asked["group"] == group
        is_late_enough = operation.start_ns >= max(last_send_ns, since_ns)
        if is_of_group and is_late_enough and _has_no_lag(operation):
            return operation.end_ns
    return None


def _has_no_lag(reading: Operation) -> bool:
    offsets = reading.told["offsets"]
    return bool(offsets) and all(committed == end for _, _, committed, end in offsets)


def check(
    history: History, *, advance_s: float = 30.0, drain_s: float = 120.0, open_s: float = 60.0
) -> Verdict:
    """Check what happens after the last heal.

    Within `advance_s` each queue that has something to do gets on; within `drain_s` each group has
    done everything; and no operation of a living client stays open longer than `open_s`.
    """
    findings = Findings(NAME)
    _check_open(history, int(open_s * SECOND_NS), findings)
    healed = history.once(healed_ns)
    if healed is None:
        return findings.verdict(unknown="nobody said that the faults are over")
    groups = {group for group, _ in history.once(subscriptions_of)}
    never_read, slowest_s = 0, 0.0
    for group in sorted(groups):
        readings = [
            operation
            for operation in history.of(Verb.PROGRESS)
            if operation.is_ok and operation.asked["group"] == group and operation.start_ns > healed
        ]
        never_read += not readings
        _check_advance(history, group, readings, healed, int(advance_s * SECOND_NS), findings)
        drained = drained_ns(history, group)
        if drained is not None:
            took_s = (max(drained, healed) - healed) / SECOND_NS
            slowest_s = max(slowest_s, took_s)
            if took_s > drain_s:
                findings.violation(f"{group} took {took_s:.1f} s to drain")
        elif readings:
            findings.violation(f"{group} never drained: {readings[-1].told['offsets']}")
    reason = f"progress of {never_read} groups was never read" if never_read else ""
    counts = {"slowest drain s": slowest_s}
    return findings.verdict(unknown=reason if groups else "no group subscribed", counts=counts)


def _check_open(history: History, open_ns: int, findings: Findings) -> None:
    for operation in history.operations:
        # A process that ended took its operations with it.
        end_ns = min(history.end_of(operation), history.end_ns)
        if end_ns - operation.start_ns > open_ns:
            seconds = (end_ns - operation.start_ns) / SECOND_NS
            state = "stayed open" if operation.end_ns == NEVER_NS else "took"
            findings.violation(f"{state} {seconds:.1f} s:", operation)


def _check_advance(
    history: History,
    group: str,
    readings: list[Operation],
    healed: int,
    advance_ns: int,
    findings: Findings,
) -> None:
    """Check that a queue which had something to do at the first reading is delivered in time."""
    if not readings:
        return
    began: defaultdict[Queue, list[int]] = defaultdict(list)
    for queue, given in by_queue(history.once(deliveries_of)).items():
        began[queue] = [delivery.start_ns for delivery in given if delivery.start_ns >= healed]
    first = readings[0]
    for topic, queue, committed, end in first.told["offsets"]:
        place = Place(topic, queue)
        if committed == end:
            continue
        findings.counts["queues behind at heal"] += 1
        is_advanced = any(at_ns <= healed + advance_ns for at_ns in began[group, place])
        is_done = any(
            offsets[:2] == [topic, queue] and offsets[2] > committed
            for reading in readings
            if reading.end_ns <= healed + advance_ns
            for offsets in reading.told["offsets"]
        )
        if not is_advanced and not is_done:
            findings.violation(f"{group} {place} stood still at {committed} of {end}")
