"""The settling thread against a broker that fails: what is asked of it, and with which handles."""

import threading
from collections.abc import Iterator

import pytest
from mqclient.celery.client import Client
from mqclient.celery.holding import Held
from mqclient.celery.lanes import Lanes
from mqclient.celery.messages import packed
from mqclient.celery.names import Names
from mqclient.celery.options import Options
from mqclient.celery.renewing import ATTEMPTS_MAX
from mqclient.celery.settling import Settler
from mqclient.errors import MqError
from mqclient.protocol.endpoint import Endpoint

from tests.sdk.celery.clocks import ManualClock
from tests.sdk.celery.records import body
from tests.sdk.fake_broker import FakeBroker, body_of, properties_of

FLUSH_S = 60.0
TOPIC = Names().lane("lane")


class Case:
    """A lane with messages, and a settler that holds what was received of it."""

    def __init__(self, broker: FakeBroker, clock: ManualClock) -> None:
        self.broker = broker
        self.clock = clock
        self.failures: list[MqError] = []
        options = Options(visibility_timeout_s=60)
        self.client = Client(Endpoint.of(broker.url), options, clock=clock)
        self.lanes = Lanes(self.client, Names())
        self.settler = Settler(self.client, on_failure=self.failures.append)
        self.lanes.declare("lane")

    def received(self, *bodies: bytes) -> list[Held]:
        """Store messages, receive them and hold them."""
        self.broker.put(TOPIC, 0, *bodies)
        records = self.lanes.receive("lane", messages_max=100, invisible_ms=60_000)
        return self.settler.admit(("lane", record) for record in records)

    def pass_time(self, seconds: float) -> None:
        """Let time go on, and the thread see it."""
        self.clock.advance(seconds)
        self.settler.admit(())

    def close(self) -> None:
        self.client.pool.abort()
        self.settler.stop()


@pytest.fixture
def case(broker: FakeBroker, clock: ManualClock) -> Iterator[Case]:
    """Return a lane of whose messages none was received yet."""
    case = Case(broker, clock)
    yield case
    case.close()


def handles(broker: FakeBroker, verb: str) -> list[list[str]]:
    return [
        document["receipt_handles"]
        for name, document in broker.documents
        if name == f"messages:{verb}"
    ]


def test_acknowledgements_go_as_runs_in_one_request(case: Case) -> None:
    items = case.received(*[body()] * 5)

    for item in items:
        case.settler.ack(item)

    assert case.settler.flush(FLUSH_S)
    assert handles(case.broker, "ack") == [["0-00000000:0-4"]]


def test_what_is_given_back_is_received_again(case: Case) -> None:
    case.settler.give_back(case.received(body("first"), body("second")))
    assert case.settler.flush(FLUSH_S)

    again = case.received()

    assert [item.document["body"] for item in again] == ["first", "second"]
    assert all(item.is_redelivered for item in again)


