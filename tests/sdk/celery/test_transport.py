"""The transport as any kombu application uses it, against a real broker."""

import socket
import threading
from typing import Any

import mqclient.celery  # noqa: F401  Registers mqweb://.
import pytest
from amqp.exceptions import NotFound, PreconditionFailed
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.common import Broadcast
from kombu.pidbox import Mailbox
from kombu.simple import SimpleQueue
from mqclient.errors import ConnectFailed, InvalidArgument

from tests.process.product import free_port
from tests.sdk.celery.product import Product, texts

pytestmark = pytest.mark.process

WAIT_S = 60.0


class Sink:
    """A consumer that keeps what it is given."""

    def __init__(self, connection: Connection, *queues: Queue, **options: Any) -> None:
        self.connection = connection
        self.channel = connection.channel()
        self.messages: list[Any] = []
        self.consumer = Consumer(
            self.channel, list(queues), on_message=self.messages.append, **options
        )
        self.consumer.consume()

    def wait(self, count: int) -> list[Any]:
        """Return the messages once there are so many."""
        while len(self.messages) < count:
            self.connection.drain_events(timeout=WAIT_S)
        return self.messages

    def payloads(self, count: int) -> list[Any]:
        return [message.payload for message in self.wait(count)]

    def stays_at(self, count: int) -> bool:
        """Tell whether no message comes for a while."""
        with pytest.raises(TimeoutError):
            self.connection.drain_events(timeout=0.5)
        return len(self.messages) == count


def simple(product: Product, name: str, **options: Any) -> SimpleQueue:
    return product.connection(**options).SimpleQueue(name)


def test_what_is_put_is_got_once(product: Product, name: str) -> None:
    queue = simple(product, name)
    for number in range(5):
        queue.put({"number": number})

    found = [queue.get(timeout=WAIT_S) for _ in range(5)]

    assert [message.payload["number"] for message in found] == list(range(5))
    assert not any(message.delivery_info["redelivered"] for message in found)
    for message in found:
        message.ack()
    with pytest.raises(queue.Empty):
        queue.get(timeout=0.2)


def test_nothing_there_is_empty_at_once_or_in_time(product: Product, name: str) -> None:
    queue = simple(product, name)

    with pytest.raises(queue.Empty):
        queue.get_nowait()
    with pytest.raises(queue.Empty):
        queue.get(timeout=0.1)


def test_a_message_that_comes_while_somebody_waits_wakes_him(product: Product, name: str) -> None:
    queue = simple(product, name)
    other = simple(product, name)
    threading.Timer(0.3, other.put, ("late",)).start()

    assert texts(lambda: queue.get(timeout=WAIT_S), 1) == ["late"]


def test_a_requeued_message_comes_again_and_says_so(product: Product, name: str) -> None:
    queue = simple(product, name)
    queue.put("again")

    queue.get(timeout=WAIT_S).requeue()
    message = queue.get(timeout=WAIT_S)

    assert message.payload == "again"
    assert message.delivery_info["redelivered"] is True
    message.ack()


def test_a_rejected_message_is_gone(product: Product, name: str) -> None:
    queue = simple(product, name)
    queue.put("bad")

    queue.get(timeout=WAIT_S).reject()
    queue.channel.connection.client.release()

    assert simple(product, name).qsize() == 0


def test_no_more_is_delivered_than_the_prefetch_allows(product: Product, name: str) -> None:
    producer = simple(product, name)
    for number in range(10):
        producer.put(number)
    sink = Sink(product.connection(), producer.queue, prefetch_count=3)

    assert sink.payloads(3) == [0, 1, 2]
    assert sink.stays_at(3)
    sink.messages[0].ack()

    assert sink.payloads(4) == [0, 1, 2, 3]
    assert sink.stays_at(4)


def test_urgent_messages_are_delivered_first(product: Product, name: str) -> None:
    queue = simple(product, name)
    for priority in (0, 3, 9, 6, 0, 9):
        queue.put(f"{priority}", priority=priority)

    assert texts(lambda: queue.get(timeout=WAIT_S), 6) == ["9", "9", "6", "3", "0", "0"]


def test_the_size_counts_what_nobody_holds(product: Product, name: str) -> None:
    writer = simple(product, name)
    for number in range(5):
        writer.put(number)
    reader = simple(product, name)
    held = [reader.get_nowait() for _ in range(3)]
    assert writer.qsize() == 2

    held[2].ack()
    held[1].requeue()
    reader.channel.connection.settler.flush(WAIT_S)

    assert writer.qsize() == 3


