"""INV-11: what lies in the stopped store is what the clients were told, and is whole.

An inspection is what somebody else than the product read out of its files: the records of the log
in their order, the queues derived from it, and what does not fit together. Here it is compared with
what clients know.
"""

from collections import defaultdict
from itertools import pairwise

from tests.histories.deliveries import deliveries_of
from tests.histories.events import Verb
from tests.histories.history import History, Operation
from tests.histories.offsets import facts_of
from tests.histories.origins import is_own_topic, origins_of
from tests.histories.sends import Place
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-11 structure"
Records = dict[tuple[Place, int], tuple[str, str]]
"""Id and digest of each message, by place and offset."""


def check(history: History) -> Verdict:
    """Check every inspection against all that was known before it began."""
    findings = Findings(NAME)
    inspections = [operation for operation in history.of(Verb.INSPECT) if operation.is_ok]
    for inspection in inspections:
        told = inspection.told
        for fault in told["faults"]:
            findings.violation("does not fit together:", fault)
        _check_epochs(told["epochs"], findings)
        records = _records(inspection, findings)
        _check_queues(inspection, records, findings)
        _check_known(history, inspection, records, findings)
        _check_origins(history, inspection, records, findings)
        findings.counts["records"] += len(records)
    findings.counts["inspections"] = len(inspections)
    return findings.verdict(unknown="" if findings.counts["records"] else "nothing was inspected")


def _records(inspection: Operation, findings: Findings) -> Records:
    found: Records = {}
    for topic, queue, offset, id_, digest in inspection.told["records"]:
        key = (Place(topic, queue), offset)
        if key in found:
            findings.violation(f"{key[0]}@{offset} has two records, {found[key][0]} and {id_}")
        found[key] = (id_, digest)
    return found


def _check_epochs(epochs: list[int], findings: Findings) -> None:
    """Check that each writer of the log has a higher epoch than those before it."""
    findings.counts["epochs"] += len(epochs)
    if any(later <= earlier for earlier, later in pairwise(epochs)):
        findings.violation(f"epochs of the log do not rise: {epochs}")


def _check_queues(inspection: Operation, records: Records, findings: Findings) -> None:
    """Check that each queue is its records, from its first offset to its end, and no others."""
    offsets: defaultdict[Place, list[int]] = defaultdict(list)
    for place, offset in sorted(records):
        offsets[place].append(offset)
    for topic, queue, first, end in inspection.told["queues"]:
        place = Place(topic, queue)
        found = [offset for offset in offsets.pop(place, []) if offset >= first]
        if found != list(range(first, end)):
            findings.counts["queues that differ"] += 1
            findings.violation(
                f"{place} has {end - first} entries from {first} on and {len(found)} records"
            )
    for place in offsets:
        findings.violation(f"{place} has records and no queue")


def _check_known(
    history: History, inspection: Operation, records: Records, findings: Findings
) -> None:
    """Check that everything clients know of is where they were told that it is."""
    topics = set(inspection.asked["topics"])
    for place, known in history.once(facts_of).items():
        if place.topic not in topics:
            continue
        for fact in known:
            if fact.known_ns >= inspection.start_ns:
                break
            id_, _ = records.get((place, fact.offset), ("", ""))
            findings.counts["known places"] += 1
            if not id_ or id_ != (fact.id or id_):
                findings.counts["not there"] += 1
                findings.violation(f"{place}@{fact.offset} is {id_ or 'nothing'}:", fact.who)
    for delivery in history.once(deliveries_of):
        lies = records.get((delivery.place, delivery.offset))
        is_another = lies is not None and lies[1] != delivery.digest
        if is_another and delivery.start_ns < inspection.start_ns:
            findings.violation("another body than was delivered:", delivery)


def _check_origins(
    history: History, inspection: Operation, records: Records, findings: Findings
) -> None:
    """Check that every record is what somebody sent, as it was sent."""
    origins = history.once(origins_of)
    for (place, offset), (id_, digest) in records.items():
        origin = origins.get(id_)
        if origin is None:
            findings.violation(f"nobody sent {id_}, which is {place}@{offset}")
        elif origin.digest != digest and not is_own_topic(place.topic):
            findings.violation(f"{place}@{offset} has another body than was sent as {id_}")
