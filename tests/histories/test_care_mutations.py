"""The checkers of time and failure against good histories, and the same with one thing made wrong.

What is made wrong is what a broken product would do; where is chosen by a seed, which is printed.
A checker that a mutation of its promise does not alarm would be worth nothing.
"""

import random
from collections.abc import Callable

import pytest

from tests.histories import (
    deadletters,
    delays,
    health,
    offsets,
    phantoms,
    repeats,
    transactions,
)
from tests.histories.care_simulation import CHECKS_MAX, good_history
from tests.histories.events import Kind, Verb
from tests.histories.history import History, Operation
from tests.histories.verdicts import Validity, are_valid

SEEDS = range(4)
CHECKERS = (delays, transactions, deadletters, repeats)
_MS_NS = 1_000_000
Mutation = Callable[[History, random.Random], History]


@pytest.fixture(scope="module", params=SEEDS)
def good(request: pytest.FixtureRequest) -> History:
    """Return a history in which every promise holds."""
    print(f"seed {request.param}")
    return good_history(request.param)


def test_a_good_history_is_valid_in_every_respect(good: History) -> None:
    verdicts = [checker.check(good) for checker in (*CHECKERS, phantoms, offsets)]
    print("\n".join(map(str, verdicts)))

    assert are_valid(verdicts)


def test_a_good_history_went_through_everything_that_can_be_mutated(good: History) -> None:
    counts = {name: count for c in CHECKERS for name, count in c.check(good).counts.items()}
    wanted = {
        "came", "cancelled", "recalled too late", "sent before its time",
        "committed", "rolled back", "given up", "repeats", "refused", "checks", "seen",
        "letters", "straight", "resent sent", "resent already", "came again",
        "sent again", "after an unknown answer",
    }  # fmt: skip

    assert are_valid([health.sometimes(wanted, counts)])


# What a mutation needs of a history.


def replaced(history: History, *pairs: tuple[Operation, Operation | None]) -> History:
    """Return the history with operations changed, or without them."""
    changes = {before.key: after for before, after in pairs}
    kept = [changes.get(o.key, o) for o in history.operations]
    operations = sorted((o for o in kept if o is not None), key=lambda o: o.start_ns)
    return History(operations, history.notices)


def added(history: History, *operations: Operation) -> History:
    """Return the history with further operations; numbers are made new."""
    new = [o._replace(number=o.number + 1_000_000) for o in operations]
    found = sorted([*history.operations, *new], key=lambda o: o.start_ns)
    return History(found, history.notices)


def deliveries(history: History, ids: set[str]) -> list[Operation]:
    """Return the deliveries of messages that came once."""
    found: dict[str, list[Operation]] = {}
    for operation in history.of(Verb.DELIVER):
        found.setdefault(operation.asked["messages"][0][0], []).append(operation)
    return [given[0] for id_, given in found.items() if id_ in ids and len(given) == 1]


def moved(operation: Operation, by_ms: int) -> Operation:
    """Move an operation to another time, of both clocks."""
    by_ns = by_ms * _MS_NS
    return operation._replace(
        start_ns=operation.start_ns + by_ns,
        end_ns=operation.end_ns + by_ns,
        wall_ns=operation.wall_ns + by_ns,
    )


def at_offset(operation: Operation, offset: int) -> Operation:
    """Return a delivery of the same message at another offset."""
    ((id_, _, digest),) = operation.asked["messages"]
    return operation._replace(asked={**operation.asked, "messages": [[id_, offset, digest]]})


def told(operation: Operation, **values: object) -> Operation:
    """Change what an operation was told."""
    return operation._replace(told={**operation.told, **values})


def ended(history: History, outcome: str) -> list[Operation]:
    """Return answered decisions that were the first."""
    return [
        o
        for o in history.of(Verb.END)
        if o.is_ok and o.asked["outcome"] == outcome and not o.told["repeat"]
    ]


def punctual(history: History) -> list[Operation]:
    """Return deliveries of delayed messages about which nobody asked."""
    asked = {o.asked["id"] for v in (Verb.RECALL, Verb.HASTEN) for o in history.of(v)}
    delayed = {m[0] for o in history.of(Verb.DELAY) for m in o.asked["messages"]}
    return deliveries(history, delayed - asked)


# The seeded bugs: each is what one broken line of a product would show.


