"""Producers of transactions: the local part, the decision, and the broker's questions."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from mqclient import (
    AsyncTransactionProducer,
    Closed,
    Decision,
    InvalidArgument,
    MqError,
    Overloaded,
    TransactionCheck,
    TransactionDecided,
    TransactionProducer,
    TransactionUndecided,
    UnknownTopic,
)

from tests.sdk.conftest import SHORT_S
from tests.sdk.fake_broker import FakeBroker
from tests.sdk.fake_later import Half

# Generous: a machine under load is slow, and only a hang must fail.
WAIT_S = 60.0


class Checks:
    """A listener of checks that says what a test wants."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.seen: list[TransactionCheck] = []
        self._came = threading.Semaphore(0)

    def __call__(self, check: TransactionCheck) -> Any:
        self.seen.append(check)
        answer = self.answers.pop(0) if self.answers else Decision.UNKNOWN
        self._came.release()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ask(self, check: TransactionCheck) -> Any:
        return self(check)

    def wait(self) -> None:
        assert self._came.acquire(timeout=WAIT_S)


def producer(broker: FakeBroker, check: Checks | None = None, **more: Any) -> TransactionProducer:
    return TransactionProducer(
        broker.url, producer_group="shop", check=check or Checks(), client_id="me", **more
    )


def halves(broker: FakeBroker) -> list[Half]:
    return list(broker.later.halves.values())


def wait_until(holds: Callable[[], bool]) -> None:
    done = threading.Event()
    for _ in range(5_000):
        if holds():
            return
        done.wait(0.002)
    raise AssertionError("it does not come to be")


@pytest.mark.parametrize(
    ("decision", "state", "visible"),
    [
        (Decision.COMMIT, "committed", [b"paid"]),
        (Decision.ROLLBACK, "rolled_back", []),
        (Decision.UNKNOWN, "pending", []),
        (None, "pending", []),
    ],
)
def test_what_the_local_part_says_is_what_becomes_of_the_message(
    broker: FakeBroker, decision: Decision, state: str, visible: list[bytes]
) -> None:
    seen: list[list[bytes]] = []

    def work(_transaction: object) -> Decision:
        seen.append(broker.bodies("orders", 1))
        return decision

    with producer(broker, check_immunity_ms=500) as sender:
        transaction = sender.send_in_transaction(
            "orders", "paid", work, queue=1, tag="T", keys="k", properties={"a": "b"}
        )

    (half,) = halves(broker)
    assert seen == [[]]
    assert (half.state, broker.bodies("orders", 1)) == (state, visible)
    assert (half.producer_group, half.immunity_ms) == ("shop", 500)
    assert {name: half.message[name] for name in ("tag", "keys", "properties", "queue")} == {
        "tag": "T", "keys": ["k"], "properties": {"a": "b"}, "queue": 1,
    }  # fmt: skip
    assert (transaction.ended is not None) == (state != "pending")
    assert transaction.message_id == "M1"


def test_the_local_part_is_not_run_when_the_half_message_is_not_stored(broker: FakeBroker) -> None:
    ran: list[object] = []
    fault = broker.fault("/transactions", "reset_before", times=10_000)
    with producer(broker, timeout_s=SHORT_S) as sender:
        with pytest.raises(MqError) as caught:
            sender.send_in_transaction("orders", "x", ran.append)  # type: ignore[arg-type]
        broker.faults.clear()
        with pytest.raises(UnknownTopic):
            sender.send_in_transaction("nowhere", "x", ran.append)  # type: ignore[arg-type]

    assert fault.fired_count == 1
    assert caught.value.outcome == "unknown"
    assert ran == []


def test_a_broker_that_is_busy_is_asked_again_to_store_the_half_message(broker: FakeBroker) -> None:
    fault = broker.fault("/transactions", "status", times=2)
    with producer(broker) as sender:
        sender.send_in_transaction("orders", "x", lambda _: Decision.COMMIT)

    assert fault.fired_count == 2
    assert [half.state for half in halves(broker)] == ["committed"]


