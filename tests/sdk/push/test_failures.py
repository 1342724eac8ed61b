"""What becomes of messages listeners fail at, in threads and on a loop; and interrupted starts."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from mqclient import (
    AsyncPushConsumer,
    Consumed,
    ListenerContext,
    Message,
    MessageModel,
    PushConsumer,
)
from mqclient.transport.threads import ThreadDriver

from tests.sdk.fake_broker import FakeBroker, properties_of
from tests.sdk.push.hearing import WAIT_S, Ear, wait_until


def consumer(broker: FakeBroker, listener: Any, **settings: Any) -> PushConsumer:
    return PushConsumer(broker.url, group="g", topics="orders", listener=listener, **settings)


def dead(broker: FakeBroker) -> list[dict[str, str]]:
    return [properties_of(record) for record in broker.queues["%DLQ%g", 0]]


def test_a_message_comes_again_as_what_it_was_until_it_succeeds(broker: FakeBroker) -> None:
    broker.put("orders", 2, b"x", tag="T")
    heard: list[tuple[str, str | None, int, int]] = []

    def listener(messages: Sequence[Message], context: ListenerContext) -> Consumed:
        (message,) = messages
        heard.append((message.topic, message.tag, context.attempt, message.reconsume_times))
        if len(heard) < 4:
            raise ValueError("no stock")
        return Consumed.SUCCESS

    with consumer(broker, listener, client_id="me"):
        wait_until(lambda: len(heard) == 4)

    assert heard == [("orders", "T", n + 1, n) for n in range(4)]
    assert broker.committed["g", "orders", 2] == 1
    assert broker.committed["g", "%RETRY%g", 0] == 3
    assert {item["reason"] for item in broker.failures.sent_back} == {"ValueError('no stock')"}


def test_after_the_last_try_a_message_is_a_dead_letter(broker: FakeBroker) -> None:
    broker.failures.failures_max = 2
    broker.put("orders", 0, b"poison")
    ear = Ear(lambda *_: None)

    with consumer(broker, ear):
        wait_until(lambda: bool(dead(broker)))

    assert [context.attempt for context in ear.contexts] == [1, 2, 3]
    assert dead(broker)[0]["RETRY_TOPIC"] == "orders"


def test_a_listener_may_make_a_message_a_dead_letter_at_once(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"poison", b"fine")

    def gives_up(message: Message, context: ListenerContext) -> Consumed:
        context.delay_level = -1
        return Consumed.SUCCESS if message.body == b"fine" else Consumed.RETRY_LATER

    ear = Ear(gives_up)
    with consumer(broker, ear):
        ear.wait_for_count(2)
        wait_until(lambda: bool(dead(broker)))

    assert sorted(ear.bodies) == [b"fine", b"poison"]


def test_an_ordered_queue_goes_on_behind_a_dead_letter(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"poison", b"fine")
    ear = Ear(lambda message, _: Consumed.SUCCESS if message.body == b"fine" else None)

    with consumer(broker, ear, ordered=True, suspend_ms=10, attempts_max=3):
        ear.wait_for(lambda heard: b"fine" in heard.bodies)

    assert ear.bodies == [b"poison"] * 3 + [b"fine"]
    assert len(dead(broker)) == 1
    assert broker.committed["g", "orders", 0] == 2
    assert not any("RETRY" in line for line in broker.requests)


def test_a_broadcasting_member_has_no_retry_topic_and_sends_nothing_back(
    broker: FakeBroker, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    broker.put("orders", 0, b"x")
    ear = Ear(lambda *_: None)

    with consumer(
        broker, ear, model=MessageModel.BROADCASTING, client_id="me", offsets_folder=tmp_path,
        consume_from=None,
    ):  # fmt: skip
        ear.wait_for_count(1)
        wait_until(lambda: "dropped" in caplog.text)

    assert broker.failures.sent_back == []
    assert not any("RETRY" in line for line in broker.requests)


@pytest.mark.parametrize("action", ["reset_before", "reset_after", "status"])
def test_sending_back_that_fails_loses_no_message(broker: FakeBroker, action: str) -> None:
    broker.put("orders", 0, b"x")
    fault = broker.fault("send-back", action)
    ear = Ear(lambda _, context: Consumed.SUCCESS if context.attempt > 1 else None)

    with consumer(broker, ear, retry_delay_ms=20, commit_s=0.02):
        ear.wait_for_count(2)
        wait_until(lambda: broker.committed.get(("g", "orders", 0)) == 1)

    assert fault.fired_count == 1
    assert ear.bodies == [b"x", b"x"]


def test_a_broker_that_takes_nothing_back_has_it_come_again_here(broker: FakeBroker) -> None:
    broker.failures.refuses = True
    broker.put("orders", 0, b"x")
    ear = Ear(lambda _, context: Consumed.SUCCESS if context.attempt == 3 else None)

    with consumer(broker, ear, retry_delay_ms=20):
        ear.wait_for_count(3)

    assert [context.attempt for context in ear.contexts] == [1, 2, 3]
    assert len(broker.failures.sent_back) == 2
    assert broker.committed["g", "orders", 0] == 1


async def test_on_a_loop_a_failed_message_is_sent_back_too(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"x")
    ear = Ear(lambda _, context: Consumed.SUCCESS if context.attempt > 2 else None)

    async with (
        AsyncPushConsumer(broker.url, group="g", topics="orders", listener=ear.listen),
        asyncio.timeout(WAIT_S),
    ):
        while len(ear.bodies) < 3:
            await asyncio.sleep(0.002)

    assert len(broker.failures.sent_back) == 2
    assert broker.committed["g", "orders", 0] == 1


async def test_a_listener_that_is_cancelled_at_the_end_has_not_failed(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"x")
    entered = asyncio.Event()

    async def listener(_messages: list[Message], _context: ListenerContext) -> Consumed:
        entered.set()
        await asyncio.Event().wait()
        return Consumed.SUCCESS

    async with AsyncPushConsumer(
        broker.url, group="g", topics="orders", listener=listener, stop_wait_s=0.01
    ):
        await asyncio.wait_for(entered.wait(), WAIT_S)

    assert broker.failures.sent_back == []
    assert broker.committed["g", "orders", 0] == 0


class Seen:
    """An interceptor that keeps what it saw, and raises at the end of it."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.bodies: list[bytes] = []

    def queue_begins(self, topic: str, queue: int) -> None:
        self.begun.append((topic, queue))
        raise ValueError("of an interceptor, where a queue begins")

    def after_receive(self, messages: Sequence[Message]) -> None:
        self.bodies += [message.body for message in messages]
        raise ValueError("of an interceptor, after messages came")


