"""The push consumer for threads over real sockets."""

import threading
import time
from collections import Counter
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest
from mqclient import (
    Closed,
    Consumed,
    ConsumeFrom,
    InvalidArgument,
    InvalidFilter,
    InvalidName,
    ListenerContext,
    Message,
    PushConsumer,
    Sql,
    TopicQueue,
    UnknownTopic,
    Unreachable,
)

from tests.sdk.fake_broker import FakeBroker
from tests.sdk.push.hearing import WAIT_S, Ear, Gate, wait_until


def consumer(broker: FakeBroker, listener: Any, **settings: Any) -> PushConsumer:
    named = {"group": "g", "topics": "orders", **settings}
    return PushConsumer(broker.url, listener=listener, **named)


def fill(broker: FakeBroker, count: int) -> None:
    for queue in range(4):
        broker.put("orders", queue, *(b"%d-%d" % (queue, number) for number in range(count)))


def test_every_message_is_heard_once_and_committed_at_the_end(broker: FakeBroker) -> None:
    fill(broker, 250)
    ear = Ear()

    with consumer(broker, ear):
        ear.wait_for_count(1_000)

    assert sorted(ear.bodies) == sorted(
        b"%d-%d" % (queue, number) for queue in range(4) for number in range(250)
    )
    assert broker.progress == {("g", "orders", queue): 250 for queue in range(4)}
    assert broker.groups["g"].members == {}


def test_messages_that_come_later_are_heard_at_once(broker: FakeBroker) -> None:
    ear = Ear()

    with consumer(broker, ear):
        broker.put("orders", 2, b"late")
        ear.wait_for_count(1)

    assert ear.bodies == [b"late"]


def test_a_batch_is_of_one_queue(broker: FakeBroker) -> None:
    fill(broker, 100)
    sizes: list[tuple[int, set[int]]] = []
    ear = Ear()

    def listener(messages: list[Message], context: ListenerContext) -> Consumed | None:
        sizes.append((len(messages), {message.queue for message in messages}))
        return ear(messages, context)

    with consumer(broker, listener, consume_batch_max=16):
        ear.wait_for_count(400)

    assert max(size for size, _ in sizes) == 16
    assert all(len(queues) == 1 for _, queues in sizes)


def test_listeners_run_side_by_side_up_to_the_limit(broker: FakeBroker) -> None:
    fill(broker, 10)
    gate = Gate()

    with consumer(broker, gate, listeners_max=3):
        for _ in range(3):
            gate.wait_inside()
        is_fourth = gate.entered.acquire(timeout=0.05)
        gate.let_out(40)

    assert not is_fourth


def test_a_filter_is_compared_by_the_tag_itself(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"impostor", tag="BBBB")
    broker.put("orders", 0, b"wanted", tag="AaAa")
    ear = Ear()

    with consumer(broker, ear, topics=(), subscriptions={"orders": "AaAa"}):
        ear.wait_for_count(1)

    assert ear.bodies == [b"wanted"]
    assert broker.committed["g", "orders", 0] == 2


def test_an_sql_filter_goes_to_the_broker_with_every_pull_and_heartbeat(broker: FakeBroker) -> None:
    wanted = Sql("colour = 'red' AND size > 3")
    with consumer(broker, Ear(), topics=(), subscriptions={"orders": wanted}):
        fault = broker.fault("/orders/queues/0/messages", "reset_before")
        assert fault.fired.wait(WAIT_S) or fault.fired_count

    (pull, *_) = [line for line in broker.requests if "/orders/queues/0/messages" in line]
    (beat, *_) = [document for name, document in broker.documents if name.endswith(":heartbeat")]
    assert "filter=colour%20%3D%20%27red%27%20AND%20size%20%3E%203&filter_type=SQL92" in pull
    assert beat["subscriptions"] == [
        {"topic": "orders", "filter": wanted.expression, "filter_type": "SQL92"},
        {"topic": "%RETRY%g", "filter": "*"},
    ]


