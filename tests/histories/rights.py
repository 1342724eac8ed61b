"""INV-17: nothing is sent or given at a time when every policy that may be in force denies it.

A policy may be in force from the begin of the change that makes it until the next one has been made
and every door has had its time to learn of it. A call is looked at from the moment on from which it
can have been decided: a message that was sent while somebody waited cannot have been given before.
A refusal is wrong when every policy that may be in force allows the call.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.histories.history import NEVER_NS, SECOND_NS
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-17 rights"

Right = tuple[str, str, str]
"""Who, does what, with what: `("till", "pub", "topic orders")`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All rights there are by one version; made between two moments, and none before is after."""

    begun_ns: int
    done_ns: int
    rights: frozenset[Right]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, or one message of a stream; it needs all of its rights.

    It can have been decided between `start_ns` and `end_ns`. `is_refused` is a denial; what is
    neither carried out nor refused says nothing.
    """

    needs: tuple[Right, ...]
    start_ns: int
    end_ns: int
    is_ok: bool = False
    is_refused: bool = False
    what: str = ""

    def __str__(self) -> str:
        """Return it as evidence has it."""
        return f"{self.what or ' '.join(self.needs[0])} at {self.start_ns}..{self.end_ns} ns"


def check(calls: Iterable[Call], policies: Sequence[Policy], *, grace_s: float) -> Verdict:
    """Check every call against the policies that may be in force while it is decided.

    Doors learn of a policy within `grace_s` after it was made. Unknown without a call that was
    carried out, and without one that was refused.
    """
    findings = Findings(NAME)
    begun = [policy.begun_ns for policy in policies]
    # Each is over when the next is made and known; the last one never is.
    over = [policy.done_ns + round(grace_s * SECOND_NS) for policy in policies[1:]] + [NEVER_NS]
    if begun != sorted(begun) or over != sorted(over):
        findings.violation("the policies are not in order, so nothing can be said of them")
    counts = findings.counts
    for call in calls:
        first, last = bisect_left(over, call.start_ns), bisect_right(begun, call.end_ns)
        allowing = [policy.rights.issuperset(call.needs) for policy in policies[first:last]]
        if not allowing:
            findings.violation("no policy was in force:", call)
        counts["while it changed"] += len(set(allowing)) > 1
        if call.is_ok:
            counts["carried out"] += 1
            if not any(allowing):
                findings.violation("carried out, and denied by every policy in force:", call)
        elif call.is_refused:
            counts["refused"] += 1
            if all(allowing):
                findings.violation("refused, and allowed by every policy in force:", call)
    is_known = counts["carried out"] and counts["refused"]
    return findings.verdict(unknown="" if is_known else "nothing was carried out, or all of it")
