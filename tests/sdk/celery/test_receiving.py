"""The receiving thread: how much it asks for, of which lanes, and what it does with surprises."""

from collections.abc import Iterator
from itertools import count

import pytest
from mqclient.celery.client import Client
from mqclient.celery.deliveries import Consumer, Deliveries
from mqclient.celery.holding import Held
from mqclient.celery.lanes import Lanes
from mqclient.celery.names import Names
from mqclient.celery.news import News
from mqclient.celery.options import TOPICS_MAX, Options
from mqclient.celery.receiving import Fetcher
from mqclient.celery.settling import Settler
from mqclient.clock import SystemClock
from mqclient.errors import MqError
from mqclient.protocol.endpoint import Endpoint

from tests.sdk.celery.records import body
from tests.sdk.fake_broker import FakeBroker

# Generous: a machine under load is slow, and only a hang must fail.
WAIT_S = 60.0


class Case:
    """A channel that consumes lanes, without kombu."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.failures: list[MqError] = []
        self.client = Client(Endpoint.of(broker.url), Options(receive_max=8), clock=SystemClock())
        self.news = News()
        self.lanes = Lanes(self.client, Names())
        self.settler = Settler(self.client, on_failure=self.failures.append)
        self.deliveries = Deliveries(count(1), ahead_max=8)
        self.fetcher = Fetcher(
            self.client, self.lanes, self.deliveries, self.settler, client_id="host@1",
            news=self.news, on_failure=self.failures.append,
        )  # fmt: skip

    def consume(self, *lanes: str, prefetch_count: int = 0) -> None:
        """Consume lanes at once, as one request would name them."""
        for lane in lanes:
            self.lanes.declare(lane)
        with self.news.lock:
            self.deliveries.prefetch_count = prefetch_count
            for lane in lanes:
                self.deliveries.consumers[lane] = Consumer(lane, print, False, None)
            self.fetcher.start()
            self.fetcher.change_lanes()

    def cancel(self, lane: str) -> None:
        with self.news.lock:
            _, unwanted = self.deliveries.cancel(lane)
            self.fetcher.change_lanes()
        self.settler.give_back(unwanted)

    def put(self, lane: str, *texts: str) -> None:
        self.broker.put(Names().lane(lane), 0, *map(body, texts))

    def take(self) -> tuple[int, str]:
        """Return the next delivery's tag and text, waiting for it."""
        with self.news.lock:
            while (delivery := self.deliveries.next()) is None:
                assert self.news.wait(WAIT_S), "nothing came"
            self.fetcher.make_room()
        assert isinstance(delivery.item, Held)
        return delivery.tag, str(delivery.item.document["body"])

    def ack(self, tag: int) -> None:
        with self.news.lock:
            (item,) = self.deliveries.settle(tag)
            self.fetcher.make_room()
        assert isinstance(item, Held)
        self.settler.ack(item)

    def asked(self) -> list[tuple[list[str], int]]:
        """Return the topics and the number of messages of each poll."""
        return [
            (document["topics"], document["max"])
            for name, document in self.broker.documents
            if name == "messages:receive"
        ]

    def close(self) -> None:
        self.fetcher.stop()
        assert self.settler.flush(WAIT_S)
        self.client.pool.abort()
        self.settler.stop()


@pytest.fixture
def case(broker: FakeBroker) -> Iterator[Case]:
    """Return a channel that consumes nothing yet."""
    case = Case(broker)
    yield case
    case.close()
    assert case.failures == []


def test_all_lanes_are_polled_by_one_request_that_says_who_asks(case: Case) -> None:
    case.consume("a", "b")
    case.put("b", "one")
    assert case.take()[1] == "one"

    first = next(d for name, d in case.broker.documents if name == "messages:receive")
    assert first["topics"] == ["celery-q-a", "celery-q-b"]
    assert first["client_id"] == "host@1"
    assert first["high_queue_first"] is True
    assert (first["wait_ms"], first["invisible_ms"]) == (200, 60_000)


def test_a_poll_asks_for_no_more_than_there_is_room_for(case: Case) -> None:
    case.put("a", *map(str, range(20)))
    case.consume("a", prefetch_count=3)

    tags = [case.take()[0] for _ in range(3)]
    for tag in tags:
        case.ack(tag)
    for _ in range(3):
        case.take()

    assert {most for _, most in case.asked()} <= {1, 2, 3}
    assert case.settler.flush(WAIT_S)
    assert len([item for item in case.broker.settled if item[0] == "ack"]) == 3


