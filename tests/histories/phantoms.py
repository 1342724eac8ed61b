"""INV-2: what comes was sent before it, was not refused, and is as it was sent."""

from tests.histories.deliveries import deliveries_of
from tests.histories.events import Kind
from tests.histories.history import History
from tests.histories.origins import origins_of
from tests.histories.sends import sends_of
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-2 phantoms"


def check(history: History) -> Verdict:
    """Check ids and digests of everything that was delivered."""
    findings = Findings(NAME)
    origins = history.once(origins_of)
    for id_ in history.once(sends_of).repeated_ids:
        findings.violation(f"two messages were sent as {id_}: the run is useless")
    deliveries = history.once(deliveries_of)
    for delivery in deliveries:
        origin = origins.get(delivery.id)
        if origin is None:
            findings.violation("nobody sent it:", delivery)
            continue
        if origin.digest != delivery.digest:
            findings.violation("another body than was sent:", delivery)
        if origin.operation.kind is Kind.FAIL:
            findings.violation("its send was refused:", delivery)
        if delivery.start_ns < origin.operation.start_ns:
            findings.violation("came before it was sent:", delivery)
    findings.counts["deliveries"] = len(deliveries)
    return findings.verdict(unknown="" if deliveries else "nothing was delivered")
