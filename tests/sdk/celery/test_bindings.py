"""Bindings that every publisher knows, though only who declared them wrote them down."""

import json

import pytest
from mqclient.celery.bindings import Bindings
from mqclient.celery.client import Client
from mqclient.celery.names import Names
from mqclient.celery.routing import DIRECT, FANOUT, TOPIC, ExchangeKind

from tests.sdk.fake_broker import FakeBroker

BINDINGS = "celery-bindings"
DIRECT_KIND, TOPIC_KIND = ExchangeKind(DIRECT), ExchangeKind(TOPIC)


@pytest.fixture
def worker(client: Client) -> Bindings:
    """Return the bindings as a process sees them that declares queues."""
    return Bindings(client, Names())


@pytest.fixture
def publisher(client: Client) -> Bindings:
    """Return the bindings as a process sees them that never declared anything."""
    return Bindings(client, Names())


def written(broker: FakeBroker) -> int:
    return len(broker.bodies(BINDINGS, 0))


def test_a_publisher_routes_by_what_others_have_bound(
    worker: Bindings, publisher: Bindings
) -> None:
    worker.bind("events", TOPIC_KIND, "order.#", "audit")
    worker.bind("events", TOPIC_KIND, "order.paid", "ship")

    table = publisher.look()

    assert table.kinds == {"events": TOPIC_KIND}
    assert table.lanes("events", TOPIC_KIND, "order.paid") == ["audit", "ship"]
    assert table.lanes("events", TOPIC_KIND, "order.new") == ["audit"]
    assert table.lanes("events", TOPIC_KIND, "cart") == []
    assert table.lanes("other", TOPIC_KIND, "order.paid") == []


def test_a_lane_bound_twice_over_gets_one_copy(worker: Bindings) -> None:
    worker.bind("events", TOPIC_KIND, "order.#", "audit")
    worker.bind("events", TOPIC_KIND, "#.paid", "audit")

    assert worker.look().lanes("events", TOPIC_KIND, "order.paid") == ["audit"]


def test_only_what_is_new_is_written(
    broker: FakeBroker, worker: Bindings, publisher: Bindings
) -> None:
    for bindings in (worker, worker, publisher):
        bindings.bind("shop", DIRECT_KIND, "mail", "mail")
        bindings.mark_private("shop", DIRECT_KIND)

    assert written(broker) == 2
    assert publisher.look().private == {"shop"}


def test_a_look_reads_only_what_came_since(broker: FakeBroker, worker: Bindings) -> None:
    worker.bind("shop", DIRECT_KIND, "mail", "mail")
    worker.look()
    broker.requests.clear()

    worker.look()

    (request,) = broker.requests
    assert "offset=1&" in request
    assert "wait_ms=0" in request


def test_bindings_are_taken_back(worker: Bindings, publisher: Bindings, broker: FakeBroker) -> None:
    worker.bind("shop", DIRECT_KIND, "mail", "mail")
    worker.bind("shop", DIRECT_KIND, "mail", "copy")
    worker.bind("news", ExchangeKind(FANOUT), "", "copy")
    publisher.look()

    worker.unbind("shop", "mail", "mail")
    assert publisher.look().lanes("shop", DIRECT_KIND, "mail") == ["copy"]
    worker.forget_queue("copy")
    assert not publisher.look().binds("copy")
    worker.bind("shop", DIRECT_KIND, "mail", "mail")
    worker.mark_private("shop", DIRECT_KIND)
    worker.forget_exchange("shop")
    table = publisher.look()
    assert not table.binds("mail")
    assert "shop" not in table.kinds
    assert table.private == set()
    before = written(broker)
    worker.unbind("shop", "mail", "mail")
    assert written(broker) == before


def test_declaring_again_heals_bindings_that_were_deleted(
    broker: FakeBroker, worker: Bindings, publisher: Bindings
) -> None:
    worker.bind("shop", DIRECT_KIND, "mail", "mail")
    publisher.look()
    del broker.topics[BINDINGS]
    broker.queues[BINDINGS, 0].clear()
    assert not publisher.look().binds("mail")

    worker.bind("shop", DIRECT_KIND, "mail", "mail")

    assert publisher.look().lanes("shop", DIRECT_KIND, "mail") == ["mail"]


def test_trimmed_records_are_passed_over(
    broker: FakeBroker, worker: Bindings, publisher: Bindings
) -> None:
    worker.bind("shop", DIRECT_KIND, "mail", "mail")
    worker.bind("shop", DIRECT_KIND, "bill", "bill")
    broker.minimum[BINDINGS, 0] = 1

    assert publisher.look().binds("bill")
    assert not publisher.look().binds("mail")
    assert worker.look().binds("mail")


def test_a_store_that_begins_anew_is_read_from_its_beginning(
    broker: FakeBroker, worker: Bindings, publisher: Bindings
) -> None:
    for queue in ("one", "two", "three"):
        worker.bind("shop", DIRECT_KIND, queue, queue)
    publisher.look()
    del broker.queues[BINDINGS, 0][1:]

    table = publisher.look()

    assert table.binds("one")
    assert not table.binds("three")


@pytest.mark.parametrize(
    "record", [b"\xff", b"{}", b"[]", b'{"op": "bind"}', json.dumps({"op": "unknown"}).encode()]
)
def test_a_record_that_is_no_binding_is_passed_over(
    broker: FakeBroker, worker: Bindings, publisher: Bindings, record: bytes
) -> None:
    worker.bind("shop", DIRECT_KIND, "mail", "mail")
    broker.put(BINDINGS, 0, record)
    worker.bind("shop", DIRECT_KIND, "bill", "bill")

    assert publisher.look().binds("bill")
