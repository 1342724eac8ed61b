"""INV-2 and INV-3: what comes was sent, as it was sent, and lies at one place of its own."""

from tests.histories.deliveries import deliveries_of
from tests.histories.events import Kind
from tests.histories.history import History
from tests.histories.origins import is_own_topic, origins_of, resent_ids
from tests.histories.sends import Place, sends_of
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-2 phantoms"


def check(history: History) -> Verdict:
    """Check ids, digests and places of everything that was acknowledged or delivered."""
    findings = Findings(NAME)
    sends, origins = history.once(sends_of), history.once(origins_of)
    resent = history.once(resent_ids)
    for id_ in sends.repeated_ids:
        findings.violation(f"two messages were sent as {id_}: the run is useless")
    at: dict[tuple[Place, int], str] = {}
    lies: dict[str, tuple[Place, int]] = {}

    def lies_at(id_: str, place: Place, offset: int, who: object) -> None:
        if at.setdefault((place, offset), id_) != id_:
            findings.violation(f"{place}@{offset} is {at[place, offset]} and {id_}:", who)
        # A retry is a copy of the product's own, and what is sent again lies there once more.
        if is_own_topic(place.topic) or id_ in resent:
            return
        if lies.setdefault(id_, (place, offset)) != (place, offset):
            findings.violation(f"{id_} lies at {lies[id_]} and {place}@{offset}:", who)

    for sent in sends.by_id.values():
        if sent.place is not None and sent.offset is not None:
            lies_at(sent.id, sent.place, sent.offset, sent.operation)
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
        lies_at(delivery.id, delivery.place, delivery.offset, delivery)
    findings.counts["deliveries"] = len(deliveries)
    return findings.verdict(unknown="" if deliveries else "nothing was delivered")