def test_purging_leaves_what_somebody_holds(product: Product, name: str) -> None:
    writer = simple(product, name)
    for number in range(5):
        writer.put(number)
    held = simple(product, name).get_nowait()

    assert writer.clear() == 4

    assert writer.qsize() == 0
    held.requeue()
    assert texts(lambda: writer.get(timeout=WAIT_S), 1) == [0]


def test_closing_gives_back_what_was_not_acknowledged(product: Product, name: str) -> None:
    producer = simple(product, name)
    for number in range(4):
        producer.put(number)
    connection = product.connection()
    sink = Sink(connection, producer.queue, prefetch_count=2)
    sink.wait(2)

    connection.release()

    assert sorted(texts(lambda: producer.get(timeout=5), 4)) == [0, 1, 2, 3]


def test_cancelling_gives_back_what_was_received_ahead(product: Product, name: str) -> None:
    producer = simple(product, name)
    for number in range(4):
        producer.put(number)
    sink = Sink(product.connection(), producer.queue)
    sink.wait(1)

    sink.consumer.cancel()

    assert sorted(texts(lambda: producer.get(timeout=5), 3)) == [1, 2, 3]
    sink.messages[0].ack()


def test_recovering_gives_back_what_was_delivered(product: Product, name: str) -> None:
    queue = simple(product, name)
    queue.put("x")
    message = queue.get(timeout=WAIT_S)

    queue.channel.basic_recover(requeue=True)

    again = queue.get(timeout=WAIT_S)
    assert again.delivery_info["redelivered"] is True
    message.ack()
    assert queue.qsize() == 0
    again.ack()


def test_a_message_stays_its_holders_beyond_the_visibility_time_out(
    product: Product, name: str
) -> None:
    # Far above what a machine under load lets a renewal wait.
    holder = simple(product, name, visibility_timeout_s=4)
    holder.put("long")
    message = holder.get(timeout=WAIT_S)
    other = simple(product, name)

    with pytest.raises(other.Empty):
        other.get(timeout=6)

    message.ack()
    holder.channel.connection.client.release()
    assert other.qsize() == 0


def test_what_a_dead_consumer_held_comes_back_in_its_time(product: Product, name: str) -> None:
    holder = simple(product, name, visibility_timeout_s=1)
    holder.put("left")
    holder.get(timeout=WAIT_S)
    # As if the process were gone: nothing of it speaks to the broker any more.
    holder.channel.connection.settler.stop()

    message = simple(product, name).get(timeout=WAIT_S)

    assert message.payload == "left"
    assert message.delivery_info["redelivered"] is True
    message.ack()


def test_without_acknowledgement_a_message_is_settled_when_it_is_delivered(
    product: Product, name: str
) -> None:
    producer = simple(product, name)
    producer.put("x")
    connection = product.connection()
    sink = Sink(connection, producer.queue, no_ack=True)
    sink.wait(1)

    connection.release()

    assert producer.qsize() == 0


def test_a_fanout_reaches_every_lane_and_every_private_queue(product: Product, name: str) -> None:
    exchange = Exchange(name, type="fanout")
    lane = Queue(f"{name}-lane", exchange)
    first = Sink(product.connection(), Broadcast(name), no_ack=True)
    second = Sink(product.connection(), Broadcast(name), no_ack=True)
    kept = Sink(product.connection(), lane, no_ack=True)

    with product.connection().Producer() as producer:
        producer.publish("news", exchange=exchange, declare=[exchange])

    for sink in (first, second, kept):
        assert sink.payloads(1) == ["news"]
        assert sink.stays_at(1)


def test_a_fanout_reaches_everybody_from_a_process_that_declared_nothing(
    product: Product, name: str
) -> None:
    sink = Sink(product.connection(), Broadcast(name), no_ack=True)

    stranger = Producer(product.connection(), auto_declare=False)
    stranger.publish("news", exchange=name, routing_key="any")

    assert sink.payloads(1) == ["news"]
    assert sink.stays_at(1)


def test_a_private_queue_gets_nothing_from_before_it_was_bound(product: Product, name: str) -> None:
    exchange = Exchange(name, type="fanout")
    early = Sink(product.connection(), Broadcast(name), no_ack=True)
    producer = Producer(product.connection(), exchange)
    producer.publish("one")
    assert early.payloads(1) == ["one"]
    late = Sink(product.connection(), Broadcast(name), no_ack=True)
    producer.publish("two")

    assert early.payloads(2) == ["one", "two"]
    assert late.payloads(1) == ["two"]
    assert late.stays_at(1)


