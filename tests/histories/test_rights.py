"""INV-17 by hand and by seeds: what is carried out after its right is gone, and what is not."""

import random
from dataclasses import replace

import pytest

from tests.histories import rights
from tests.histories.history import SECOND_NS
from tests.histories.rights import Call, Policy
from tests.histories.verdicts import Validity

PUB = ("till", "pub", "topic orders")
SUB = ("till", "sub", "topic orders")
GRACE_S = 1.0
ALLOWED, DENIED = frozenset({PUB, SUB}), frozenset({SUB})


def policy(at_s: float, allowed: frozenset[rights.Right], took_s: float = 0.1) -> Policy:
    begun_ns = round(at_s * SECOND_NS)
    return Policy(begun_ns=begun_ns, done_ns=begun_ns + round(took_s * SECOND_NS), rights=allowed)


def call(at_s: float, *, took_s: float = 0.01, ok: bool = True, needs: rights.Right = PUB) -> Call:
    start_ns = round(at_s * SECOND_NS)
    end_ns = start_ns + round(took_s * SECOND_NS)
    return Call(needs=(needs,), start_ns=start_ns, end_ns=end_ns, is_ok=ok, is_refused=not ok)


# Allowed from 0, denied from 10, allowed again from 20.
POLICIES = (policy(0, ALLOWED), policy(10, DENIED), policy(20, ALLOWED))
FINE = [call(1), call(15, ok=False), call(25)]


def found(*calls: Call) -> Validity:
    verdict = rights.check([*FINE, *calls], POLICIES, grace_s=GRACE_S)
    print(verdict)
    return verdict.validity


def test_calls_within_their_rights_are_right() -> None:
    assert found() is Validity.VALID


@pytest.mark.parametrize("ok", [True, False])
@pytest.mark.parametrize("at_s", [10.0, 10.5, 11.05, 20.02, 21.0])
def test_while_doors_learn_of_a_change_both_answers_are_right(at_s: float, *, ok: bool) -> None:
    assert found(call(at_s, ok=ok)) is Validity.VALID


def test_what_is_carried_out_after_the_doors_had_their_time_is_wrong() -> None:
    assert found(call(11.2)) is Validity.INVALID


def test_what_was_begun_while_it_was_allowed_may_end_later() -> None:
    assert found(call(9, took_s=5)) is Validity.VALID


def test_what_is_refused_although_it_was_allowed_all_along_is_wrong() -> None:
    assert found(call(5, ok=False)) is Validity.INVALID
    assert found(call(22, ok=False)) is Validity.INVALID


def test_a_call_needs_all_of_its_rights() -> None:
    both = replace(call(15), needs=(SUB, PUB))

    assert found(call(15, needs=SUB)) is Validity.VALID
    assert found(both) is Validity.INVALID


def test_a_message_sent_after_the_end_of_a_right_is_wrong_however_long_somebody_waited() -> None:
    # The long poll began at 9 s; the message it was given was sent at 14 s.
    waited = replace(call(9, took_s=6, needs=PUB), start_ns=14 * SECOND_NS)

    assert found(waited) is Validity.INVALID


def test_a_run_in_which_nothing_was_refused_shows_nothing() -> None:
    verdict = rights.check([call(1)], POLICIES, grace_s=GRACE_S)

    assert verdict.validity is Validity.UNKNOWN


def test_policies_out_of_order_are_no_account_of_anything() -> None:
    verdict = rights.check(FINE, POLICIES[::-1], grace_s=GRACE_S)

    assert verdict.validity is Validity.INVALID


# --- a door that is wrong on purpose ----------


def door(seed: int, *, mutation: str = "") -> list[Call]:
    """Return a run of 400 calls at a door that learns of a policy within its time."""
    chance = random.Random(seed)
    learns_s = [0.0] + [
        one.done_ns / SECOND_NS + chance.uniform(0, GRACE_S) for one in POLICIES[1:]
    ]
    calls = []
    for _ in range(400):
        at_s = chance.uniform(0, 30)
        known = max(number for number, learned_s in enumerate(learns_s) if learned_s <= at_s)
        right = chance.choice((PUB, SUB))
        if mutation == "never learns":
            known = 0
        elif mutation == "learns late":
            known = max(
                n for n, learned_s in enumerate(learns_s) if learned_s + 2 * (n > 0) <= at_s
            )
        is_allowed = right in POLICIES[known].rights
        if mutation == "fails open" and not is_allowed and chance.random() < 0.1:
            is_allowed = True
        elif mutation == "fails closed" and is_allowed and chance.random() < 0.05:
            is_allowed = False
        elif mutation == "asks for the wrong thing":
            is_allowed = SUB in POLICIES[known].rights
        calls.append(call(at_s, needs=right, ok=is_allowed))
    return calls


@pytest.mark.parametrize("seed", range(20))
def test_a_door_that_decides_in_time_is_right(seed: int) -> None:
    verdict = rights.check(door(seed), POLICIES, grace_s=GRACE_S)

    assert verdict.validity is Validity.VALID, str(verdict)


@pytest.mark.parametrize(
    "mutation",
    ["never learns", "learns late", "fails open", "fails closed", "asks for the wrong thing"],
)
@pytest.mark.parametrize("seed", range(5))
def test_a_door_that_is_wrong_is_caught(seed: int, mutation: str) -> None:
    verdict = rights.check(door(seed, mutation=mutation), POLICIES, grace_s=GRACE_S)

    assert verdict.validity is Validity.INVALID, f"seed {seed}: {verdict}"