def test_an_exception_of_the_local_part_is_raised_and_the_check_decides(broker: FakeBroker) -> None:
    checks = Checks(Decision.COMMIT)
    with producer(broker, checks) as sender:

        def work(_transaction: object) -> Decision:
            raise ValueError("after the local commit, perhaps")

        with pytest.raises(ValueError, match="perhaps"):
            sender.send_in_transaction("orders", "x", work, queue=0)
        before = halves(broker)[0].state
        broker.check("shop", "0.1-abc")
        wait_until(lambda: halves(broker)[0].state != "pending")

    assert before == "pending"
    assert broker.bodies("orders", 0) == [b"x"]


def test_a_block_commits_at_its_end_rolls_back_when_told_and_stays_open_after_an_exception(
    broker: FakeBroker,
) -> None:
    with producer(broker) as sender:
        with sender.transaction("orders", "first"):
            pass
        with sender.transaction("orders", "second") as second:
            second.rollback()
        with sender.transaction("orders", "third") as third:
            third.leave_open()
        with pytest.raises(KeyError), sender.transaction("orders", "fourth"):
            raise KeyError("x")

    assert [half.state for half in halves(broker)] == [
        "committed", "rolled_back", "pending", "pending",
    ]  # fmt: skip


def test_a_transaction_is_decided_once(broker: FakeBroker) -> None:
    with producer(broker) as sender, sender.transaction("orders", "x") as transaction:
        transaction.commit()
        transaction.commit()
        with pytest.raises(InvalidArgument):
            transaction.rollback()

    assert transaction.ended is not None
    assert transaction.ended.is_repeat
    assert len(broker.bodies("orders", 0)) == 1


@pytest.mark.parametrize("action", ["reset_before", "reset_after", "status"])
def test_a_decision_without_an_answer_is_told_again(broker: FakeBroker, action: str) -> None:
    fault = broker.fault(":commit", action, times=2)
    with producer(broker) as sender:
        sender.send_in_transaction("orders", "x", lambda _: Decision.COMMIT, queue=0)

    assert fault.fired_count == 2
    assert broker.bodies("orders", 0) == [b"x"]


def test_a_decision_that_does_not_reach_the_broker_is_raised_and_the_check_settles_it(
    broker: FakeBroker,
) -> None:
    fault = broker.fault(":commit", "reset_before", times=10_000)
    checks = Checks(Decision.COMMIT)
    with producer(broker, checks, timeout_s=SHORT_S) as sender:
        with pytest.raises(TransactionUndecided) as caught:
            sender.send_in_transaction("orders", "x", lambda _: Decision.COMMIT, queue=0)
        fault.times = fault.fired_count
        broker.check("shop", caught.value.transaction_id)
        wait_until(lambda: broker.bodies("orders", 0) == [b"x"])

    assert fault.fired_count > 0
    assert caught.value.outcome == "unknown"


def test_a_decision_against_an_earlier_one_is_refused(broker: FakeBroker) -> None:
    with producer(broker) as sender:

        def work(_transaction: object) -> Decision:
            broker.later.end("0.1-abc", "rollback")
            return Decision.COMMIT

        with pytest.raises(TransactionDecided):
            sender.send_in_transaction("orders", "x", work)

    assert broker.bodies("orders", 0) == []


def test_a_check_has_the_message_and_how_often_it_was_asked(broker: FakeBroker) -> None:
    checks = Checks(Decision.UNKNOWN, ValueError("the database is away"), "commit!", "rollback")
    with producer(broker, checks) as sender:
        sender.send_in_transaction(
            "orders", b"\xff", lambda _: Decision.UNKNOWN, tag="T", keys=["k"], sharding_key="s"
        )
        for _ in range(4):
            broker.check("shop", "0.1-abc")
            checks.wait()
        wait_until(lambda: halves(broker)[0].state == "rolled_back")

    first = checks.seen[0]
    assert [check.number for check in checks.seen] == [1, 2, 3, 4]
    assert (first.transaction_id, first.checks_max) == ("0.1-abc", 15)
    assert (first.message.topic, first.message.body) == ("orders", b"\xff")
    assert (first.message.tag, first.message.keys) == ("T", ("k",))
    assert first.message.sharding_key == "s"


def test_a_producer_that_was_restarted_answers_for_the_one_before(broker: FakeBroker) -> None:
    with producer(broker) as before:
        before.send_in_transaction("orders", "x", lambda _: Decision.UNKNOWN)

    def is_rolled_back() -> bool:
        # The fake may ask the one before, whose connection is cut off, so it asks again.
        broker.check("shop", "0.1-abc")
        return halves(broker)[0].state == "rolled_back"

    with producer(broker, Checks(*[Decision.ROLLBACK] * 10_000)):
        wait_until(is_rolled_back)


