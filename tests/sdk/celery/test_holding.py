"""What is due for held messages, and when: by the clock alone."""

import pytest
from mqclient.celery.holding import LINGER_S, Held, Holdings, Step, Verb
from mqclient.limits import HANDLES_MAX

from tests.sdk.celery.records import held

VISIBILITY_S = 60.0


def holding(*items: Held, now_s: float = 0.0) -> Holdings:
    holdings = Holdings(visibility_s=VISIBILITY_S)
    holdings.hold(items, now_s)
    return holdings


def test_acknowledgements_that_come_together_share_a_request() -> None:
    first, second = held(1), held(2)
    holdings = holding(first, second)

    holdings.ack(first, 1.0)
    holdings.ack(second, 1.0 + LINGER_S / 2)

    assert holdings.next_step(1.0 + LINGER_S / 2) is None
    assert holdings.wait_s(1.0) == pytest.approx(LINGER_S)
    assert holdings.next_step(1.0 + LINGER_S) == Step(Verb.ACK, [first, second])
    assert holdings.next_step(2.0) is None


def test_in_haste_nothing_lingers() -> None:
    item = held(1)
    holdings = holding(item)

    holdings.ack(item, 1.0)

    assert holdings.next_step(1.0, in_haste=True) == Step(Verb.ACK, [item])


def test_a_full_request_does_not_linger() -> None:
    items = [held(number) for number in range(HANDLES_MAX + 1)]
    holdings = holding(*items)

    for item in items:
        holdings.ack(item, 1.0)

    assert holdings.next_step(1.0) == Step(Verb.ACK, items[:HANDLES_MAX])
    assert holdings.next_step(1.0) is None
    assert holdings.next_step(1.0 + LINGER_S) == Step(Verb.ACK, items[HANDLES_MAX:])


def test_acknowledgements_go_before_returns() -> None:
    first, second = held(1), held(2)
    holdings = holding(first, second)

    holdings.give_back([first], 1.0)
    holdings.ack(second, 1.0)

    assert holdings.next_step(2.0) == Step(Verb.ACK, [second])
    assert holdings.next_step(2.0) == Step(Verb.GIVE_BACK, [first])
    assert not holdings.has_unsettled_work


def test_a_held_message_is_extended_each_third_of_its_time() -> None:
    item = held(1)
    holdings = holding(item)
    moments_s = []
    for now_s in range(100):
        step = holdings.next_step(float(now_s))
        if step is not None:
            assert step == Step(Verb.EXTEND, [item])
            holdings.done(step, float(now_s))
            moments_s.append(now_s)

    assert moments_s == [20, 40, 60, 80]


def test_an_extension_that_failed_is_due_at_once() -> None:
    holdings = holding(held(1))

    step = holdings.next_step(20.0)
    assert step is not None
    holdings.put_back(step)

    assert holdings.next_step(20.0) == step


def test_what_is_settled_is_not_extended() -> None:
    first, second = held(1), held(2)
    holdings = holding(first, second)

    holdings.ack(first, 1.0)
    holdings.give_back([second], 1.0)

    assert [holdings.next_step(2.0), holdings.next_step(2.0)] == [
        Step(Verb.ACK, [first]), Step(Verb.GIVE_BACK, [second]),
    ]  # fmt: skip
    assert holdings.next_step(1_000.0) is None
    assert holdings.wait_s(1_000.0) is None


def test_a_message_settled_while_it_was_extended_is_held_no_more() -> None:
    item = held(1)
    holdings = holding(item)

    step = holdings.next_step(20.0)
    holdings.ack(item, 20.0)
    assert step is not None
    holdings.done(step, 20.1)

    assert holdings.next_step(21.0) == Step(Verb.ACK, [item])
    assert holdings.next_step(1_000.0) is None


def test_a_lost_message_is_not_extended_again() -> None:
    item = held(1)
    holdings = holding(item)

    step = holdings.next_step(20.0)
    assert step is not None
    item.is_lost = True
    holdings.done(step, 20.0)

    assert holdings.next_step(1_000.0) is None


def test_a_step_that_failed_goes_before_what_came_after_it() -> None:
    first, second = held(1), held(2)
    holdings = holding(first, second)

    holdings.ack(first, 1.0)
    step = holdings.next_step(2.0)
    holdings.ack(second, 2.0)
    assert step is not None
    holdings.put_back(step)

    assert holdings.next_step(3.0) == Step(Verb.ACK, [first, second])


def test_what_fails_again_and_again_does_not_keep_the_rest_waiting() -> None:
    first, second = held(1), held(2)
    holdings = holding(first, second)
    holdings.ack(first, 19.0)
    verbs = []

    for _ in range(4):
        step = holdings.next_step(20.0)
        assert step is not None
        verbs.append(step.verb)
        holdings.put_back(step)

    assert verbs == [Verb.ACK, Verb.EXTEND, Verb.ACK, Verb.EXTEND]


def test_the_next_moment_is_the_earliest_of_settling_and_extending() -> None:
    first, second = held(1), held(2)
    holdings = holding(first, second)
    assert holdings.wait_s(5.0) == 15.0

    holdings.ack(first, 19.999)

    assert holdings.wait_s(19.999) == pytest.approx(0.001)
    assert holdings.wait_s(30.0) == 0.0