def test_an_acknowledged_broadcast_counts_for_the_prefetch(product: Product, name: str) -> None:
    producer = Producer(product.connection(), Exchange(name, type="fanout"))
    sink = Sink(product.connection(), Broadcast(name), prefetch_count=1)
    for number in range(3):
        producer.publish(number)

    assert sink.payloads(1) == [0]
    assert sink.stays_at(1)
    sink.messages[0].requeue()
    assert sink.payloads(2) == [0, 0]
    assert sink.messages[1].delivery_info["redelivered"] is True
    sink.messages[1].ack()
    assert sink.payloads(3) == [0, 0, 1]


def test_patterns_route_from_a_process_that_declared_nothing(product: Product, name: str) -> None:
    exchange = Exchange(name, type="topic")
    orders = Sink(product.connection(), Queue(f"{name}-orders", exchange, "order.#"))
    paid = Sink(product.connection(), Queue(f"{name}-paid", exchange, "*.paid"))

    stranger = Producer(product.connection(), auto_declare=False)
    for key in ("order.paid", "cart.paid", "order.new.urgent", "cart.new"):
        stranger.publish(key, exchange=name, routing_key=key)

    assert orders.payloads(2) == ["order.paid", "order.new.urgent"]
    assert paid.payloads(2) == ["order.paid", "cart.paid"]
    assert orders.stays_at(2)


def test_an_answer_finds_the_private_queue_it_is_meant_for(product: Product, name: str) -> None:
    asking = product.connection()
    exchange = Exchange(name, type="direct", durable=False, delivery_mode="transient")
    mine = Queue("mine", exchange, "me", durable=False, auto_delete=True, exclusive=True)
    other = Queue("other", exchange, "other", durable=False, auto_delete=True)
    sink = Sink(asking, mine, no_ack=True)
    elsewhere = Sink(product.connection(), other, no_ack=True)

    Producer(product.connection(), exchange).publish("yes", routing_key="me")

    assert sink.payloads(1) == ["yes"]
    assert elsewhere.stays_at(0)


def test_a_private_queue_of_a_durable_exchange_is_known_to_every_publisher(
    product: Product, name: str
) -> None:
    exchange = Exchange(name, type="topic")
    watching = Queue("", exchange, "worker.#", durable=False, auto_delete=True)
    stranger = Producer(product.connection(), auto_declare=False)
    stranger.publish("unheard", exchange=name, routing_key="worker.online")
    sink = Sink(product.connection(), watching, no_ack=True)

    stranger.publish("heard", exchange=name, routing_key="worker.online")
    stranger.publish("other", exchange=name, routing_key="task.sent")

    assert sink.payloads(1) == ["heard"]
    assert sink.stays_at(1)


def test_an_exclusive_queue_on_the_default_exchange_takes_answers_and_goes(
    product: Product, name: str
) -> None:
    asking = product.connection()
    queue = Queue(name, durable=False, exclusive=True, auto_delete=True)
    sink = Sink(asking, queue, no_ack=True)

    Producer(product.connection()).publish("answer", routing_key=name)

    assert sink.payloads(1) == ["answer"]
    asking.release()
    with pytest.raises(NotFound):
        Queue(name)(product.connection().channel()).queue_declare(passive=True)


def test_mailboxes_call_and_collect(product: Product, name: str) -> None:
    def node_of(hostname: str) -> Any:
        connection = product.connection()
        node = Mailbox(name, type="fanout", accept=["json"])(connection).Node(
            hostname, channel=connection.channel(), handlers={"double": lambda state, n: 2 * n}
        )
        node.listen()
        threading.Thread(target=answer_one, args=(connection,)).start()
        return node

    def answer_one(connection: Connection) -> None:
        connection.drain_events(timeout=WAIT_S)

    node_of("one"), node_of("two")
    client = Mailbox(name, type="fanout", accept=["json"])(product.connection())

    found = client.multi_call("double", {"n": 21}, timeout=WAIT_S, limit=2)

    assert sorted(found, key=str) == [{"one": 42}, {"two": 42}]


def test_a_passive_declaration_of_a_missing_queue_is_refused(product: Product, name: str) -> None:
    channel = product.connection().channel()

    with pytest.raises(NotFound, match=name):
        Queue(name)(channel).queue_declare(passive=True)
    with pytest.raises(NotFound, match=name):
        channel.queue_purge(name)
    with pytest.raises(NotFound, match=name):
        Exchange(name)(channel).declare(passive=True)


def test_a_declaration_says_how_many_messages_wait(product: Product, name: str) -> None:
    simple(product, name).put("x")
    channel = product.connection().channel()

    declared = Queue(name)(channel).queue_declare()

    assert (declared.queue, declared.message_count, declared.consumer_count) == (name, 1, 0)