def test_two_members_share_the_queues_and_a_leaver_gives_its_own_back(broker: FakeBroker) -> None:
    first_ear, second_ear = Ear(), Ear()
    with consumer(broker, first_ear, client_id="a") as first:
        with consumer(broker, second_ear, client_id="b") as second:
            wait_until(lambda: len(first.assignment()) == 2)
            shares = first.assignment(), second.assignment()
            fill(broker, 20)
            wait_until(lambda: len(first_ear.bodies) + len(second_ear.bodies) >= 80)
        wait_until(lambda: len(first.assignment()) == 4)
        broker.put("orders", 3, b"more")
        first_ear.wait_for(lambda ear: b"more" in ear.bodies)

    assert {place.queue for place in shares[0]} == {0, 1}
    assert {place.queue for place in shares[1]} == {2, 3}
    assert Counter(first_ear.bodies + second_ear.bodies).most_common(1)[0][1] == 1


def test_a_new_assignment_is_applied_before_a_heartbeat_is_over(broker: FakeBroker) -> None:
    ear = Ear()
    with consumer(broker, ear, client_id="a", heartbeat_wait_ms=30_000) as member:
        broker.assign("g", {"a": {"orders": [1]}})
        start_s = time.monotonic()
        wait_until(lambda: member.assignment() == (TopicQueue("orders", 1),))
        seconds = time.monotonic() - start_s

    assert seconds < 25.0


def test_a_failed_message_comes_again_and_its_queue_is_committed_beyond_it(
    broker: FakeBroker,
) -> None:
    broker.put("orders", 0, b"bad", b"good")
    ear = Ear(
        lambda message, context: (
            Consumed.SUCCESS if message.body == b"good" or context.attempt > 1 else None
        )
    )

    with consumer(broker, ear, retry_delay_ms=20):
        ear.wait_for(lambda heard: heard.bodies.count(b"bad") == 2)

    assert broker.committed["g", "orders", 0] == 2
    assert [context.attempt for context in ear.contexts].count(2) == 1
    assert [item["offset"] for item in broker.failures.sent_back] == ["0"]
    assert broker.failures.sent_back[0]["reason"] == "the listener returned None"


