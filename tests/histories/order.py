"""INV-4: a group that reads in order is given each queue gapless, and each key as it was sent."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tests.histories import acts, commits, givenup
from tests.histories.deliveries import (
    Delivery,
    Queue,
    by_queue,
    deliveries_of,
    existing_offsets,
    ordered_topics,
)
from tests.histories.events import Verb
from tests.histories.faults import pauses_of, was_paused_before
from tests.histories.history import History, Operation
from tests.histories.leases import Leases
from tests.histories.prefix import DonePrefix
from tests.histories.sends import Place, Sends, Sent, sends_of
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-4 order"


class _Moment(NamedTuple):
    """Something that moves a queue on. What ends at a moment is before what begins at it."""

    at_ns: int
    rank: int
    kind: str
    operation: Operation | None
    given: list[Delivery]
    offset: int


def check(history: History) -> Verdict:
    """Check that nothing is skipped or rewound in a queue, and nothing overtakes within a key."""
    findings = Findings(NAME)
    sends, deliveries = history.once(sends_of), history.once(deliveries_of)
    ordered = ordered_topics(history)
    in_order = [d for d in deliveries if (d.group, d.place.topic) in ordered]
    queues = by_queue(in_order)
    offsets = existing_offsets(history, sends, queues)
    moves = _moves(history)
    allowance = _StaleAllowance(history)
    for queue, given in queues.items():
        prefix = DonePrefix(*offsets[queue])
        _check_queue(given, prefix, moves.get(queue, []), allowance, findings)
    _check_keys(sends, in_order, ordered, findings)
    findings.counts["deliveries"] = len(in_order)
    return findings.verdict(unknown="" if in_order else "nothing was delivered in order")


def _moves(history: History) -> dict[Queue, list[_Moment]]:
    found: defaultdict[Queue, list[_Moment]] = defaultdict(list)
    for queue, operation, offset in commits.certain(history):
        found[queue].append(_Moment(operation.end_ns, 0, "commit", operation, [], offset))
    for kind, notices in (("dead", givenup.dead(history)), ("reset", history.noticed(Verb.RESET))):
        for notice in notices:
            values = notice.values
            queue_of_group = (values["group"], Place(values["topic"], values["queue"]))
            moment = _Moment(notice.at_ns, 0, kind, None, [], values["offset"])
            found[queue_of_group].append(moment)
    for act in acts.of(history, Verb.SKIP, Verb.PARK, Verb.MOVE):
        # From the request on it may be in force, and a little longer clients may not know.
        kind = "reset" if act.verb is Verb.MOVE else "dead"
        found[act.queue].append(_Moment(act.start_ns, 0, kind, None, [], act.offset))
    return found


def _check_queue(
    given: list[Delivery],
    prefix: DonePrefix,
    moves: list[_Moment],
    allowance: "_StaleAllowance",
    findings: Findings,
) -> None:
    runs: defaultdict[tuple[str, int], list[Delivery]] = defaultdict(list)
    for delivery in given:
        runs[delivery.operation.key].append(delivery)
    moments = list(moves)
    for run in runs.values():
        operation = run[0].operation
        moments.append(_Moment(operation.start_ns, 1, "begin", operation, run, 0))
        if operation.is_ok:
            moments.append(_Moment(operation.end_ns, 0, "end", operation, run, 0))
    moments.sort(key=lambda moment: moment[:2])
    committed = 0
    for moment in moments:
        match moment.kind:
            case "begin":
                _check_run(moment.given, prefix, committed, allowance, findings)
            case "end":
                for delivery in moment.given:
                    if delivery.is_done:
                        prefix.done(delivery.offset)
            case "commit":
                committed = max(committed, moment.offset)
            case "dead":
                prefix.done(moment.offset)
            case "reset":
                prefix.move_to(moment.offset)
                committed = moment.offset


class _StaleAllowance:
    """Says whether a delivery is that of a client that stood still and has not looked yet."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._leases = history.once(Leases)
        self._pauses = history.once(pauses_of)

    def is_unaware(self, delivery: Delivery) -> bool:
        """Say whether an operator had the queue's readers begin anew a moment ago."""
        queue, start_ns = (delivery.group, delivery.place), delivery.start_ns
        return acts.are_fenced(self._history, queue, start_ns - acts.SETTLE_NS, start_ns)

    def covers(self, delivery: Delivery) -> bool:
        """Say whether its process stood still and its lease was over as it began."""
        pauses = self._pauses.get(delivery.operation.process, [])
        is_stale = delivery.start_ns > self._leases.reliable_end_ns(delivery)
        return is_stale and was_paused_before(pauses, delivery.start_ns)