def test_an_exchange_declared_otherwise_is_refused(product: Product, name: str) -> None:
    channel = product.connection().channel()
    Exchange(name, type="direct")(channel).declare()

    with pytest.raises(PreconditionFailed):
        Exchange(name, type="topic")(channel).declare()


def test_a_deleted_queue_is_gone_with_its_messages_and_bindings(
    product: Product, name: str
) -> None:
    exchange = Exchange(name, type="direct")
    channel = product.connection().channel()
    queue = Queue(name, exchange, "key")(channel)
    queue.declare()
    producer = Producer(product.connection(), exchange)
    producer.publish("old", routing_key="key")

    with pytest.raises(PreconditionFailed):
        queue.delete(if_empty=True)
    assert queue.delete() == 1

    producer.publish("nowhere", routing_key="key")
    Queue(name)(channel).declare()
    assert Queue(name)(channel).get() is None


def test_a_consumed_queue_is_not_deleted_if_unused(product: Product, name: str) -> None:
    connection = product.connection()
    Sink(connection, Queue(name))

    with pytest.raises(PreconditionFailed):
        Queue(name)(connection.channel()).delete(if_unused=True)


def test_virtual_hosts_do_not_see_each_other(product: Product, name: str) -> None:
    blue = product.connection("/blue").SimpleQueue(name)
    green = product.connection("/green").SimpleQueue(name)

    blue.put("blue")

    with pytest.raises(green.Empty):
        green.get_nowait()
    assert texts(blue.get_nowait, 1) == ["blue"]


def test_binary_and_compressed_bodies_arrive_as_they_were(product: Product, name: str) -> None:
    queue = simple(product, name)
    queue.producer.publish(b"\x00\xff", content_type="application/data", content_encoding="binary")
    queue.put({"long": "x" * 10_000}, compression="zlib")

    first, second = queue.get(timeout=WAIT_S), queue.get(timeout=WAIT_S)

    assert first.body == b"\x00\xff"
    assert second.payload == {"long": "x" * 10_000}
    first.ack(), second.ack()


def test_what_is_no_message_of_ours_does_not_stop_a_consumer(product: Product, name: str) -> None:
    queue = simple(product, name)
    status, _ = product.broker.call(
        "POST", f"/api/v1/topics/celery-q-{name}/messages",
        {"messages": [{"body": "by hand", "queue": 0}]},
    )  # fmt: skip
    assert status == 201
    queue.put("fine")

    assert texts(lambda: queue.get(timeout=WAIT_S), 1) == ["fine"]
    queue.channel.connection.settler.flush(WAIT_S)
    assert queue.qsize() == 0


def test_a_broker_that_is_not_there_is_a_connection_error() -> None:
    connection = Connection(f"mqweb://127.0.0.1:{free_port()}//")

    with pytest.raises(ConnectFailed):
        connection.connect()

    assert issubclass(ConnectFailed, connection.connection_errors)
    assert issubclass(ConnectFailed, connection.recoverable_connection_errors)
    connection.release()


def test_a_port_where_nobody_answers_does_not_hang() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        connection = Connection(f"mqweb://127.0.0.1:{port}//", connect_timeout=0.2)

        with pytest.raises(connection.connection_errors):
            connection.connect()
        connection.release()


def test_a_wrong_option_is_told_when_connecting(product: Product) -> None:
    with pytest.raises(InvalidArgument, match="visibility_timeout_s"):
        product.connection(visibility_timeout_s=0).connect()


def test_the_urls_token_is_sent_and_not_shown() -> None:
    connection = Connection("mqweb://:secret@127.0.0.1:8000//")

    assert "secret" not in connection.as_uri()
    assert (connection.password, connection.virtual_host) == ("secret", "/")


def test_a_queue_that_expires_tells_the_broker_its_life(product: Product, name: str) -> None:
    Queue(name, expires=60)(product.connection().channel()).declare()

    status, topic = product.broker.call("GET", f"/api/v1/topics/celery-q-{name}")

    assert (status, topic["expires_ms"]) == (200, 60_000)


def test_a_connection_that_failed_gives_back_what_it_held_when_it_is_made_again(
    product: Product, name: str
) -> None:
    connection = product.connection()
    queue = connection.SimpleQueue(name)
    queue.put("x")
    queue.get(timeout=WAIT_S)
    queue.channel.connection.news.fail(ConnectFailed("the broker was away for too long"))
    assert not connection.connected

    connection.ensure_connection()

    again = product.connection().SimpleQueue(name)
    assert texts(lambda: again.get(timeout=5), 1) == ["x"]