def test_an_exception_of_a_listener_is_logged_and_means_later(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.put("orders", 0, b"x")

    def fails_once(message: Message, context: ListenerContext) -> Consumed:
        if context.attempt == 1:
            raise ValueError("no stock")
        return Consumed.SUCCESS

    ear = Ear(fails_once)
    with consumer(broker, ear, retry_delay_ms=20):
        ear.wait_for_count(2)

    assert "no stock" in caplog.text
    assert broker.committed["g", "orders", 0] == 1


class Rejecting(Executor):
    """Takes work only when a test lets it."""

    def __init__(self) -> None:
        self.inner = ThreadPoolExecutor(2)
        self.is_full = threading.Event()
        self.rejected = threading.Event()

    def submit(self, call: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        if self.is_full.is_set():
            self.rejected.set()
            raise RuntimeError("full")
        return self.inner.submit(call, *arguments, **named)


def test_a_rejected_batch_is_offered_again(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqclient.consuming.push.workers._REJECTED_PAUSE_S", 0.02)
    executor = Rejecting()
    executor.is_full.set()
    ear = Ear()

    with executor.inner, consumer(broker, ear, executor=executor):
        broker.put("orders", 0, b"x")
        assert executor.rejected.wait(WAIT_S)
        executor.is_full.clear()
        ear.wait_for_count(1)

    assert ear.bodies == [b"x"]


@pytest.mark.parametrize("action", ["reset_before", "reset_after", "status"])
@pytest.mark.parametrize(
    "match", ["/queues/0/messages", ":heartbeat", "offsets:begin", "offsets:commit", ":leave"]
)
def test_one_lost_request_loses_nothing(broker: FakeBroker, match: str, action: str) -> None:
    fill(broker, 5)
    fault = broker.fault(match, action)
    ear = Ear()

    with consumer(broker, ear, commit_s=0.05):
        ear.wait_for_count(20)

    assert fault.fired_count == 1
    assert set(ear.bodies) == {b"%d-%d" % (q, n) for q in range(4) for n in range(5)}
    assert broker.progress == {("g", "orders", queue): 5 for queue in range(4)}
    assert broker.groups["g"].members == {}


def test_closing_lets_running_listeners_finish_and_commits_them(broker: FakeBroker) -> None:
    fill(broker, 3)
    gate = Gate()
    member = consumer(broker, gate, listeners_max=1)
    member.start()
    gate.wait_inside()
    closing = threading.Thread(target=member.close)
    closing.start()
    gate.let_out(2)
    closing.join(WAIT_S)

    assert not closing.is_alive()
    assert len(gate.heard) == 1
    assert sum(broker.committed.values()) == 1


def test_closing_waits_only_so_long_for_a_listener(broker: FakeBroker) -> None:
    fill(broker, 1)
    gate = Gate()
    member = consumer(broker, gate, listeners_max=1, stop_wait_s=0.0)
    member.start()
    gate.wait_inside()

    member.close()
    gate.let_out()

    assert sum(broker.committed.values()) == 0
    assert broker.groups["g"].members == {}


def test_no_heartbeat_follows_the_leaving(broker: FakeBroker) -> None:
    with consumer(broker, Ear()):
        wait_until(lambda: sum(":heartbeat" in line for line in broker.requests) >= 2)

    after = broker.requests[[":leave" in line for line in broker.requests].index(True) :]
    assert [line for line in after if ":heartbeat" in line] == []
    assert [line.split(":")[-1] for line in after if "/members/" in line] == ["leave"]


def test_where_a_group_begins_is_asked_with_the_members_wish(broker: FakeBroker) -> None:
    fill(broker, 5)
    ear = Ear()
    with consumer(broker, ear, consume_from=ConsumeFrom.LAST):
        wait_until(lambda: any("/queues/0/messages" in line for line in broker.requests))
        broker.put("orders", 0, b"new")
        ear.wait_for_count(1)

    assert ear.bodies == [b"new"]


def test_what_the_broker_refuses_is_raised_by_start(broker: FakeBroker) -> None:
    member = consumer(broker, Ear(), topics="nowhere")

    with pytest.raises(UnknownTopic):
        member.start()
    with pytest.raises(Closed):
        member.start()


def test_a_broker_that_is_not_there_is_raised_by_start() -> None:
    member = PushConsumer(
        "http://127.0.0.1:1", group="g", topics="orders", listener=Ear(), timeout_s=0.05
    )

    with pytest.raises(Unreachable):
        member.start()


def test_a_queue_that_is_anothers_by_now_is_dropped_and_not_read_on(broker: FakeBroker) -> None:
    fault = broker.fault(
        "/queues/0/messages", "status", status=409, code="stale_generation", retriable=False
    )
    ear = Ear()

    with consumer(broker, ear) as member:
        assert fault.fired.wait(WAIT_S)
        broker.put("orders", 0, b"again")
        ear.wait_for_count(1)
        failure = member.failure

    assert ear.bodies == [b"again"]
    assert failure is None


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"group": "a/b"}, InvalidName),
        ({"topics": ()}, InvalidArgument),
        ({"topics": "a b"}, InvalidName),
        ({"subscriptions": {"orders": "x"}}, InvalidArgument),
        ({"topics": (), "subscriptions": {"orders": "a||"}}, InvalidFilter),
        ({"topics": (), "subscriptions": {"orders": Sql("  ")}}, InvalidFilter),
        ({"listeners_max": 0}, InvalidArgument),
        ({"suspend_ms": 9}, InvalidArgument),
        ({"suspend_ms": 30_001}, InvalidArgument),
        ({"hold_ms": 30_001}, InvalidArgument),
        ({"attempts_max": 0}, InvalidArgument),
        ({"stop_wait_s": -1}, InvalidArgument),
        ({"client_id": ""}, InvalidArgument),
        ({"consume_from": ConsumeFrom.TIMESTAMP}, InvalidArgument),
        ({"consume_from_ms": 5}, InvalidArgument),
        ({"model": "BROADCASTING"}, InvalidArgument),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any], kind: type[Exception]) -> None:
    settings = {"group": "g", "topics": "orders", **wrong}

    with pytest.raises(kind):
        PushConsumer("http://x", listener=Ear(), **settings)


def test_a_coroutine_function_does_not_listen_in_threads() -> None:
    with pytest.raises(InvalidArgument):
        PushConsumer("http://x", group="g", topics="t", listener=Ear().listen)  # type: ignore[arg-type]


def test_a_consumer_that_was_not_started_has_nothing_to_tell() -> None:
    member = PushConsumer("http://x", group="g", topics="t", listener=Ear())

    with pytest.raises(Closed):
        member.assignment()
    member.close()