def deliver_early(history: History, rng: random.Random) -> History:
    # What was due during the outage comes behind it, and 200 ms before that is not early.
    outage_ms = range(60_000, 76_000)
    found = [d for d in punctual(history) if d.start_ns // _MS_NS not in outage_ms]
    victim = rng.choice(found)
    return replaced(history, (victim, moved(victim, -200)))


def trust_a_clock_that_jumped_ahead(history: History, rng: random.Random) -> History:
    """Deliver what was accepted before the jump by what the wall clock says behind it."""
    jump_ns = 20_000 * _MS_NS
    accepted = {m[0]: o.start_ns for o in history.of(Verb.DELAY) for m in o.asked["messages"]}
    before = [
        d
        for d in punctual(history)
        if accepted[d.asked["messages"][0][0]] < jump_ns and d.start_ns > jump_ns + 1_000 * _MS_NS
    ]
    victim = rng.choice(before)
    shift_ns = victim.start_ns - jump_ns - 10 * _MS_NS
    return replaced(
        history,
        (victim, victim._replace(start_ns=victim.start_ns - shift_ns, end_ns=jump_ns + _MS_NS)),
    )


def forget_a_delayed_message(history: History, rng: random.Random) -> History:
    """Forget one that would have come long before the end: the last may still be on its way."""
    behind_ns = history.end_ns - 60_000 * _MS_NS
    victim = rng.choice([d for d in punctual(history) if d.start_ns < behind_ns])
    return replaced(history, (victim, None))


def deliver_a_delayed_message_late(history: History, rng: random.Random) -> History:
    victim = rng.choice([d for d in punctual(history) if d.start_ns > 80_000 * _MS_NS])
    return replaced(history, (victim, moved(victim, 20_000)))


def deliver_a_delayed_message_twice(history: History, rng: random.Random) -> History:
    """A worker is killed between the message and its progress, and another begins again."""
    victim = rng.choice(punctual(history))
    return added(history, moved(at_offset(victim, 1_000_000), 1_000))


def deliver_a_cancelled_message(history: History, rng: random.Random) -> History:
    cancelled = {o.asked["id"] for o in history.of(Verb.RECALL) if o.told["outcome"] == "cancelled"}
    victim = rng.choice(
        [o for o in history.of(Verb.DELAY) if o.asked["messages"][0][0] in cancelled]
    )
    id_, digest, _ = victim.asked["messages"][0]
    pattern = moved(rng.choice(punctual(history)), 60_000)
    messages = [[id_, 1_000_000, digest]]
    return added(history, pattern._replace(asked={**pattern.asked, "messages": messages}))


def show_a_half_message(history: History, rng: random.Random) -> History:
    """A rolled back message is seen."""
    id_ = rng.choice(ended(history, "rolled_back")).asked["id"]
    pattern = rng.choice(punctual(history))
    messages = [[id_, 1_000_000, f"digest of {id_}"]]
    return added(history, pattern._replace(asked={**pattern.asked, "messages": messages}))


def lose_a_committed_message(history: History, rng: random.Random) -> History:
    ids = {o.asked["id"] for o in ended(history, "committed")}
    return replaced(history, (rng.choice(deliveries(history, ids)), None))


def commit_twice(history: History, rng: random.Random) -> History:
    """The op record is lost, and a repeated commit stores the message once more."""
    first = rng.choice(ended(history, "committed"))
    topic, queue, _ = first.told["place"]
    again = told(moved(first, 40), place=[topic, queue, 1_000_000])
    return added(history, again)


def let_a_late_answer_change_a_decision(history: History, rng: random.Random) -> History:
    refused = rng.choice(
        [
            o
            for o in history.of(Verb.END)
            if o.kind is Kind.FAIL and o.asked["outcome"] == "rolled_back"
        ]
    )
    accepted = refused._replace(kind=Kind.OK, told={"repeat": False, "place": None})
    return replaced(history, (refused, accepted))


def check_once_too_often(history: History, rng: random.Random) -> History:
    full = [o for o in history.of(Verb.CHECKS) if o.told["checks"][0][1] == CHECKS_MAX]
    victim = rng.choice(full)
    id_, number, checks_max = victim.told["checks"][0]
    return added(history, told(moved(victim, 5), checks=[[id_, number + 1, checks_max]]))


def check_what_is_decided(history: History, rng: random.Random) -> History:
    id_ = rng.choice(ended(history, "committed")).asked["id"]
    pattern = moved(rng.choice(history.of(Verb.CHECKS)), 200_000)
    return added(history, told(pattern, checks=[[id_, CHECKS_MAX, CHECKS_MAX]]))


def letters(history: History) -> Operation:
    """Return the reading of the dead letters."""
    (reading,) = history.of(Verb.LETTERS)
    return reading


def lose_a_dead_letter(history: History, rng: random.Random) -> History:
    reading = letters(history)
    kept = list(reading.told["letters"])
    # The last third was not sent again.
    del kept[rng.choice([n for n in range(len(kept)) if n % 3])]
    return replaced(history, (reading, told(reading, letters=kept)))


def store_a_dead_letter_twice(history: History, rng: random.Random) -> History:
    reading = letters(history)
    found = reading.told["letters"]
    copied = [len(found), *rng.choice([v for v in found if v[0] % 3])[1:]]
    return replaced(history, (reading, told(reading, letters=[*found, copied])))


def bury_too_early(history: History, rng: random.Random) -> History:
    reading = letters(history)
    found = [list(values) for values in reading.told["letters"]]
    straight = {o.asked["ids"][0] for o in history.of(Verb.BACK) if o.asked["level"] == -1}
    victim = rng.choice([values for values in found if values[1] not in straight])
    victim[3] -= 1
    return replaced(history, (reading, told(reading, letters=found)))


def change_the_body_of_a_dead_letter(history: History, rng: random.Random) -> History:
    reading = letters(history)
    found = [list(values) for values in reading.told["letters"]]
    rng.choice(found)[2] = "another"
    return replaced(history, (reading, told(reading, letters=found)))


def bury_what_is_acknowledged(history: History, rng: random.Random) -> History:
    reading, ack = letters(history), rng.choice(history.of(Verb.ACK))
    victim = rng.choice([values for values in reading.told["letters"] if values[0] % 3])
    return replaced(history, (ack, ack._replace(asked={**ack.asked, "ids": [victim[1]]})))


def resend_at_a_double_click(history: History, rng: random.Random) -> History:
    second = rng.choice([o for o in history.of(Verb.RESEND) if o.told["outcomes"] == ["already"]])
    return replaced(history, (second, told(second, outcomes=["sent"])))


def store_a_repeat_again(history: History, rng: random.Random) -> History:
    victim = rng.choice(
        [o for o in history.of(Verb.SEND) if o.is_ok and o.told.get("repeats") == [True]]
    )
    return replaced(history, (victim, told(victim, places=[[0, 1_000_000]], repeats=[False])))


def store_an_unanswered_send_and_its_repeat(history: History, rng: random.Random) -> History:
    ids = {
        o.asked["messages"][0][0]
        for o in history.of(Verb.SEND)
        if "sequences" in o.asked and o.kind is Kind.INFO
    }
    victim = rng.choice(deliveries(history, ids))
    return added(history, moved(at_offset(victim, 1_000_000), 50))


BUGS: dict[object, tuple[Mutation, ...]] = {
    delays: (
        deliver_early,
        trust_a_clock_that_jumped_ahead,
        forget_a_delayed_message,
        deliver_a_delayed_message_late,
        deliver_a_delayed_message_twice,
        deliver_a_cancelled_message,
    ),
    transactions: (
        show_a_half_message,
        lose_a_committed_message,
        commit_twice,
        let_a_late_answer_change_a_decision,
        check_once_too_often,
        check_what_is_decided,
    ),
    deadletters: (
        lose_a_dead_letter,
        store_a_dead_letter_twice,
        bury_too_early,
        change_the_body_of_a_dead_letter,
        bury_what_is_acknowledged,
        resend_at_a_double_click,
    ),
    repeats: (store_a_repeat_again, store_an_unanswered_send_and_its_repeat),
}
CASES = [(checker, bug) for checker, bugs in BUGS.items() for bug in bugs]


@pytest.mark.parametrize(("checker", "bug"), CASES, ids=[bug.__name__ for _, bug in CASES])
def test_a_seeded_bug_is_caught(good: History, checker: object, bug: Mutation) -> None:
    for seed in range(5):
        verdict = checker.check(bug(good, random.Random(seed)))  # type: ignore[attr-defined]

        print(f"seed {seed}: {verdict}")
        assert verdict.validity is Validity.INVALID
