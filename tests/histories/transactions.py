"""INV-8: a message of a transaction is seen if and only if the transaction was committed.

Half messages are nobody's, checks are few and only of what is undecided, and what is decided stays
decided, whoever repeats an answer however late.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.histories.deliveries import Delivery, deliveries_of, subscriptions_of
from tests.histories.events import Kind, Verb
from tests.histories.history import NEVER_NS, History, Operation
from tests.histories.liveness import drained_ns
from tests.histories.verdicts import Findings, Verdict

NAME = "INV-8 transaction"
_COMMITTED, _ROLLED_BACK = "committed", "rolled_back"
HIDDEN_TOPICS = frozenset({"RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"})


@dataclass(slots=True)
class Transaction:
    """Everything that was done about one transaction."""

    begin: Operation
    ends: list[Operation] = field(default_factory=list)
    checks: list[tuple[Operation, int, int]] = field(default_factory=list)
    """The answer a check came with, its number, and how many there may be."""
    given_up_ns: int = NEVER_NS

    def ended(self, outcome: str) -> list[Operation]:
        """Return the answers that said that it ended so."""
        return [end for end in self.ends if end.is_ok and end.asked["outcome"] == outcome]

    def may_be(self, outcome: str) -> bool:
        """Say whether somebody asked for an outcome and was not refused."""
        return any(
            end.asked["outcome"] == outcome and end.kind is not Kind.FAIL for end in self.ends
        )

    def first_wish_ns(self, outcome: str) -> int:
        """Return when an outcome was first asked for by somebody who was not refused."""
        wishes = (
            end.start_ns
            for end in self.ends
            if end.asked["outcome"] == outcome and end.kind is not Kind.FAIL
        )
        return min(wishes, default=NEVER_NS)

    @property
    def decided_ns(self) -> int:
        """Return when it was decided at the latest, NEVER_NS while nobody was told so."""
        return min([end.end_ns for end in self.ends if end.is_ok] + [self.given_up_ns])


def transactions_of(history: History) -> Mapping[str, Transaction]:
    """Return every transaction by the id of its message."""
    found = {begin.asked["id"]: Transaction(begin) for begin in history.of(Verb.BEGIN)}
    for end in history.of(Verb.END):
        if end.asked["id"] in found:
            found[end.asked["id"]].ends.append(end)
    for checks in history.of(Verb.CHECKS):
        if checks.is_ok:
            for id_, number, checks_max in checks.told["checks"]:
                if id_ in found:
                    found[id_].checks.append((checks, number, checks_max))
    for notice in history.noticed(Verb.GIVEN_UP):
        transaction = found[notice.values["id"]]
        transaction.given_up_ns = min(transaction.given_up_ns, notice.at_ns)
    return found


def check(history: History) -> Verdict:
    """Check each transaction against its ends, its checks and what came of it."""
    findings = Findings(NAME)
    transactions = history.once(transactions_of)
    given: defaultdict[str, list[Delivery]] = defaultdict(list)
    for delivery in history.once(deliveries_of):
        given[delivery.id].append(delivery)
        if delivery.place.topic in HIDDEN_TOPICS:
            findings.violation("was read out of a hidden topic:", delivery)
    _check_strangers(history, transactions, findings)
    undecided = 0
    for id_, transaction in transactions.items():
        findings.counts["begun"] += 1
        _check_decision(id_, transaction, findings)
        _check_checks(id_, transaction, findings)
        _check_seen(id_, transaction, given[id_], findings)
        if transaction.ended(_COMMITTED):
            undecided += _check_complete(history, id_, transaction, given[id_], findings)
    reason = f"{undecided} committed messages may still be on their way" if undecided else ""
    return findings.verdict(unknown=reason if transactions else "no transaction was begun")


def _check_strangers(
    history: History, transactions: Mapping[str, Transaction], findings: Findings
) -> None:
    for checks in history.of(Verb.CHECKS):
        for id_, *_ in checks.told.get("checks", ()):
            if id_ not in transactions:
                findings.violation(f"a check of {id_}, which nobody began:", checks)


def _check_decision(id_: str, transaction: Transaction, findings: Findings) -> None:
    """Check that there is one decision, and that whoever asks again is told the same."""
    committed, rolled_back = transaction.ended(_COMMITTED), transaction.ended(_ROLLED_BACK)
    findings.counts["committed"] += bool(committed)
    findings.counts["rolled back"] += bool(rolled_back)
    findings.counts["given up"] += transaction.given_up_ns != NEVER_NS
    if committed and rolled_back:
        findings.violation(f"{id_} was committed and rolled back:", committed[0], rolled_back[0])
    if transaction.given_up_ns != NEVER_NS and (committed or rolled_back):
        findings.violation(f"{id_} was given up and decided:", (committed or rolled_back)[0])
    for ended in (committed, rolled_back):
        first_hand = [end for end in ended if not end.told["repeat"]]
        findings.counts["repeats"] += len(ended) - len(first_hand)
        if len(first_hand) > 1:
            findings.violation(f"{id_} was decided {len(first_hand)} times:", first_hand[1])
    # A repeat of long ago may not know any more where the message went, and says so.
    places = {tuple(end.told["place"]) for end in committed if end.told.get("place")}
    if len(places) > 1:
        findings.violation(f"{id_} lies at {sorted(places)}:", committed[-1])
    for end in transaction.ends:
        is_refused = end.kind is Kind.FAIL and end.told["code"] == "transaction_decided"
        findings.counts["refused"] += is_refused
        other = _ROLLED_BACK if end.asked["outcome"] == _COMMITTED else _COMMITTED
        is_right = transaction.may_be(other) or transaction.given_up_ns != NEVER_NS
        if is_refused and not is_right:
            findings.violation(f"{id_} was never decided otherwise:", end)


def _check_checks(id_: str, transaction: Transaction, findings: Findings) -> None:
    numbers = [number for _, number, _ in transaction.checks]
    findings.counts["checks"] += len(numbers)
    if len(set(numbers)) < len(numbers):
        findings.violation(f"{id_} was checked twice under one number: {sorted(numbers)}")
    for checks, number, checks_max in transaction.checks:
        if number > checks_max:
            findings.violation(f"{id_} was checked for the {number}th of {checks_max} times")
        if checks.start_ns > transaction.decided_ns:
            findings.violation(f"{id_} was decided and is checked:", checks)


def _check_seen(
    id_: str, transaction: Transaction, came: list[Delivery], findings: Findings
) -> None:
    """Check that what came was committed by then, at the place that was answered."""
    if not came:
        return
    findings.counts["seen"] += 1
    if not transaction.may_be(_COMMITTED):
        findings.violation(f"{id_} was never committed and came:", came[0])
    elif came[0].start_ns < transaction.first_wish_ns(_COMMITTED):
        findings.violation(f"{id_} came before anybody committed it:", came[0])
    if transaction.ended(_ROLLED_BACK):
        findings.violation(f"{id_} was rolled back and came:", came[0])
    if transaction.given_up_ns != NEVER_NS:
        findings.violation(f"{id_} was given up and came:", came[0])
    told = {tuple(e.told["place"]) for e in transaction.ended(_COMMITTED) if e.told.get("place")}
    topic = transaction.begin.asked["topic"]
    seen = {(*one.place, one.offset) for one in came if one.place.topic == topic}
    if len(told | seen) > 1:
        findings.violation(f"{id_} lies at {sorted(told | seen)}:", came[0])


def _check_complete(
    history: History,
    id_: str,
    transaction: Transaction,
    came: list[Delivery],
    findings: Findings,
) -> int:
    """Check that a committed message came to every group; return how often that is open."""
    undecided = 0
    for group, topic in history.once(subscriptions_of):
        if topic != transaction.begin.asked["topic"] or any(one.group == group for one in came):
            continue
        if drained_ns(history, group, since_ns=transaction.decided_ns) is None:
            undecided += 1
        else:
            findings.counts["lost"] += 1
            findings.violation(f"{id_} was committed and never came to {group}:", transaction.begin)
    return undecided
