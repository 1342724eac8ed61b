"""Private queues: a copy for each, from the moment of binding on, and nothing is left behind."""

from collections.abc import Iterator

import pytest
from mqclient.celery.broadcasts import Broadcasts
from mqclient.celery.client import Client
from mqclient.celery.messages import Packed
from mqclient.celery.names import Names
from mqclient.celery.news import News
from mqclient.celery.private import PrivateQueue
from mqclient.celery.routing import FANOUT, TOPIC, ExchangeKind
from mqclient.errors import MqError

from tests.sdk.celery.records import body
from tests.sdk.fake_broker import FakeBroker

NEWS_TOPIC = "celery-x-news"
FANOUT_KIND, TOPIC_KIND = ExchangeKind(FANOUT), ExchangeKind(TOPIC)
# Generous: a machine under load is slow, and only a hang must fail.
WAIT_S = 60.0


class Listener:
    """A connection with private queues."""

    def __init__(self, client: Client) -> None:
        self.news = News()
        self.failures: list[MqError] = []
        self.broadcasts = Broadcasts(
            client, Names(), news=self.news, on_failure=self.failures.append
        )

    def bound(
        self, name: str, routing_key: str = "", kind: ExchangeKind = FANOUT_KIND
    ) -> PrivateQueue:
        queue = PrivateQueue(name)
        self.broadcasts.bind(queue, "news", kind, routing_key)
        return queue

    def consumed(
        self, name: str, routing_key: str = "", kind: ExchangeKind = FANOUT_KIND
    ) -> PrivateQueue:
        queue = self.bound(name, routing_key, kind)
        queue.consumer_count = 1
        self.broadcasts.begin(queue)
        return queue

    def send(self, text: str, routing_key: str = "") -> None:
        stored = body(text, exchange="news", routing_key=routing_key)
        self.broadcasts.send("news", Packed(stored, None, None))

    def take(self, queue: PrivateQueue) -> str:
        with self.news.lock:
            while (copy := queue.take()) is None:
                assert self.news.wait(WAIT_S), "nothing came"
            self.broadcasts.make_room(queue)
            return str(copy.document["body"])


@pytest.fixture
def listener(client: Client) -> Iterator[Listener]:
    """Return a connection without queues."""
    listener = Listener(client)
    yield listener
    listener.broadcasts.close()
    assert listener.failures == []


@pytest.fixture
def sender(client: Client) -> Iterator[Listener]:
    """Return another connection."""
    sender = Listener(client)
    yield sender
    sender.broadcasts.close()


def test_what_nobody_ever_listened_to_is_not_stored(broker: FakeBroker, sender: Listener) -> None:
    sender.send("lost")

    assert broker.topics == {}


def test_everybody_gets_a_copy_from_the_binding_on(listener: Listener, sender: Listener) -> None:
    early = listener.consumed("early")
    sender.send("one")
    late = sender.consumed("late")
    sender.send("two")

    assert [listener.take(early), listener.take(early)] == ["one", "two"]
    assert sender.take(late) == "two"


def test_a_queue_keeps_what_came_before_it_was_consumed(
    listener: Listener, sender: Listener
) -> None:
    queue = listener.bound("reply")
    sender.send("one")
    sender.send("two")

    queue.consumer_count = 1
    listener.broadcasts.begin(queue)

    assert [listener.take(queue), listener.take(queue)] == ["one", "two"]


def test_a_queue_bound_while_another_is_read_gets_its_own_copies(
    listener: Listener, sender: Listener
) -> None:
    first = listener.consumed("first")
    sender.send("one")
    assert listener.take(first) == "one"
    second = listener.consumed("second")

    sender.send("two")

    assert listener.take(first) == "two"
    assert listener.take(second) == "two"
    assert not second.inbox


def test_a_queue_gets_what_its_keys_match(listener: Listener, sender: Listener) -> None:
    queue = listener.consumed("workers", "worker.#", TOPIC_KIND)
    listener.broadcasts.bind(queue, "news", TOPIC_KIND, "task.failed")

    for key in ("task.sent", "worker.online", "task.failed", "worker"):
        sender.send(key, key)

    assert [listener.take(queue) for _ in range(3)] == ["worker.online", "task.failed", "worker"]


def test_a_binding_taken_back_brings_nothing_more(listener: Listener, sender: Listener) -> None:
    queue = listener.consumed("workers", "a", TOPIC_KIND)
    listener.broadcasts.bind(queue, "news", TOPIC_KIND, "b")

    listener.broadcasts.unbind(queue, "news", "a")
    sender.send("a", "a")
    sender.send("b", "b")

    assert listener.take(queue) == "b"


def test_a_cancelled_queue_is_read_no_more_and_begins_anew(
    broker: FakeBroker, listener: Listener, sender: Listener
) -> None:
    queue = listener.consumed("control")
    listener.broadcasts.end(queue)
    sender.send("while away")

    listener.broadcasts.begin(queue)
    sender.send("back")

    assert listener.take(queue) == "back"


def test_one_look_reads_what_is_there(listener: Listener, sender: Listener) -> None:
    queue = listener.bound("buffer")
    sender.send("one")

    listener.broadcasts.look(queue)

    assert listener.take(queue) == "one"
    assert queue.take() is None


def test_reading_goes_on_after_failures(
    broker: FakeBroker, listener: Listener, sender: Listener
) -> None:
    pulls = f"GET /api/v1/topics/{NEWS_TOPIC}/queues/0/messages"
    queue = listener.bound("control")
    fault = broker.fault(pulls, "status", times=3)
    queue.consumer_count = 1
    listener.broadcasts.begin(queue)
    assert fault.fired.wait(WAIT_S)

    sender.send("after")

    assert listener.take(queue) == "after"
    assert fault.fired_count == 3


def test_a_deleted_topic_is_made_again(
    broker: FakeBroker, listener: Listener, sender: Listener
) -> None:
    queue = listener.bound("control")
    del broker.topics[NEWS_TOPIC]
    fault = broker.fault(f"PUT /api/v1/topics/{NEWS_TOPIC}", "status")
    queue.consumer_count = 1

    listener.broadcasts.begin(queue)
    assert fault.fired.wait(WAIT_S)
    ready = broker.fault("wait_ms=20000", "hold")
    assert ready.fired.wait(WAIT_S)
    ready.release()
    sender.send("after")

    assert listener.take(queue) == "after"


def test_a_full_queue_waits_for_its_consumer_and_loses_nothing(
    broker: FakeBroker, listener: Listener
) -> None:
    queue = listener.consumed("control")
    broker.put(NEWS_TOPIC, 0, *(body(str(number), exchange="news") for number in range(3_000)))

    found = [listener.take(queue) for _ in range(3_000)]

    assert found == [str(number) for number in range(3_000)]


def test_a_record_that_is_no_message_is_passed_over(
    broker: FakeBroker, listener: Listener, sender: Listener
) -> None:
    queue = listener.consumed("control")
    broker.put(NEWS_TOPIC, 0, b"no JSON")
    sender.send("fine")

    assert listener.take(queue) == "fine"
