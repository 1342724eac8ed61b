"""The demonstration played on a broker that is a list, with the faults a broker may have."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, cast

import pytest
from mqclient import Producer, SimpleConsumer
from mqclient.errors import ConnectFailed, ConnectionLost, InvalidArgument

from apps.console.demo import play as plays
from apps.console.demo.orders import Ledger, OrderEvent, Shop, Step, Verdict
from apps.console.demo.play import Part, Play, Standing, line
from apps.console.demo.players import Reader, Seller
from apps.engine.clock import SystemClock

RUN = "r1"


@dataclass(frozen=True)
class Message:
    """What a reader gets."""

    body: bytes


class ListBroker:
    """One queue in a list; each group reads it from the start. `fault` may spoil a send."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.sharding_keys: list[str] = []
        self.sends = 0
        self.fault: Callable[[int, bytes], Exception | None] = lambda _number, _body: None
        self.acked = 0
        self.lock = threading.Lock()

    def send_async(
        self, topic: str, body: bytes, *, tag: str, sharding_key: str
    ) -> "Future[object]":
        outcome: Future[object] = Future()
        with self.lock:
            self.sends += 1
            error = self.fault(self.sends, body)
            if error is None:
                self.bodies.append(body)
                self.sharding_keys.append(sharding_key)
                outcome.set_result(None)
            else:
                outcome.set_exception(error)
        return outcome

    @property
    def producer(self) -> Producer:
        return cast("Producer", self)

    def reader(self) -> Reader:
        return Reader(cast("SimpleConsumer", ListConsumer(self)), Ledger(run=RUN))


class ListConsumer:
    """A group's place in the list."""

    def __init__(self, broker: ListBroker) -> None:
        self.broker = broker
        self.next_index = 0

    def receive(self, messages_max: int, *, wait_ms: int) -> list[Message]:
        del wait_ms
        found = self.broker.bodies[self.next_index : self.next_index + messages_max]
        self.next_index += len(found)
        return [Message(body) for body in found]

    def ack(self, messages: list[Message]) -> list[Any]:
        with self.broker.lock:
            self.broker.acked += len(messages)
        return []


def shop() -> Shop:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return Shop(run=RUN, dice=random.Random(seed))


