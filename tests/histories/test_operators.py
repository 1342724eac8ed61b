"""INV-18 against good histories, and the same with one thing made wrong, as a broken product would.

What is made wrong, and where, is chosen by fixed seeds. Some of it is the concern of another
invariant: an act that nobody wrote down is a loss, a leap or a repetition without a reason.
"""

import random
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.histories import (
    duplicates,
    exclusive,
    health,
    judge,
    loss,
    operators,
    order,
    progress,
)
from tests.histories.building import GROUP, TOPIC, Story
from tests.histories.events import Kind, Verb
from tests.histories.history import History, Operation
from tests.histories.operators_simulation import good_history
from tests.histories.verdicts import Validity, are_valid

SEEDS = range(6)
_MS_NS = 1_000_000
Mutation = Callable[[History, random.Random], History]


@pytest.fixture(scope="module", params=SEEDS)
def good(request: pytest.FixtureRequest) -> History:
    print(f"seed {request.param}")
    return good_history(request.param)


def test_a_good_history_is_valid_in_every_respect(good: History) -> None:
    verdicts = judge.judged(good)
    print("\n".join(map(str, verdicts)))

    assert operators.NAME in [verdict.name for verdict in verdicts]
    assert are_valid(verdicts)


def test_a_good_history_went_through_everything_that_can_be_mutated(good: History) -> None:
    wanted = {
        "suspend done", "resume done", "skip done", "park done", "move done", "undone",
        "went back", "came again", "letters of parked",
    }  # fmt: skip

    assert are_valid([health.sometimes(wanted, operators.check(good).counts)])


def rebuilt(history: History, operations: list[Operation]) -> History:
    return History(sorted(operations, key=lambda one: one.start_ns), history.notices)


def with_told(history: History, victim: Operation, **values: object) -> History:
    changed = victim._replace(told={**victim.told, **values})
    return rebuilt(history, [changed if o is victim else o for o in history.operations])


def without(history: History, victims: list[Operation]) -> History:
    return rebuilt(history, [o for o in history.operations if o not in victims])


def attempts(history: History, act: Operation) -> list[Operation]:
    return [o for o in history.of(act.verb) if o.asked["act"] == act.asked["act"]]


def done(history: History, *verbs: Verb) -> list[Operation]:
    return [o for verb in verbs for o in history.of(verb) if o.is_ok]


def deliveries_of(history: History, offset: int) -> list[Operation]:
    return [o for o in history.of(Verb.DELIVER) if o.asked["messages"][0][1] == offset]


def delivered(history: History, offset: int, at_ns: int) -> History:
    """Return the history with one more delivery of an offset, as its client made others."""
    pattern = history.of(Verb.DELIVER)[0]
    given = [[f"m{offset}", offset, f"digest of m{offset}"]]
    new = pattern._replace(
        number=1_000_000,
        start_ns=at_ns,
        end_ns=at_ns + _MS_NS,
        asked={**pattern.asked, "messages": given},
    )
    return rebuilt(history, [*history.operations, new])


def going_back(history: History) -> list[Operation]:
    return [o for o in done(history, Verb.MOVE) if o.asked["offset"] < o.told["before"]]


def going_back_for_good(history: History) -> list[Operation]:
    """Return the resets that go back over something which no later act excuses."""
    acts = done(history, Verb.MOVE, Verb.SKIP, Verb.PARK)
    return [
        move
        for move in going_back(history)
        if not any(
            later.start_ns > move.start_ns and later.told.get("before", -1) < move.told["before"]
            for later in acts
        )
    ]


def passing_over(history: History) -> list[Operation]:
    """Return the resets that leave something behind which nobody goes back for."""
    moves = done(history, Verb.MOVE)
    return [
        move
        for move in moves
        if move.asked["offset"] > move.told["before"]
        and not any(
            back.start_ns > move.start_ns and back.asked["offset"] < move.asked["offset"]
            for back in moves
        )
    ]


def lasting(history: History, verb: Verb) -> list[Operation]:
    """Return the skips or parks of messages that no reset goes back to."""
    return [
        act
        for act in done(history, verb)
        if not any(
            move.start_ns > act.start_ns and move.asked["offset"] <= act.asked["offset"]
            for move in done(history, Verb.MOVE)
        )
    ]


# What a broken product does.


def hand_a_settled_message_out_again(history: History, rng: random.Random) -> History:
    victim = rng.choice(lasting(history, Verb.SKIP) + lasting(history, Verb.PARK))
    return delivered(history, victim.asked["offset"], history.end_ns)


