"""How long a queue stood still after its lock's holder was killed or stopped. Judges the bound."""

from tests.histories.faults import PAUSE, faults_of
from tests.histories.history import SECOND_NS, History
from tests.histories.leases import Leases
from tests.histories.verdicts import Findings, Verdict

NAME = "take-over"


def check(
    history: History, *, lease_s: float, grace_s: float = 2.0, slack_s: float = 0.0
) -> Verdict:
    """Check that another client holds the lock of each queue within lease and grace.

    `slack_s` is added once more for what is not the lock's: a broker that was away meanwhile. A
    holder that stood still for less than its lease, and so went on, is not counted.
    """
    findings = Findings(NAME)
    leases = history.once(Leases)
    processes = _processes(history)
    slowest_s, fastest_s = 0.0, float("inf")
    for at_ns, fault, target in history.once(faults_of):
        for queue, grants in leases.by_queue.items():
            holder = leases.newest(queue, at_ns)
            if holder is None or processes.get(holder.client) != target:
                continue
            if holder.lease_end_ns < at_ns or leases.release_ns(queue, holder) < at_ns:
                continue
            heir = next((grant for grant in grants if grant.end_ns > at_ns), None)
            if fault == PAUSE and (heir is None or heir.client == holder.client):
                continue
            group, place = queue
            if heir is None:
                findings.violation(f"{group} {place}: nobody took over from {holder.client}")
                continue
            took_s = (heir.end_ns - at_ns) / SECOND_NS
            slowest_s, fastest_s = max(slowest_s, took_s), min(fastest_s, took_s)
            findings.counts["take-overs"] += 1
            if took_s > lease_s + grace_s + slack_s:
                findings.violation(
                    f"{group} {place}: {heir.client} took {took_s:.3f} s to follow {holder.client}"
                )
    counts = {"slowest s": slowest_s, "fastest s": fastest_s} if slowest_s else {}
    is_seen = findings.counts["take-overs"] > 0
    return findings.verdict(unknown="" if is_seen else "no holder was lost", counts=counts)


def _processes(history: History) -> dict[str, str]:
    return {
        operation.asked["client"]: operation.process
        for operation in history.operations
        if "client" in operation.asked
    }