@pytest.fixture
def broker() -> ListBroker:
    return ListBroker()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait for more than a moment, and sell at most 20 at once."""
    for name in ("TICK_S", "REPORT_S", "RETRY_S", "BURST_S"):
        monkeypatch.setattr(plays, name, 0.001)
    monkeypatch.setattr(plays, "DRAIN_MS", 200)


def play_until(broker: ListBroker, sent: int) -> tuple[list[Standing], list[str]]:
    """Play with two groups until enough was sent; return the standings and what was said."""
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if seller.sent_count >= sent:
            play.stop()

    seller = Seller(broker.producer, shop(), topic="orders")
    play = Play(
        seller=seller,
        parts={
            "billing": Part(reader=broker.reader()),
            "shipping": Part(reader=broker.reader(), pause_s=0.002),
        },
        rate=20_000,
        clock=SystemClock(),
        say=say,
    )
    return play.run(seconds=None), said


@pytest.mark.usefixtures("quick")
def test_every_group_sees_every_order_in_order(broker: ListBroker) -> None:
    standings, said = play_until(broker, sent=200)

    assert [standing.group for standing in standings] == ["billing", "shipping"]
    for standing in standings:
        assert standing.sent == standing.in_order == len(broker.bodies) >= 200
        assert standing.missing == standing.out_of_order == standing.duplicates == 0
    assert broker.acked == 2 * len(broker.bodies)
    assert said[-1].startswith("sent ")


@pytest.mark.usefixtures("quick")
def test_steps_of_an_order_share_a_sharding_key(broker: ListBroker) -> None:
    play_until(broker, sent=50)

    events = [OrderEvent.decode(body) for body in broker.bodies]
    assert [event.key for event in events] == broker.sharding_keys


@pytest.mark.usefixtures("quick")
def test_a_send_of_unknown_outcome_is_repeated_and_at_worst_a_duplicate(
    broker: ListBroker,
) -> None:
    lost = []

    def lose_some(number: int, body: bytes) -> Exception | None:
        if number % 7:
            return None
        lost.append(number)
        if number % 2:  # It was stored, and only the answer got lost.
            broker.bodies.append(body)
        return ConnectionLost("reset by peer") if number % 2 else ConnectFailed("refused")

    broker.fault = lose_some

    standings, _ = play_until(broker, sent=100)

    assert len(lost) >= 10
    for standing in standings:
        assert standing.out_of_order == standing.missing == 0
        assert standing.duplicates > 0


@pytest.mark.usefixtures("quick")
def test_a_broker_that_swaps_messages_is_caught(broker: ListBroker) -> None:
    def swap(number: int, _body: bytes) -> None:
        if number % 10 == 0:
            broker.bodies.reverse()

    broker.fault = swap

    standings, _ = play_until(broker, sent=200)

    assert sum(standing.out_of_order for standing in standings) > 0


@pytest.mark.usefixtures("quick")
def test_a_broker_that_loses_a_message_is_caught(broker: ListBroker) -> None:
    def lose_the_end(number: int, _body: bytes) -> None:
        if number == 100:
            del broker.bodies[-3:]

    broker.fault = lose_the_end

    standings, _ = play_until(broker, sent=200)

    assert all(standing.missing > 0 for standing in standings)


@pytest.mark.usefixtures("quick")
def test_a_refusal_ends_the_play_with_its_reason(broker: ListBroker) -> None:
    broker.fault = lambda _number, _body: InvalidArgument("no")

    with pytest.raises(InvalidArgument):
        play_until(broker, sent=10)


@pytest.mark.usefixtures("quick")
def test_a_play_ends_by_itself_when_its_time_is_over(broker: ListBroker) -> None:
    seller = Seller(broker.producer, shop(), topic="orders")
    parts = {"billing": Part(reader=broker.reader())}
    play = Play(seller=seller, parts=parts, rate=20_000, clock=SystemClock(), say=lambda _: None)

    standings = play.run(seconds=0.05)

    assert standings[0].in_order == standings[0].sent == len(broker.bodies) > 0


def test_the_report_says_what_counts() -> None:
    standings = [
        Standing(group="billing", sent=1_200, in_order=1_180, duplicates=1, out_of_order=0),
        Standing(group="shipping", sent=1_200, in_order=900, duplicates=2, out_of_order=0),
    ]

    text = line(standings, trouble="busy: later")

    assert text == (
        "sent 1,200  billing 1,180  shipping 900  duplicates 3  out of order 0"
        "  trying again after busy: later"
    )
    assert standings[1].missing == 300


def test_an_unsent_event_goes_first_the_next_time(broker: ListBroker) -> None:
    seller = Seller(broker.producer, shop(), topic="orders")
    broker.fault = lambda number, _body: ConnectFailed("refused") if number == 2 else None
    with pytest.raises(ConnectFailed):
        seller.sell(3)
    sent_before = seller.sent_count

    seller.sell(3)

    orders = [OrderEvent.decode(body) for body in broker.bodies]
    assert sent_before == 2
    assert [(event.order, event.step) for event in orders] == [
        (1, Step.CREATED),
        (3, Step.CREATED),
        (2, Step.CREATED),
    ]


def test_a_reader_counts_before_it_acknowledges(broker: ListBroker) -> None:
    broker.bodies.append(OrderEvent(run=RUN, order=1, step=Step.CREATED).encode())
    reader = broker.reader()

    count = reader.read(wait_ms=0)

    assert count == 1
    assert reader.ledger.counts[Verdict.IN_ORDER] == 1
    assert broker.acked == 1
