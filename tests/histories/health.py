"""Whether a run shows anything: enough of it worked, its faults happened, what is rare happened.

Knows histories and verdicts; the promises are other modules' concern.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from tests.histories.events import Kind
from tests.histories.faults import faults_of
from tests.histories.history import History
from tests.histories.verdicts import Findings, Verdict

_OK_SHARE_MIN = 0.5
# What faults make of an operation, and what locks are there to do. Who stood still while
# something was synced has waited for that for too long, by every clock.
EXPECTED_CODES = frozenset(
    {
        "lock_lost",
        "stale_generation",
        "unanswered",
        "stopping",
        "unreachable",
        "flush_timeout",
        "sync_stuck",
        "head_moved",
        "not_ordered",
    }
)


def check(
    history: History,
    *,
    is_disturbed: bool = True,
    expected_codes: Collection[str] = EXPECTED_CODES,
) -> Verdict:
    """Say that a run shows nothing when too little of it worked or no fault was made.

    A failure whose code nobody expects makes the run invalid as well.
    """
    findings = Findings("run")
    kinds: Counter[Kind] = Counter()
    codes: Counter[str] = Counter()
    for operation in history.operations:
        kinds[operation.kind] += 1
        findings.counts[f"{operation.verb} {operation.kind}"] += 1
        if not operation.is_ok and "code" in operation.told:
            codes[operation.told["code"]] += 1
    findings.counts.update({f"code {code}": count for code, count in codes.items()})
    for code, count in codes.items():
        if code not in expected_codes:
            findings.violation(f"{count} operations ended with {code}, which nobody expects")
    total = kinds.total()
    if total and kinds[Kind.OK] < _OK_SHARE_MIN * total:
        findings.violation(f"only {kinds[Kind.OK]} of {total} operations were answered with ok")
    if is_disturbed and not faults_of(history):
        findings.violation("no fault was made")
    findings.counts["torn lines"] = history.torn_lines
    return findings.verdict(unknown="" if total else "nothing happened")


def sometimes(wanted: Collection[str], counts: Mapping[str, int | float]) -> Verdict:
    """Check that each of these happened at least once: a run that never got there shows nothing."""
    findings = Findings("sometimes")
    for name in sorted(wanted):
        if not counts.get(name):
            findings.violation(f"never happened: {name}")
    found = {name: counts.get(name, 0) for name in wanted}
    return findings.verdict(counts=found, unknown="" if wanted else "nothing was asked for")