def say_that_it_is_skipped_and_leave_the_head(history: History, rng: random.Random) -> History:
    victim = rng.choice(done(history, Verb.SKIP, Verb.PARK))
    return with_told(history, victim, head=victim.asked["offset"])


def lose_the_letter_of_a_parked_message(history: History, rng: random.Random) -> History:
    (reading,) = history.of(Verb.LETTERS)
    letters = list(reading.told["letters"])
    letters.remove(rng.choice(letters))
    return with_told(history, reading, letters=letters)


def make_two_letters_of_a_parked_message(history: History, rng: random.Random) -> History:
    (reading,) = history.of(Verb.LETTERS)
    _, *twin = rng.choice(reading.told["letters"])
    letters = [*reading.told["letters"], [99, *twin]]
    return with_told(
        history, reading, letters=letters, reasons={**reading.told["reasons"], "99": ""}
    )


def make_a_letter_of_a_skipped_message(history: History, rng: random.Random) -> History:
    (reading,) = history.of(Verb.LETTERS)
    offset = rng.choice(done(history, Verb.SKIP)).asked["offset"]
    letter = [99, f"m{offset}", f"digest of m{offset}", 0, TOPIC, 0, offset]
    return with_told(
        history,
        reading,
        letters=[*reading.told["letters"], letter],
        reasons={**reading.told["reasons"], "99": ""},
    )


def forget_why_a_message_was_parked(history: History, rng: random.Random) -> History:
    (reading,) = history.of(Verb.LETTERS)
    number = rng.choice(sorted(reading.told["reasons"]))
    return with_told(history, reading, reasons={**reading.told["reasons"], number: ""})


def hand_out_of_a_suspended_queue(history: History, rng: random.Random) -> History:
    victim = rng.choice(done(history, Verb.SUSPEND))
    return delivered(history, victim.told["head"], victim.end_ns + 10_000 * _MS_NS)


def go_back_and_leave_one_out(history: History, rng: random.Random) -> History:
    victim = rng.choice(going_back(history))
    offset = rng.randrange(victim.asked["offset"], victim.told["before"])
    again = [o for o in deliveries_of(history, offset) if o.start_ns > victim.start_ns]
    return without(history, again) if again else leave_a_reset_undone(history, rng)


def leave_a_reset_undone(history: History, rng: random.Random) -> History:
    """Say that a group goes back, and have it go on where it is."""
    victim = rng.choice(going_back(history))
    span = range(victim.asked["offset"], victim.told["before"])
    return without(
        history,
        [o for at in span for o in deliveries_of(history, at) if o.start_ns > victim.start_ns],
    )


def hand_out_what_was_passed_over(history: History, rng: random.Random) -> History:
    victim = rng.choice(passing_over(history))
    span = range(victim.told["before"], victim.asked["offset"])
    return delivered(history, rng.choice(span), history.end_ns)


def undo_to_elsewhere(history: History, rng: random.Random) -> History:
    victim = rng.choice([o for o in done(history, Verb.MOVE) if "undoes" in o.asked])
    return with_told(history, victim, after=victim.told["after"] + 1)


def skip_in_silence(history: History, rng: random.Random) -> History:
    """Leave a message out though nobody said so."""
    return without(history, attempts(history, rng.choice(lasting(history, Verb.SKIP))))


def pass_over_in_silence(history: History, rng: random.Random) -> History:
    return without(history, attempts(history, rng.choice(passing_over(history))))


def go_back_in_silence(history: History, rng: random.Random) -> History:
    victims = [o for o in going_back(history) if "undoes" not in o.asked]
    return without(history, attempts(history, rng.choice(victims)))


MUTATIONS: list[tuple[Mutation, list[ModuleType]]] = [
    (hand_a_settled_message_out_again, [operators]),
    (say_that_it_is_skipped_and_leave_the_head, [operators]),
    (lose_the_letter_of_a_parked_message, [operators]),
    (make_two_letters_of_a_parked_message, [operators]),
    (make_a_letter_of_a_skipped_message, [operators]),
    (forget_why_a_message_was_parked, [operators]),
    (hand_out_of_a_suspended_queue, [operators]),
    (go_back_and_leave_one_out, [operators]),
    (leave_a_reset_undone, [operators]),
    (hand_out_what_was_passed_over, [operators]),
    (undo_to_elsewhere, [operators]),
    (skip_in_silence, [loss, order, progress]),
    (pass_over_in_silence, [loss, order, progress]),
    (go_back_in_silence, [duplicates]),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("mutate", "by"), MUTATIONS, ids=lambda value: getattr(value, "__name__", "")
)
def test_what_is_made_wrong_is_caught(
    good: History, mutate: Mutation, by: list[ModuleType], seed: int
) -> None:
    wrong = mutate(good, random.Random(seed))

    for checker in by:
        verdict = checker.check(wrong)
        print(verdict)
        assert verdict.validity is Validity.INVALID, checker.NAME