def _check_run(
    run: list[Delivery],
    prefix: DonePrefix,
    committed: int,
    allowance: _StaleAllowance,
    findings: Findings,
) -> None:
    index = prefix.index
    previous = -1
    for delivery in run:
        if delivery.offset <= previous:
            findings.violation("backwards within a batch:", delivery)
        if allowance.is_unaware(delivery):
            findings.counts["begun before it knew"] += 1
            continue
        if delivery.offset > prefix.offset_at(index):
            findings.violation(f"skipped {prefix.offset_at(index)}:", delivery)
            # One gap is one finding: what comes behind it is judged from there.
            prefix.move_to(delivery.offset)
        if delivery.offset < committed:
            findings.counts["below_committed"] += 1
            if not allowance.covers(delivery):
                findings.violation(f"rewound below committed {committed}:", delivery)
        previous = delivery.offset
        index = max(index, prefix.index_of(delivery.offset) + 1)


def _check_keys(
    sends: Sends,
    in_order: Iterable[Delivery],
    ordered: frozenset[tuple[str, str]],
    findings: Findings,
) -> None:
    first_ns: defaultdict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for number, delivery in enumerate(in_order):
        # The number orders the messages of one run, which begin together.
        first_ns[delivery.group].setdefault(delivery.id, (delivery.start_ns, number))
    by_key: defaultdict[tuple[str, str, str], list[Sent]] = defaultdict(list)
    for sent in sends.by_id.values():
        if sent.key is not None:
            by_key[sent.operation.asked["topic"], sent.producer, sent.key].append(sent)
    for group, topic in ordered:
        for (topic_of_key, _, _), sequence in by_key.items():
            if topic_of_key == topic:
                _check_key(sequence, first_ns[group], findings)


def _check_key(sequence: list[Sent], first: dict[str, tuple[int, int]], findings: Findings) -> None:
    """Check one key of one producer: what was answered before the next was sent comes first."""
    answered = sorted(sequence, key=lambda sent: (sent.operation.end_ns, sent.position))
    latest: tuple[tuple[int, int], Sent] | None = None
    next_answered = 0
    before: Sent | None = None
    for sent in sequence:
        while answered[next_answered].operation.end_ns < sent.operation.start_ns:
            latest = _later(latest, answered[next_answered], first)
            next_answered += 1
        given = first.get(sent.id)
        # Messages of one operation are in order too, and were not answered before each other.
        in_operation = None
        if before is not None and before.operation is sent.operation:
            in_operation = _later(None, before, first)
        for earlier in (latest, in_operation):
            if given is not None and earlier is not None and given < earlier[0]:
                findings.violation(sent, "was delivered before", earlier[1])
                break
        before = sent


def _later(
    latest: tuple[tuple[int, int], Sent] | None, sent: Sent, first: dict[str, tuple[int, int]]
) -> tuple[tuple[int, int], Sent] | None:
    given = first.get(sent.id)
    # A send without an answer may have been stored later, and what never came is lost at worst.
    if given is None or not sent.operation.is_ok:
        return latest
    return (given, sent) if latest is None or given > latest[0] else latest