def test_checks_go_on_after_the_broker_was_away(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    fault = broker.fault("checks:receive", "reset_before", times=3)
    with producer(broker, Checks(Decision.COMMIT)) as sender:
        sender.send_in_transaction("orders", "x", lambda _: Decision.UNKNOWN)
        broker.check("shop", "0.1-abc")
        wait_until(lambda: halves(broker)[0].state == "committed")

    assert fault.fired_count == 3
    assert caplog.text.count("no checks of transactions") == 1


def test_closing_ends_the_wait_for_checks_at_once(broker: FakeBroker) -> None:
    sender = producer(broker)
    sender.start()
    wait_until(lambda: any("checks:receive" in line for line in broker.requests))
    closing = threading.Thread(target=sender.close)
    closing.start()
    closing.join(60)

    assert not closing.is_alive()
    with pytest.raises(Closed):
        sender.send_in_transaction("orders", "x", lambda _: Decision.COMMIT)
    with pytest.raises(Closed):
        sender.start()


def test_without_anybody_to_answer_checks_nothing_is_begun(broker: FakeBroker) -> None:
    sender = producer(broker)

    with pytest.raises(Closed):
        sender.send_in_transaction("orders", "x", lambda _: Decision.COMMIT)

    assert broker.later.halves == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"producer_group": "no blanks"}, {"wait_ms": 30_001}, {"check_immunity_ms": -1},
        {"checks_max": 0}, {"timeout_s": 0}, {"client_id": ""},
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(broker: FakeBroker, wrong: dict[str, Any]) -> None:
    with pytest.raises(MqError):
        TransactionProducer(broker.url, **{"producer_group": "g", "check": Checks(), **wrong})


async def test_an_async_producer_commits_rolls_back_and_answers_checks(broker: FakeBroker) -> None:
    checks = Checks(Decision.ROLLBACK)

    async def work(_transaction: object) -> Decision:
        await asyncio.sleep(0)
        return Decision.COMMIT

    async with AsyncTransactionProducer(
        broker.url, producer_group="shop", check=checks.ask
    ) as sender:
        await sender.send_in_transaction("orders", "first", work)
        async with sender.transaction("orders", "second"):
            pass
        async with sender.transaction("orders", "third") as third:
            await third.rollback()
        with pytest.raises(KeyError):
            async with sender.transaction("orders", "fourth"):
                raise KeyError("x")
        before = [half.state for half in halves(broker)]
        broker.check("shop", "3.1-abc")
        while halves(broker)[3].state == "pending":
            await asyncio.sleep(0.002)

    assert before == ["committed", "committed", "rolled_back", "pending"]
    assert halves(broker)[3].state == "rolled_back"
    with pytest.raises(Closed):
        await sender.send_in_transaction("orders", "x", work)
    with pytest.raises(Closed):
        await sender.start()


async def test_an_async_producer_lets_a_check_that_runs_be_answered(broker: FakeBroker) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def check(_check: TransactionCheck) -> Decision:
        entered.set()
        await go_on.wait()
        return Decision.COMMIT

    sender = AsyncTransactionProducer(broker.url, producer_group="shop", check=check)
    await sender.start()
    async with sender.transaction("orders", "x") as transaction:
        transaction.leave_open()
    broker.check("shop", "0.1-abc")
    await asyncio.wait_for(entered.wait(), WAIT_S)
    closing = asyncio.create_task(sender.close())
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.wait_for(closing, WAIT_S)

    assert halves(broker)[0].state == "committed"


async def test_an_async_listener_that_raises_is_asked_again(broker: FakeBroker) -> None:
    checks = Checks(Overloaded("the database"), Decision.COMMIT)
    async with AsyncTransactionProducer(
        broker.url, producer_group="shop", check=checks.ask
    ) as sender:
        async with sender.transaction("orders", "x") as transaction:
            transaction.leave_open()
        for _ in range(2):
            broker.check("shop", "0.1-abc")
            await asyncio.to_thread(checks.wait)
        while halves(broker)[0].state == "pending":
            await asyncio.sleep(0.002)

    assert len(checks.seen) == 2