def test_what_is_no_message_is_logged_and_thrown_away(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    (item,) = case.received(b"no JSON at all", body("fine"))

    assert item.document["body"] == "fine"
    assert case.settler.flush(FLUSH_S)
    assert case.broker.settled == [("ack", TOPIC, 0, 0)]
    assert "is thrown away" in caplog.text


def hand_out(case: Case, times: int) -> list[list[Held]]:
    """Have messages received and given back so often; return what each receiver got."""
    got = []
    for _ in range(times):
        got.append(case.received())
        case.settler.give_back(got[-1])
        assert case.settler.flush(FLUSH_S)
    return got


def test_what_is_never_finished_is_stored_anew_before_the_broker_buries_it(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    # The broker makes a message a dead letter at its 17th failure. A task must outlive that.
    case.broker.put(TOPIC, 0, body("stubborn"))
    got = hand_out(case, 40)

    bodies = [item.document["body"] for items in got for item in items]
    attempts = max(case.broker.handed_out.values())
    assert len(bodies) > 30
    assert set(bodies) == {"stubborn"}
    assert attempts == ATTEMPTS_MAX + 1 < 16
    assert "handed out 9 times" in caplog.text
    # Whoever gets the copy must know that the task was begun before.
    assert all(item.is_redelivered for items in got[1:] for item in items)


def test_what_is_stored_anew_is_the_same_task_of_the_same_priority(case: Case) -> None:
    task = {"body": "x", "properties": {"correlation_id": "id-1"}, "headers": {"task": "shop.pay"}}
    case.lanes.put("lane", packed(task, "", "lane"), 9)
    hand_out(case, ATTEMPTS_MAX)
    first = case.broker.queues[TOPIC, 3][0]
    again = hand_out(case, 2)

    copies = case.broker.queues[TOPIC, 3]
    assert again[0] == []
    assert len(again[1]) == 1
    assert [body_of(record) for record in copies] == [body_of(first)] * 2
    assert properties_of(copies[1]).get("KEYS") == properties_of(first).get("KEYS")
    assert properties_of(copies[1]).get("TAGS") == properties_of(first).get("TAGS")
    assert ("ack", TOPIC, 3, 0) in case.broker.settled


def test_what_cannot_be_stored_anew_is_delivered_as_it_is(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    case.broker.put(TOPIC, 0, body("x"))
    hand_out(case, ATTEMPTS_MAX)
    fault = case.broker.fault("messages?queue=", "status", status=403, code="x", retriable=False)

    (item,) = case.received()

    assert fault.fired_count == 1
    assert item.document["body"] == "x"
    assert "cannot be stored anew" in caplog.text


@pytest.mark.parametrize("action", ["reset_before", "reset_after", "status"])
@pytest.mark.parametrize("verb", ["ack", "nack"])
def test_settling_is_repeated_until_it_is_confirmed(case: Case, verb: str, action: str) -> None:
    fault = case.broker.fault(f"messages:{verb}", action, times=2)
    (item,) = case.received(body())

    if verb == "ack":
        case.settler.ack(item)
    else:
        case.settler.give_back([item])

    assert case.settler.flush(FLUSH_S)
    assert fault.fired_count == 2
    assert (verb, TOPIC, 0, 0) in case.broker.settled
    assert case.failures == []


def test_a_message_acknowledged_too_late_is_told_in_the_log_only(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    (item,) = case.received(body())
    case.broker.expired_tokens.add("0-00000000")

    case.settler.ack(item)

    assert case.settler.flush(FLUSH_S)
    assert "1 of 1 messages were no longer ours when they were to be acknowledged" in caplog.text
    assert case.failures == []


def test_a_refusal_is_told(case: Case) -> None:
    case.broker.fault("messages:ack", "status", status=401, code="unauthenticated", retriable=False)
    (item,) = case.received(body())

    case.settler.ack(item)

    assert case.settler.flush(FLUSH_S)
    assert [error.problem_code for error in case.failures] == ["unauthenticated"]


def test_what_is_acknowledged_while_it_is_extended_is_settled_by_its_new_handle(
    case: Case,
) -> None:
    (item,) = case.received(body())
    extension = case.broker.fault("messages:extend", "hold")

    case.pass_time(20)
    assert extension.fired.wait(FLUSH_S)
    case.settler.ack(item)
    extension.release()

    assert case.settler.flush(FLUSH_S)
    assert handles(case.broker, "extend") == [["0-00000000:0"]]
    assert handles(case.broker, "ack") == [["1-00000000:0"]]
    assert [item[0] for item in case.broker.settled] == ["extend", "ack"]


def test_an_extension_that_was_refused_for_now_is_repeated(case: Case) -> None:
    (item,) = case.received(body())
    refused = case.broker.fault("messages:extend", "status")
    repeated = case.broker.fault("messages:extend", "hold")

    case.pass_time(20)
    assert repeated.fired.wait(FLUSH_S)
    repeated.release()
    case.settler.ack(item)

    assert case.settler.flush(FLUSH_S)
    assert refused.fired_count == 1
    assert handles(case.broker, "ack") == [["1-00000000:0"]]


def test_a_message_lost_while_it_was_held_is_told_once(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    lost, kept = case.received(body("lost"), body("kept"))
    case.settler.ack(kept)
    assert case.settler.flush(FLUSH_S)
    case.broker.expired_tokens.add("0-00000000")
    extension = case.broker.fault("messages:extend", "hold")

    case.pass_time(20)
    assert extension.fired.wait(FLUSH_S)
    extension.release()
    case.settler.ack(lost)

    assert case.settler.flush(FLUSH_S)
    assert lost.is_lost
    assert len([text for text in caplog.messages if "no longer ours" in text]) == 1
    assert "to be extended" in caplog.text


def test_what_was_not_sent_in_time_is_said(case: Case) -> None:
    (item,) = case.received(body())
    fault = case.broker.fault("messages:ack", "hold")

    case.settler.ack(item)
    case.pass_time(1)
    assert fault.fired.wait(FLUSH_S)

    assert not case.settler.flush(0.01)
    fault.release()
    assert case.settler.flush(FLUSH_S)


def test_nothing_was_held_and_nothing_runs(case: Case) -> None:
    assert case.settler.flush(0.0)
    assert case.broker.settled == []


def test_what_was_not_sent_when_the_connection_ended_is_sent_later(case: Case) -> None:
    first, second = case.received(body("first"), body("second"))
    case.settler.ack(first)
    case.settler.give_back([second])
    away = case.broker.fault("messages:", "hold_reset", times=2)
    assert not case.settler.flush(0.01)
    ended = threading.Event()

    case.settler.go_on_alone(ended.set)
    assert away.fired.wait(FLUSH_S)
    away.release()

    assert ended.wait(FLUSH_S)
    assert away.fired_count == 2
    assert sorted(case.broker.settled) == [("ack", TOPIC, 0, 0), ("nack", TOPIC, 0, 1)]


def test_what_cannot_be_sent_before_its_lease_ends_is_given_up(case: Case) -> None:
    (item,) = case.received(body())
    case.broker.fault("messages:ack", "reset_before", times=1_000_000)
    ended = threading.Event()

    case.settler.ack(item)
    case.settler.go_on_alone(ended.set)
    case.pass_time(61)

    assert ended.wait(FLUSH_S)
    assert case.broker.settled == []