def test_an_interceptor_sees_messages_before_the_listener_and_may_raise(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.put("orders", 0, b"1", b"2", b"3")
    broker.put("orders", 1, b"other queue")
    seen = Seen()
    before: list[bool] = []
    ear = Ear(lambda message, _: before.append(message.body in seen.bodies) or Consumed.SUCCESS)

    with consumer(broker, ear, interceptors=[seen]):
        ear.wait_for_count(4)

    assert before == [True] * 4
    assert [body for body in seen.bodies if body != b"other queue"] == [b"1", b"2", b"3"]
    assert {("orders", 0), ("orders", 1)} <= set(seen.begun)
    assert len(seen.begun) == len(set(seen.begun))
    assert "of an interceptor, where a queue begins" in caplog.text
    assert "of an interceptor, after messages came" in caplog.text


def test_an_interceptor_does_not_see_what_a_filter_does_not_take(broker: FakeBroker) -> None:
    # The broker's hash of both tags is the same, so both messages come.
    broker.put("orders", 0, b"other", tag="AaAa")
    broker.put("orders", 0, b"wanted", tag="BBBB")
    seen, ear = Seen(), Ear()

    with PushConsumer(
        broker.url, group="g", subscriptions={"orders": "BBBB"}, listener=ear, interceptors=[seen]
    ):
        wait_until(lambda: broker.committed.get(("g", "orders", 0)) == 2 or len(ear.bodies) > 0)

    assert set(seen.bodies) == set(ear.bodies)


@pytest.mark.parametrize("kicks_before", [0, 1])
def test_an_interrupt_between_joining_and_listening_leaves_the_group(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, kicks_before: int
) -> None:
    # The member had joined when Ctrl-C came, and stayed in the group until the broker missed it:
    # for half a minute its queues were read by nobody. So `start` leaves before it raises.
    kick = ThreadDriver.kick
    interrupts = [None] * kicks_before + [KeyboardInterrupt()]
    main = threading.current_thread()

    def interrupted(driver: ThreadDriver) -> None:
        # Python interrupts the main thread, and no other.
        if interrupts and threading.current_thread() is main:
            interrupt = interrupts.pop(0)
            if interrupt is not None:
                raise interrupt
        kick(driver)

    monkeypatch.setattr(ThreadDriver, "kick", interrupted)
    member = consumer(broker, Ear(), client_id="me")

    with pytest.raises(KeyboardInterrupt):
        member.start()

    assert interrupts == []
    assert any("/members/me:heartbeat" in line for line in broker.requests)
    assert any("/members/me:leave" in line for line in broker.requests)
    assert broker.groups["g"].members == {}
