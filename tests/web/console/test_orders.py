"""The order system of the demonstration, without a queue."""

import random

import pytest

from apps.console.demo import orders
from apps.console.demo.orders import Ledger, OrderEvent, Shop, Step, Verdict


def event(order: int, step: Step, *, run: str = "r1") -> bytes:
    return OrderEvent(run=run, order=order, step=step).encode()


def test_an_event_reads_back_as_written() -> None:
    written = OrderEvent(run="r1", order=7, step=Step.PAID)

    assert OrderEvent.decode(written.encode()) == written
    assert written.key == "r1-7"
    assert written.tag == "paid"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"run": "r1", "order": 1, "step": "lost"}',
        b'{"run": "r1", "order": 1, "step": 2}',
        b'{"run": 1, "order": 1, "step": "paid"}',
        b'{"run": "r1", "order": "1", "step": "paid"}',
    ],
)
def test_what_is_no_event_is_foreign_and_no_failure(body: bytes) -> None:
    assert Ledger(run="r1").note(body) is Verdict.FOREIGN


def test_a_shop_moves_every_order_through_its_steps() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    shop = Shop(run="r1", dice=random.Random(seed))
    ledger = Ledger(run="r1")

    for _ in range(300):
        events = shop.events(10)

        assert 0 < len(events) <= 10
        assert len({one.order for one in events}) == len(events)
        for one in events:
            assert ledger.note(one.encode()) is Verdict.IN_ORDER

    assert ledger.counts[Verdict.IN_ORDER] > 2_900


def test_a_shop_keeps_few_orders_open() -> None:
    shop = Shop(run="r1", dice=random.Random(1))
    ended = started = 0

    for _ in range(1_000):
        for one in shop.events(20):
            started += one.step is Step.CREATED
            ended += one.step is Step.SHIPPED

    assert started - ended <= orders.OPEN_MAX
    assert ended > 5_000


def test_steps_in_order_are_in_order() -> None:
    ledger = Ledger(run="r1")

    verdicts = [ledger.note(event(1, step)) for step in Step]

    assert verdicts == [Verdict.IN_ORDER] * 3


@pytest.mark.parametrize("skipped", [Step.PAID, Step.SHIPPED])
def test_a_step_that_overtakes_another_is_out_of_order(skipped: Step) -> None:
    ledger = Ledger(run="r1")
    for step in range(skipped - 1):
        ledger.note(event(1, Step(step)))

    verdict = ledger.note(event(1, skipped))

    assert verdict is Verdict.OUT_OF_ORDER
    assert ledger.counts[Verdict.OUT_OF_ORDER] == 1


def test_two_swapped_steps_are_noticed() -> None:
    ledger = Ledger(run="r1")

    verdicts = [ledger.note(event(1, step)) for step in (Step.CREATED, Step.SHIPPED, Step.PAID)]

    assert verdicts == [Verdict.IN_ORDER, Verdict.OUT_OF_ORDER, Verdict.DUPLICATE]


def test_a_message_that_comes_again_is_a_duplicate_and_not_out_of_order() -> None:
    ledger = Ledger(run="r1")
    for step in Step:
        ledger.note(event(1, step))

    verdicts = [ledger.note(event(1, step)) for step in Step]

    assert verdicts == [Verdict.DUPLICATE] * 3
    assert ledger.counts[Verdict.OUT_OF_ORDER] == 0


def test_orders_do_not_disturb_each_other() -> None:
    ledger = Ledger(run="r1")

    verdicts = [ledger.note(event(order, step)) for step in Step for order in (1, 2, 3)]

    assert set(verdicts) == {Verdict.IN_ORDER}


def test_what_an_earlier_run_left_is_foreign() -> None:
    ledger = Ledger(run="r2")

    assert ledger.note(event(1, Step.SHIPPED, run="r1")) is Verdict.FOREIGN
    assert ledger.counts[Verdict.OUT_OF_ORDER] == 0


def test_the_ledger_forgets_the_oldest_orders_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "REMEMBERED_MAX", 2)
    ledger = Ledger(run="r1")
    for order in (1, 2, 3):
        ledger.note(event(order, Step.CREATED))

    assert ledger.note(event(3, Step.CREATED)) is Verdict.DUPLICATE
    assert ledger.note(event(2, Step.PAID)) is Verdict.IN_ORDER
    assert ledger.note(event(1, Step.CREATED)) is Verdict.IN_ORDER
