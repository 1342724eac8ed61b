"""INV-6 where no lock is: what is lent for a time is one client's, and comes again from a dead one.

A queue in order has one borrower at a time; what a killed client held comes again, not before its
time is over and not never. A lease written down is never longer than the broker's own. Over the end
of a broker nothing is asked of leases: what it remembers of them is its own affair.
"""

from collections import defaultdict
from typing import NamedTuple

from tests.histories.deliveries import Delivery, Queue, by_queue, deliveries_of, ordered_topics
from tests.histories.events import Kind, Verb
from tests.histories.faults import KILL, Moments, broker_ends, faults_of
from tests.histories.history import NEVER_NS, SECOND_NS, History
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-6 lent messages"
_MS_NS = 1_000_000


class Loan(NamedTuple):
    """A message given to a listener: when its client may have settled it, and how long it is lent.

    Without a time of its own it is renewed for as long as its client lives.
    """

    delivery: Delivery
    settled_ns: int
    lease_end_ns: int

    @property
    def end_ns(self) -> int:
        """Return until when nobody else may have it."""
        return min(self.settled_ns, self.lease_end_ns)


def check(history: History, *, back_s: float) -> Verdict:
    """Check loans of ordered queues against each other, and those of killed clients.

    What a killed client held is given to somebody within `back_s` after its time is over.
    """
    findings = Findings(NAME)
    ends = Moments()
    for at_ns in broker_ends(history):
        ends.add("broker", at_ns)
    loans = history.once(_loans)
    ordered = ordered_topics(history)
    for (group, place), lent in loans.items():
        if (group, place.topic) in ordered:
            _check_queue(lent, ends, findings)
    for at_ns, fault, target in history.once(faults_of):
        for loan in held(history, target, at_ns) if fault == KILL else ():
            findings.counts["held by the killed"] += 1
            lent = loans[loan.delivery.group, loan.delivery.place]
            _check_return(loan, lent, int(back_s * SECOND_NS), ends, findings)
    is_shown = findings.counts["held by the killed"] > 0
    return findings.verdict(unknown="" if is_shown else "no killed client held anything")


def held(history: History, process: str, at_ns: int) -> list[Loan]:
    """Return what a client had at a moment and never began to settle."""
    return [
        loan
        for lent in history.once(_loans).values()
        for loan in lent
        if loan.delivery.operation.process == process
        and loan.delivery.start_ns <= at_ns <= loan.lease_end_ns
        and loan.settled_ns == NEVER_NS
    ]


def _loans(history: History) -> dict[Queue, list[Loan]]:
    """Return what was lent of each queue, by start."""
    acked: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for operation in history.of(Verb.ACK):
        if operation.kind is not Kind.FAIL:
            asked = operation.asked
            for id_ in asked["ids"]:
                acked[asked["group"], asked["client"], id_].append(operation.start_ns)
    found: dict[Queue, list[Loan]] = {}
    for queue, deliveries in by_queue(history.once(deliveries_of)).items():
        found[queue] = []
        for delivery in deliveries:
            times = acked[delivery.group, delivery.client, delivery.id]
            settled_ns = min((t for t in times if t >= delivery.start_ns), default=NEVER_NS)
            invisible_ms = delivery.operation.asked.get("invisible_ms")
            lease_end_ns = history.ended_ns.get(delivery.operation.process, NEVER_NS)
            if invisible_ms is not None:
                lease_end_ns = delivery.start_ns + invisible_ms * _MS_NS
            found[queue].append(Loan(delivery, settled_ns, lease_end_ns))
    return found


def _check_queue(lent: list[Loan], ends: Moments, findings: Findings) -> None:
    last: Loan | None = None
    for loan in lent:
        delivery = loan.delivery
        findings.counts["lent in order"] += 1
        if last is not None and last.delivery.operation.key != delivery.operation.key:
            before = last.delivery
            is_over = ends.any_in("broker", before.start_ns, delivery.start_ns)
            if delivery.start_ns < last.end_ns and not is_over:
                findings.violation("lent while it was another's:", before, "and", delivery)
        if last is None or loan.end_ns > last.end_ns:
            last = loan


def _check_return(
    loan: Loan, lent: list[Loan], back_ns: int, ends: Moments, findings: Findings
) -> None:
    delivery = loan.delivery
    again = next(
        (
            other.delivery
            for other in lent
            if other.delivery.id == delivery.id and other.delivery.start_ns > delivery.start_ns
        ),
        None,
    )
    if again is None:
        findings.violation("never came again:", delivery)
        return
    findings.counts["came again"] += 1
    if ends.any_in("broker", delivery.start_ns, again.start_ns):
        return
    if again.start_ns < loan.lease_end_ns:
        findings.violation("came before its time was over:", delivery, "and", again)
    elif again.start_ns > loan.lease_end_ns + back_ns:
        late_s = (again.start_ns - loan.lease_end_ns) / SECOND_NS
        findings.violation(f"came {late_s:.1f} s after its time:", delivery, "and", again)
