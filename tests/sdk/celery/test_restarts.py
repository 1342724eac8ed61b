"""The broker killed and started again while kombu works with it, and processes that fork."""

import os
import threading
from collections.abc import Iterator
from typing import Any

import mqclient.celery  # noqa: F401  Registers mqweb://.
import pytest
from kombu import Consumer, Exchange, Queue
from kombu.asynchronous import Hub
from kombu.common import Broadcast
from kombu.exceptions import OperationalError
from mqclient.errors import Closed

from tests.sdk.celery.product import Product, running, texts

pytestmark = pytest.mark.process

WAIT_S = 60.0
MESSAGES = 300


@pytest.fixture(scope="module")
def mortal(embedded_postgres: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Run a broker that tests may kill."""
    with running(tmp_path_factory.mktemp("mortal") / "data") as product:
        yield product


@pytest.fixture
def product(mortal: Product) -> Iterator[Product]:
    """Return the broker; the test's connections are closed after it."""
    yield mortal
    mortal.close_connections()


class Writer(threading.Thread):
    """Puts numbers into a queue, one after the other."""

    def __init__(self, product: Product, name: str, messages: int = MESSAGES) -> None:
        super().__init__()
        self._messages = messages
        self._queue = product.connection(timeout_s=WAIT_S).SimpleQueue(name)
        self.is_halfway = threading.Event()
        self.count = 0

    def run(self) -> None:
        for number in range(self._messages):
            self._queue.put(number)
            self.count += 1
            if self.count == MESSAGES // 3:
                self.is_halfway.set()


def test_a_kill_in_the_middle_loses_nothing_and_is_told_to_nobody(
    product: Product, name: str
) -> None:
    reader = product.connection(visibility_timeout_s=5).SimpleQueue(name)
    writer = Writer(product, name)
    seen: list[int] = []
    times: list[int] = []

    def read_one() -> None:
        message = reader.get(timeout=WAIT_S)
        seen.append(message.payload)
        times.append(message.delivery_info["redelivered"])
        message.ack()

    writer.start()
    assert writer.is_halfway.wait(WAIT_S)
    for _ in range(20):
        read_one()
    product.broker.kill()
    killed_at = writer.count
    product.start()
    while len(set(seen)) < MESSAGES:
        read_one()
    writer.join()

    assert killed_at < MESSAGES, "the kill came too late to be in the middle"
    assert set(seen) == set(range(MESSAGES))
    print(f"{len(seen) - MESSAGES} of {MESSAGES} came more than once")
    assert len(seen) < 2 * MESSAGES


def test_what_was_held_stays_its_holders_over_a_restart(product: Product, name: str) -> None:
    queue = product.connection().SimpleQueue(name)
    queue.put("held")
    message = queue.get(timeout=WAIT_S)

    product.broker.kill()
    product.start()
    message.ack()
    queue.channel.connection.client.release()

    other = product.connection().SimpleQueue(name)
    assert other.qsize() == 0
    with pytest.raises(other.Empty):
        other.get_nowait()


def test_broadcasts_go_on_after_a_restart(product: Product, name: str) -> None:
    connection = product.connection()
    exchange = Exchange(name, type="fanout")
    found: list[Any] = []
    consumer = Consumer(
        connection.channel(), [Broadcast(name)], no_ack=True, on_message=found.append
    )
    consumer.consume()

    product.broker.kill()
    product.start()
    with product.connection().Producer() as producer:
        producer.publish("still here", exchange=exchange, declare=[exchange])
    while not found:
        connection.drain_events(timeout=WAIT_S)

    assert found[0].payload == "still here"


def test_a_long_outage_is_a_connection_error_and_a_new_connection_heals_it(
    product: Product, name: str
) -> None:
    connection = product.connection(outage_s=0.3, visibility_timeout_s=300)
    queue = connection.SimpleQueue(name)
    queue.put("done")
    queue.put("undone")
    done = queue.get(timeout=WAIT_S)
    product.broker.kill()
    try:
        with pytest.raises(connection.recoverable_connection_errors):
            for _ in iter(lambda: queue.get(timeout=WAIT_S), None):
                pass
        assert not connection.connected
        done.ack()
        connection.release()
    finally:
        product.start()

    # Far sooner than the lease ends: what was settled during the outage is told afterwards.
    again = product.connection().SimpleQueue(name)
    assert texts(lambda: again.get(timeout=10), 1) == ["undone"]
    assert again.qsize() == 0


def test_a_publish_without_a_broker_fails_in_its_time(product: Product, name: str) -> None:
    connection = product.connection(timeout_s=0.3)
    queue = connection.SimpleQueue(name)
    product.broker.kill()
    try:
        with pytest.raises(connection.connection_errors):
            queue.put("x")
        with pytest.raises(OperationalError):
            queue.producer.publish("x", retry=True, retry_policy={"max_retries": 1})
    finally:
        product.start()


def test_an_event_loop_is_woken_for_each_message(product: Product, name: str) -> None:
    connection = product.connection()
    hub = Hub()
    connection.connect()
    connection.register_with_event_loop(hub)
    found: list[Any] = []
    consumer = Consumer(connection.channel(), [Queue(name)], on_message=found.append)
    consumer.qos(prefetch_count=10)
    consumer.consume()
    writer = product.connection().SimpleQueue(name)
    loop = hub.create_loop()

    for number in range(200):
        writer.put(number)
    while len(found) < 200:
        next(loop)
        for message in found:
            if not message.acknowledged:
                message.ack()
    connection.release()

    assert [message.payload for message in found] == list(range(200))
    assert hub.readers == {}
    hub.close()


def test_a_forked_child_uses_connections_of_its_own(product: Product, name: str) -> None:
    connection = product.connection()
    queue = connection.SimpleQueue(name)
    queue.put("before")
    message = queue.get(timeout=WAIT_S)

    child = os.fork()
    if child == 0:
        code = 1
        try:
            link = queue.channel.connection
            assert not connection.connected
            with pytest.raises(Closed):
                queue.channel.basic_publish({}, routing_key=name)
            # Nothing the parent holds may be given back by the child's end.
            connection.release()
            assert link.requests.pool._idle == type(link.requests.pool._idle)()
            with product.connection() as own:
                own.SimpleQueue(name).put("by the child")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0

    assert texts(lambda: queue.get(timeout=WAIT_S), 1) == ["by the child"]
    message.ack()
    assert connection.connected
    connection.release()
    assert product.connection().SimpleQueue(name).qsize() == 0


def test_consumers_that_come_and_go_leave_nothing_behind(product: Product, name: str) -> None:
    consumers = 20
    writer = Writer(product, name, 3 * consumers)
    writer.start()
    seen: list[int] = []

    while len(set(seen)) < 3 * consumers:
        with product.connection() as connection:
            queue = connection.SimpleQueue(name)
            for _ in range(3):
                # Far less than the time after which a lost message would come back.
                message = queue.get(timeout=10)
                seen.append(message.payload)
                message.ack()
                if len(set(seen)) == 3 * consumers:
                    break
    writer.join()

    assert sorted(seen) == list(range(3 * consumers))
