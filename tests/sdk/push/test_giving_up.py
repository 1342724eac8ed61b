"""Ordered messages that are given up, on a desk: dead letters, and queues that stand still."""

from typing import Any

import pytest
from mqclient.consuming.push.listening import Consumed
from mqclient.errors import ConnectFailed, InvalidArgument, LockLost, NotPermitted
from mqclient.values import Returned, SentBack

from tests.sdk.push.doubles import FIRST, SECOND, Desk, offsets_of


def reading(**settings: Any) -> Desk:
    """Return a desk with both queues locked and begun at 0, and ten messages in the first."""
    ready = Desk({"ordered": True, **settings})
    ready.assign(FIRST, SECOND)
    ready.grant(FIRST, SECOND)
    ready.begin(q0=0, q1=0)
    ready.bring(FIRST, range(10))
    return ready


def given_up(**settings: Any) -> Desk:
    """Return a desk whose first message has just failed for the last time."""
    bench = reading(suspend_ms=10, attempts_max=1, **settings)
    bench.fail(bench.listen())
    return bench


def outcome(outcome: SentBack | None, status: int = 200) -> list[Returned]:
    return [Returned(index=0, status=status, outcome=outcome)]


def test_at_the_limit_a_message_becomes_a_dead_letter_and_its_queue_goes_on() -> None:
    bench = given_up()
    request = bench.one("send-back")
    meanwhile = bench.core.next_delivery(), bench.core.positions()[FIRST]
    request.answer(outcome(SentBack.DEAD_LETTER))

    after = bench.listen()

    assert request.document == {
        "client_id": "me", "generation": 1, "delay_level": -1, "reason": "broken",
        "messages": [{"topic": "orders", "queue": 0, "epoch": 7, "offset": "0"}],
    }  # fmt: skip
    assert meanwhile == (None, 0)
    assert offsets_of(after) == [1]
    assert bench.core.positions()[FIRST] == 1
    assert bench.core.blocked() == []


def test_what_was_not_tried_suspends_its_queue_and_is_no_failure() -> None:
    bench = reading(suspend_ms=10, attempts_max=1)
    bench.core.give_back(bench.core.finish(bench.listen(), Consumed.NOT_NOW, ""))
    early = bench.core.next_delivery()
    bench.advance(0.011)

    again = bench.listen()

    assert early is None
    assert (offsets_of(again), again.context.attempt) == ([0], 1)
    assert bench.core.blocked() == []


def test_a_listener_may_give_a_message_up_before_the_limit() -> None:
    bench = reading()
    delivery = bench.listen()
    delivery.context.delay_level = -1
    delivery.context.reason = "no such customer"
    bench.fail(delivery)

    document = bench.one("send-back").document

    assert (document["delay_level"], document["reason"]) == (-1, "no such customer")


@pytest.mark.parametrize("answer", ["refusal", "item"])
def test_a_queue_stands_still_where_its_message_is_not_taken_as_a_dead_letter(answer: str) -> None:
    bench = given_up()
    request = bench.one("send-back")
    if answer == "refusal":
        request.fail(NotPermitted("not here"))
    else:
        request.answer(outcome(None, status=403))
    bench.advance(6.0)
    still = bench.core.next_delivery(), bench.has("send-back")
    bench.core.revive(FIRST, is_skipping=True)

    assert still == (None, False)
    assert offsets_of(bench.listen()) == [1]


def test_a_dead_letter_waits_for_a_broker_that_is_away_and_nobody_may_pass_it() -> None:
    bench = given_up()
    bench.one("send-back").fail(ConnectFailed("away"))
    with pytest.raises(InvalidArgument):
        bench.core.revive(FIRST, is_skipping=True)
    early = bench.has("send-back")
    bench.advance(5.1)
    bench.one("send-back").answer(outcome(SentBack.ALREADY))

    assert not early
    assert offsets_of(bench.listen()) == [1]


def test_a_dead_letter_that_is_refused_for_its_lock_is_the_next_owners_to_bury() -> None:
    bench = given_up()
    bench.one("send-back").fail(LockLost("another has it"))
    bench.advance(1.0)
    bench.grant(FIRST, SECOND, epoch=8)
    bench.begin(q0=0, q1=0)
    bench.bring(FIRST, range(1))

    again = bench.listen()

    assert offsets_of(again) == [0]
    assert again.context.epoch == 8
