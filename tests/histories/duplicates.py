"""INV-5: a message comes again only for a reason, and never after its acknowledgement.

Every delivery of a message to a group but the first needs a reason between the delivery before it
and itself: its listener asked for it again, its client was killed, stood still or lost the lock,
its queue moved to another member, the broker ended, its lease of messages was over, or what should
have settled it was not answered.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from tests.histories import acts
from tests.histories.commits import Committed
from tests.histories.deliveries import Delivery, deliveries_of
from tests.histories.events import Verb
from tests.histories.faults import (
    Moments,
    broker_ends,
    broker_pauses,
    is_refused_for_lock,
    pauses_of,
    was_paused_before,
)
from tests.histories.history import SECOND_NS, History
from tests.histories.leases import Leases
from tests.histories.sends import Place
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-5 duplicates"


def check(history: History, *, settle_s: float = 2.0) -> Verdict:
    """Check that each repetition has a reason; count them, and messages by times delivered.

    `settle_s` is how long after a queue moved, or was reset, clients may still act on what they had
    been given before.
    """
    findings = Findings(NAME)
    deliveries = history.once(deliveries_of)
    reasons = Reasons(history, settle_ns=int(settle_s * SECOND_NS))
    committed, acked = history.once(Committed), _acked_ns(history)
    before: dict[tuple[str, str], Delivery] = {}
    times: Counter[tuple[str, str]] = Counter()
    for delivery in deliveries:
        message = (delivery.group, delivery.id)
        times[message] += 1
        previous = before.get(message)
        before[message] = delivery
        if previous is None:
            continue
        reason = next(reasons.between(previous, delivery), None)
        if reason is None:
            findings.violation("came again without a reason:", previous, "and", delivery)
        else:
            findings.counts[f"after {reason}"] += 1
        acked_ns = acked.get(message, delivery.start_ns)
        is_acked = acked_ns < delivery.start_ns and not reasons.goes_back(
            delivery, acked_ns, delivery.start_ns
        )
        is_settled = is_acked or (
            committed.before(delivery.group, delivery.place, delivery.start_ns) > delivery.offset
        )
        if is_settled:
            findings.counts["after its acknowledgement"] += 1
            if not reasons.knew_no_better(delivery):
                findings.violation("came again after its acknowledgement:", delivery)
    distribution = Counter(times.values())
    findings.counts["repetitions"] = len(deliveries) - len(times)
    findings.counts.update({f"delivered {n} x": count for n, count in distribution.items()})
    return findings.verdict(unknown="" if deliveries else "nothing was delivered")


class Reasons:
    """Why a message may come again."""

    def __init__(self, history: History, *, settle_ns: int) -> None:
        """Index everything that happened to clients, queues and the broker."""
        self._settle_ns = settle_ns
        self._acts = history.once(acts.by_queue)
        self._pauses = history.once(pauses_of)
        self._broker_pauses = broker_pauses(history)
        self._ended_ns = history.ended_ns
        self._moments = Moments()
        for at_ns in broker_ends(history):
            self._moments.add("broker", at_ns)
        self._add_moves(history)
        for notice in history.noticed(Verb.RESET):
            self._moments.add(("reset", notice.values["group"]), notice.at_ns)
        for verb in (Verb.COMMIT, Verb.ACK, Verb.PULL, Verb.LOCK):
            for operation in history.of(verb):
                if not operation.is_ok:
                    is_lost = is_refused_for_lock(operation.kind, operation.told.get("code"))
                    what = "lost" if is_lost else "unanswered"
                    at_ns = history.end_of(operation)
                    self._moments.add((what, operation.asked.get("client")), at_ns)
                elif operation.told.get("refused"):
                    self._moments.add(("lost", operation.asked["client"]), operation.end_ns)
        for grants in history.once(Leases).by_queue.values():
            epochs: dict[str, int] = {}
            for grant in grants:
                # Under another epoch it is not the lock the client had: that one was lost.
                if epochs.setdefault(grant.client, grant.epoch) != grant.epoch:
                    self._moments.add(("lost", grant.client), grant.end_ns)
                epochs[grant.client] = grant.epoch
        for operation in history.of(Verb.NACK):
            for id_ in operation.asked["ids"]:
                self._moments.add(("nack", operation.asked["group"], id_), operation.start_ns)

    def between(self, earlier: Delivery, later: Delivery) -> Iterator[str]:
        """Yield what could have brought a message again, most certain first."""
        start_ns, end_ns = earlier.start_ns, later.start_ns
        process = earlier.operation.process
        if not earlier.is_done and earlier.end_ns <= end_ns and earlier.operation.told:
            yield "retry"
        if self._moments.any_in(("nack", earlier.group, earlier.id), start_ns, end_ns):
            yield "retry"
        invisible_ms = earlier.operation.asked.get("invisible_ms")
        if invisible_ms is not None and start_ns + invisible_ms * 1_000_000 <= end_ns:
            yield "an expired lease"
        if self._ended_ns.get(process, end_ns) < end_ns:
            yield "a client's end"
        if any(
            p.pause_ns < end_ns and p.resume_ns > start_ns for p in self._pauses.get(process, ())
        ):
            yield "a client's pause"
        if self._moments.any_in("broker", start_ns, end_ns):
            yield "the broker's end"
        if self._moments.any_in(("lost", earlier.client), start_ns, end_ns):
            yield "a lost lock"
        if self._is_settling(earlier, start_ns, end_ns):
            yield "a rebalance"
        if self._moments.any_in(("reset", earlier.group), start_ns, end_ns):
            yield "a reset"
        if self.goes_back(later, start_ns, end_ns):
            yield "an operator's reset"
        if self._is_fenced(earlier, start_ns - self._settle_ns, end_ns):
            yield "an operator's act"
        if self._moments.any_in(("unanswered", earlier.client), start_ns, end_ns):
            yield "an unknown answer"

    def knew_no_better(self, delivery: Delivery) -> bool:
        """Say whether a client may not have learnt yet that a message is settled.

        It stood still, or the queue moved and it is acting on what it was given before.
        """
        start_ns = delivery.start_ns
        pauses = self._pauses.get(delivery.operation.process, [])
        return (
            was_paused_before(pauses, start_ns)
            or self._is_settling(delivery, start_ns, start_ns)
            or self._moments.any_in(("reset", delivery.group), start_ns - self._settle_ns, start_ns)
            or self._is_fenced(delivery, start_ns - self._settle_ns, start_ns)
        )

    def goes_back(self, delivery: Delivery, start_ns: int, end_ns: int) -> bool:
        """Say whether a reset between two moments has a message come again."""
        return any(
            act.verb is Verb.MOVE
            and act.offset <= delivery.offset
            and act.start_ns <= end_ns
            and act.end_ns >= start_ns
            for act in self._acts.get((delivery.group, delivery.place), ())
        )

    def _is_fenced(self, delivery: Delivery, start_ns: int, end_ns: int) -> bool:
        """Say whether readers of a message's queue had to begin anew between two moments."""
        return any(
            act.is_fence and act.start_ns <= end_ns and act.end_ns >= start_ns
            for act in self._acts.get((delivery.group, delivery.place), ())
        )

    def _add_moves(self, history: History) -> None:
        """Note when a queue came to a client or went from one."""
        had: dict[str, set[Place]] = {}
        for notice in history.noticed(Verb.ASSIGN):
            values = notice.values
            queues = {Place(topic, queue) for topic, queue in values["queues"]}
            for place in queues ^ had.get(values["client"], set()):
                self._moments.add(("moved", values["group"], place), notice.at_ns)
            had[values["client"]] = queues

    def _is_settling(self, delivery: Delivery, start_ns: int, end_ns: int) -> bool:
        moved = ("moved", delivery.group, delivery.place)
        since_ns = start_ns - self._settle_ns
        # Nobody learns anything while the broker stands still: that time does not count.
        for pause in self._broker_pauses:
            if pause.pause_ns < start_ns and pause.resume_ns > since_ns:
                since_ns -= min(pause.resume_ns, start_ns) - pause.pause_ns
        return self._moments.any_in(moved, since_ns, end_ns)


def _acked_ns(history: History) -> Mapping[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for operation in history.of(Verb.ACK):
        if operation.is_ok:
            for id_ in operation.asked["ids"]:
                found.setdefault((operation.asked["group"], id_), operation.end_ns)
    return found
