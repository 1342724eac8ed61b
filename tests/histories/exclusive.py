"""INV-6: an ordered queue is with one listener at a time, and only with its lock's holder.

What is looked at is a delivery from its begin until its listener returns, its process ends or its
lease is over, whichever is first: beyond its lease a listener may still run, and no lock can stop
it, but nothing it reports afterwards may be accepted.

An epoch names one uninterrupted possession of a lock. A holder may keep both over a restart of the
broker; whatever is granted anew after it has a higher epoch than all before it.
"""

from bisect import bisect_right

from tests.histories import acts
from tests.histories.deliveries import (
    Delivery,
    Queue,
    by_queue,
    deliveries_of,
    ordered_topics,
)
from tests.histories.events import Verb
from tests.histories.faults import (
    Pause,
    broker_ends,
    broker_starts,
    is_refused_for_lock,
    pauses_of,
    was_paused_before,
)
from tests.histories.history import NEVER_NS, SECOND_NS, History, Operation
from tests.histories.leases import Grant, Leases
from tests.histories.sends import Place
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-6 exclusive queue"


def check(history: History) -> Verdict:
    """Check deliveries against leases and each other, grants against each other, and commits."""
    findings = Findings(NAME)
    ordered = ordered_topics(history)
    leases = history.once(Leases)
    pauses = history.once(pauses_of)
    looked_at = 0
    for queue, deliveries in by_queue(history.once(deliveries_of)).items():
        group, place = queue
        if (group, place.topic) in ordered:
            looked_at += len(deliveries)
            fences = [act for act in history.once(acts.by_queue).get(queue, ()) if act.is_fence]
            _check_deliveries(deliveries, leases, pauses, fences, findings)
    restarts = list(zip(broker_ends(history), broker_starts(history)[1:], strict=False))
    for queue, grants in leases.by_queue.items():
        _check_grants(history, queue, grants, leases, findings)
        _check_restarts(queue, grants, leases, restarts, findings)
    for operation in history.of(Verb.COMMIT):
        _check_commit(operation, ordered, leases, findings)
    findings.counts["stale_refused"] = sum(
        is_refused_for_lock(operation.kind, operation.told.get("code"))
        for verb in (Verb.COMMIT, Verb.PULL, Verb.ACK)
        for operation in history.of(verb)
    )
    findings.counts["deliveries"] = looked_at
    return findings.verdict(unknown="" if looked_at else "nothing was delivered in order")


def _check_deliveries(
    deliveries: list[Delivery],
    leases: Leases,
    pauses: dict[str, list[Pause]],
    fences: list[acts.Act],
    findings: Findings,
) -> None:
    held_by: Delivery | None = None
    held_until_ns = 0
    # Messages of one run of a listener are one delivery here.
    for delivery in {delivery.operation.key: delivery for delivery in deliveries}.values():
        lease_end_ns = leases.reliable_end_ns(delivery)
        if any(f.start_ns <= delivery.start_ns <= f.end_ns + acts.SETTLE_NS for f in fences):
            # Its lock may have been taken from it a moment ago.
            findings.counts["begun before it knew"] += 1
            continue
        lease_end_ns = min([lease_end_ns, *_fences_in(fences, delivery, lease_end_ns)])
        if lease_end_ns == 0:
            findings.violation("delivered without a lock:", delivery)
        elif delivery.start_ns > lease_end_ns:
            findings.counts["begun_after_lease"] += 1
            if not was_paused_before(pauses.get(delivery.operation.process, []), delivery.start_ns):
                late_s = (delivery.start_ns - lease_end_ns) / SECOND_NS
                findings.violation(f"begun {late_s:.3f} s after its lease was over:", delivery)
            continue
        if delivery.start_ns < held_until_ns:
            findings.counts["overlaps"] += 1
            findings.violation("overlap:", held_by, "and", delivery)
        # Without a lock there is no lease to end it: the whole run counts.
        end_ns = min(delivery.end_ns, lease_end_ns or NEVER_NS)
        if end_ns > held_until_ns:
            held_by, held_until_ns = delivery, end_ns


def _fences_in(fences: list[acts.Act], delivery: Delivery, lease_end_ns: int) -> list[int]:
    """Return when operators took the lock away while it protected a delivery."""
    return [f.start_ns for f in fences if delivery.start_ns < f.start_ns < lease_end_ns]


def _check_grants(
    history: History, queue: Queue, grants: list[Grant], leases: Leases, findings: Findings
) -> None:
    owners: dict[int, str] = {}
    for grant in grants:
        if owners.setdefault(grant.epoch, grant.client) != grant.client:
            findings.violation("one epoch for two clients:", _of(queue), grant)
    for grant in grants:
        newest = leases.newest(queue, grant.start_ns)
        if newest is None:
            continue
        if grant.epoch < newest.epoch:
            findings.violation("epoch fell:", _of(queue), newest, "then", grant)
        if grant.client == newest.client:
            findings.counts["renewals"] += grant.epoch == newest.epoch
            continue
        findings.counts["take-overs"] += 1
        is_given_back = leases.release_ns(queue, newest) < grant.end_ns
        is_given_back |= acts.are_fenced(history, queue, newest.start_ns, grant.end_ns)
        if grant.end_ns < newest.lease_end_ns and not is_given_back:
            findings.violation("granted while another's lease ran:", _of(queue), newest, grant)


def _check_restarts(
    queue: Queue,
    grants: list[Grant],
    leases: Leases,
    restarts: list[tuple[int, int]],
    findings: Findings,
) -> None:
    for ended_ns, started_ns in restarts:
        before = leases.newest(queue, ended_ns)
        index = bisect_right(grants, started_ns, key=lambda grant: grant.start_ns)
        if before is None or index == len(grants):
            continue
        # Later ones are compared with this one like any others.
        after = grants[index]
        is_kept = (after.client, after.epoch) == (before.client, before.epoch)
        findings.counts["kept over a restart" if is_kept else "granted after a restart"] += 1
        if not is_kept and after.epoch <= before.epoch:
            findings.violation("epoch did not rise over a restart:", _of(queue), before, after)


def _check_commit(
    operation: Operation,
    ordered: frozenset[tuple[str, str]],
    leases: Leases,
    findings: Findings,
) -> None:
    if not operation.is_ok:
        return
    group = operation.asked["group"]
    for topic, queue, _, epoch in operation.asked["offsets"]:
        place = Place(topic, queue)
        if (group, topic) not in ordered:
            continue
        if epoch is None:
            findings.violation("committed without an epoch:", place, operation)
            continue
        findings.counts["commits"] += 1
        newest = leases.newest((group, place), operation.start_ns)
        if newest is not None and newest.epoch > epoch:
            findings.violation(f"epoch {epoch} accepted after", newest, "in", place, operation)


def _of(queue: Queue) -> str:
    group, place = queue
    return f"{group} {place}"