# By hand: what nobody can know, and what is no finding.


def acted(told: Story, verb: Verb, at_ms: float, kind: Kind = Kind.OK, **values: object) -> Story:
    about = {"act": "one", "group": GROUP, "topic": TOPIC, "queue": 0, "reason": "bad"}
    asked = {**about, **{name: values.pop(name) for name in ("offset",) if name in values}}
    return told.operate("run", verb, (at_ms, at_ms + 5), asked, kind, **values)


def test_an_act_that_was_refused_each_time_excuses_nothing() -> None:
    told = Story().lock(1, at_ms=0, lease_ms=600_000).send("m0", "m1", at_ms=1)
    acted(told, Verb.SKIP, 100, Kind.FAIL, offset=0, code="head_moved")
    told.deliver(("m1", 1), at_ms=5_000).commit(2, at_ms=5_010).progress(2, 2, at_ms=6_000)

    assert loss.check(told.history()).validity is Validity.INVALID


def test_an_act_without_an_answer_may_have_been_done_or_not() -> None:
    for is_done in (True, False):
        told = Story().lock(1, at_ms=0, lease_ms=600_000).send("m0", "m1", at_ms=1)
        acted(told, Verb.SKIP, 100, Kind.INFO, offset=0, code="unanswered")
        if not is_done:
            told.deliver(("m0", 0), at_ms=5_000)
        told.deliver(("m1", 1), at_ms=5_002).progress(2, 2, at_ms=6_000)

        verdicts = [checker.check(told.history()) for checker in (loss, order, operators)]
        print(*verdicts, sep="\n")
        assert all(verdict.violation_count == 0 for verdict in verdicts)


def test_a_listener_that_runs_while_its_queue_is_fenced_overlaps_nobody() -> None:
    told = Story().lock(1, at_ms=0, lease_ms=600_000).send("m0", "m1", at_ms=1)
    told.deliver(("m0", 0), at_ms=50, took_ms=20_000)
    acted(told, Verb.SKIP, 100, offset=0, head=1)
    told.lock(2, at_ms=3_000, client="b").deliver(("m1", 1), at_ms=3_500, client="b")

    verdict = exclusive.check(told.history())

    assert verdict.validity is Validity.VALID, str(verdict)


def test_without_that_act_it_overlaps() -> None:
    told = Story().lock(1, at_ms=0, lease_ms=600_000).send("m0", "m1", at_ms=1)
    told.deliver(("m0", 0), at_ms=50, took_ms=20_000)
    told.lock(2, at_ms=3_000, client="b").deliver(("m1", 1), at_ms=3_500, client="b")

    assert exclusive.check(told.history()).counts["overlaps"] == 1


def test_a_commit_that_was_answered_while_the_queue_was_moved_says_nothing_of_after_it() -> None:
    told = Story().lock(1, at_ms=0, lease_ms=600_000).send("m0", "m1", at_ms=1)
    told.deliver(("m0", 0), ("m1", 1), at_ms=50).commit(2, at_ms=100)
    acted(told, Verb.MOVE, 99, offset=0, before=2, after=0)
    told.deliver(("m0", 0), at_ms=5_000)

    verdict = order.check(told.history())

    assert verdict.validity is Validity.VALID, str(verdict)


def test_a_commit_after_the_move_binds_the_queue_again() -> None:
    told = Story().lock(1, at_ms=0, lease_ms=600_000).send("m0", "m1", at_ms=1)
    told.deliver(("m0", 0), ("m1", 1), at_ms=50)
    acted(told, Verb.MOVE, 99, offset=0, before=2, after=0)
    told.deliver(("m0", 0), ("m1", 1), at_ms=5_000).commit(2, at_ms=5_010)
    told.deliver(("m0", 0), at_ms=6_000)

    assert order.check(told.history()).counts["below_committed"] == 1


def test_a_parked_message_without_a_reading_of_the_letters_is_unknown() -> None:
    told = Story().lock(1, at_ms=0, lease_ms=600_000).send("m0", "m1", at_ms=1)
    acted(told, Verb.PARK, 100, offset=0, head=1)

    assert operators.check(told.history()).validity is Validity.UNKNOWN


def test_where_no_operator_was_at_work_nothing_is_said() -> None:
    assert operators.check(Story().send("m0").history()).validity is Validity.UNKNOWN