def test_without_a_limit_a_bounded_number_is_received_ahead(case: Case) -> None:
    case.put("a", *map(str, range(20)))
    case.consume("a")

    assert [case.take()[1] for _ in range(20)] == list(map(str, range(20)))

    assert max(most for _, most in case.asked()) == 8


def test_a_lane_added_later_is_polled_though_a_long_poll_was_parked(case: Case) -> None:
    long_poll = case.broker.fault("messages:receive", "hold")
    case.fetcher._wait_ms = 20_000
    case.consume("a")
    assert long_poll.fired.wait(WAIT_S)

    case.consume("b")
    case.put("b", "one")

    assert case.take()[1] == "one"


def test_what_comes_for_a_cancelled_lane_is_given_back(case: Case) -> None:
    poll = case.broker.fault("messages:receive", "hold")
    case.consume("a")
    assert poll.fired.wait(WAIT_S)
    case.put("a", "one")

    with case.news.lock:
        case.deliveries.cancel("a")
    poll.release()
    given_back = case.broker.fault("messages:nack", "hold")
    assert given_back.fired.wait(WAIT_S)
    given_back.release()

    assert case.settler.flush(WAIT_S)
    assert [item[0] for item in case.broker.settled] == ["nack"]


def test_stopping_does_not_wait_for_a_long_poll(case: Case) -> None:
    parked = case.broker.fault("messages:receive", "hold")
    case.fetcher._wait_ms = 20_000
    case.consume("a")
    assert parked.fired.wait(WAIT_S)

    begun_s = case.client.clock.steady_s()
    case.fetcher.stop()

    assert case.client.clock.steady_s() - begun_s < 10


def test_a_poll_that_brings_messages_is_not_cut_off_by_stopping(case: Case) -> None:
    case.consume("a", prefetch_count=1)
    case.put("a", "one", "two")
    assert case.take()[1] == "one"

    case.fetcher.stop()
    # The rest of the test's end: what is held is given back, so nothing is out unaccounted for.
    case.settler.give_back(item for item in case.deliveries.recover() if isinstance(item, Held))

    assert case.settler.flush(WAIT_S)
    assert [item[0] for item in case.broker.settled] == ["nack"]


@pytest.mark.parametrize("action", ["reset_before", "status"])
def test_polling_goes_on_after_failures(case: Case, action: str) -> None:
    fault = case.broker.fault("messages:receive", action, times=3)
    case.put("a", "one")

    case.consume("a")

    assert case.take()[1] == "one"
    assert fault.fired_count == 3


def test_a_lane_deleted_while_it_is_polled_is_made_again(case: Case) -> None:
    poll = case.broker.fault("messages:receive", "hold")
    case.consume("a")
    assert poll.fired.wait(WAIT_S)
    del case.broker.topics["celery-q-a"]
    poll.release()
    again = case.broker.fault("messages:receive", "hold")
    assert again.fired.wait(WAIT_S)
    again.release()
    case.put("a", "one")

    assert case.take()[1] == "one"
    assert case.broker.topics == {"celery-q-a": 4}


def test_more_lanes_than_a_request_can_name_take_turns(case: Case) -> None:
    names = [f"lane{number}" for number in range(TOPICS_MAX + 3)]
    for name in names:
        case.put(name, name)
    case.consume(*names)

    found = {case.take()[1] for _ in names}

    assert found == set(names)
    assert max(len(topics) for topics, _ in case.asked()) == TOPICS_MAX


def test_polls_wait_longer_while_nothing_comes_and_shortly_when_something_does(
    case: Case,
) -> None:
    polls = [case.broker.fault("messages:receive", "hold") for _ in range(5)]
    case.consume("a")
    for poll in polls:
        assert poll.fired.wait(WAIT_S)
        if poll is polls[2]:
            case.put("a", "one")
        poll.release()

    waits_ms = [
        document["wait_ms"] for name, document in case.broker.documents if "receive" in name
    ]
    assert waits_ms[:4] == [200, 400, 800, 200]


def test_nothing_is_polled_before_there_is_a_lane(case: Case) -> None:
    with case.news.lock:
        case.fetcher.start()

    case.consume("a")
    case.put("a", "one")

    assert case.take()[1] == "one"
    assert all(topics == ["celery-q-a"] for topics, _ in case.asked())
