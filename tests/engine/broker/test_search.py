"""What a search finds by key, id, place, time and tag, and what it says of itself."""

import numpy as np
import pytest

from apps.engine.broker import search as search_module
from apps.engine.broker import searchplaces
from apps.engine.broker.core import Broker
from apps.engine.codec.ids import offset_id
from apps.engine.codec.record import encode_record
from apps.engine.codec.tags import java_hash
from apps.engine.derived.index.layout import key_hash
from apps.engine.errors import InvalidArgument, UnknownQueue, UnknownTopic
from apps.engine.searchtypes import SearchRequest
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from tests.engine.broker.searching import ask, found, opened, places, publish, send, sync


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def broker(clock: ManualClock) -> Broker:
    broker = opened(SimulatedDisk(), clock)
    publish(broker, "t", "other")
    return broker


def test_a_key_finds_its_messages_newest_first(broker: Broker) -> None:
    send(broker, [{"KEYS": "a b"}, {"KEYS": "b"}, {"KEYS": "c"}])
    send(broker, [{"KEYS": "x b"}], queue=2)
    sync(broker)

    result = ask(broker, SearchRequest(topic="t", key="b"))

    assert places(result) == [(2, 0), (0, 1), (0, 0)]
    assert not result.truncated
    assert not result.scan_incomplete


def test_a_message_is_found_once_however_often_it_has_a_key(broker: Broker) -> None:
    send(broker, [{"KEYS": "a a  a", "UNIQ_KEY": "a"}])
    sync(broker)

    assert places(ask(broker, SearchRequest(topic="t", key="a"))) == [(0, 0)]


def test_keys_that_share_a_hash_are_told_apart(broker: Broker) -> None:
    assert key_hash("t", "Aa") == key_hash("t", "BB")
    send(broker, [{"KEYS": "Aa"}, {"KEYS": "BB"}, {"KEYS": "AaAa"}, {"KEYS": "BBBB"}])
    sync(broker)

    assert places(ask(broker, SearchRequest(topic="t", key="BB"))) == [(0, 1)]
    assert places(ask(broker, SearchRequest(topic="t", key="AaBB"))) == []


def test_a_key_of_another_topic_is_not_found(broker: Broker) -> None:
    send(broker, [{"KEYS": "a"}], topic="other")
    sync(broker)

    assert places(ask(broker, SearchRequest(topic="t", key="a"))) == []


@pytest.mark.parametrize("key", ["钥匙", "ключ", "🔑", "k" * 200, "é"])
def test_keys_of_any_text_are_found(broker: Broker, key: str) -> None:
    send(broker, [{"KEYS": f"a {key}"}] * 20)
    send(broker, [{"KEYS": f"{key} b"}])
    sync(broker)

    assert len(places(ask(broker, SearchRequest(topic="t", key=key)))) == 21


def test_a_unique_id_finds_its_message(broker: Broker) -> None:
    send(broker, [{"UNIQ_KEY": f"{n:032X}", "KEYS": "same"} for n in range(40)])
    sync(broker)

    result = ask(broker, SearchRequest(topic="t", message_id=f"{17:032X}"))

    assert places(result) == [(0, 17)]
    assert places(ask(broker, SearchRequest(topic="t", message_id="same"))) == []


def test_a_message_without_an_id_is_found_by_where_it_lies(broker: Broker) -> None:
    send(broker, [{}, {}])
    sync(broker)
    (_, second) = reversed(found(ask(broker, SearchRequest(topic="t"))))

    result = ask(broker, SearchRequest(topic="t", message_id=second.message_id))

    assert places(result) == [(0, 1)]


def test_an_offset_id_finds_what_lies_there_whatever_its_id(broker: Broker) -> None:
    send(broker, [{"UNIQ_KEY": "one"}, {"UNIQ_KEY": "two"}])
    sync(broker)
    record = found(ask(broker, SearchRequest(topic="t", message_id="two")))[0]
    asked = offset_id(record.store_host, record.log_offset)

    assert places(ask(broker, SearchRequest(topic="t", offset_id=asked.lower()))) == [(0, 1)]
    assert places(ask(broker, SearchRequest(topic="other", offset_id=asked))) == []
    for wrong in (record.log_offset + 1, 0, 2**63 - 1, 2**64 - 1):
        other = offset_id(record.store_host, wrong)
        assert places(ask(broker, SearchRequest(topic="t", offset_id=other))) == []


def test_a_body_that_looks_like_a_record_is_none(broker: Broker) -> None:
    first = send(broker, [{}])
    # The record inside the body says the place at which it will lie.
    at = first.log_offset + 10_000
    body = bytearray(16_000)
    base = broker.log.written_offset + 172 + 88
    inner = bytearray(encode_record(topic=b"t", queue=0, body=b"fake", log_offset=at))
    body[at - base : at - base + len(inner)] = inner
    stored = send(broker, [{}], body=bytes(body))
    assert stored.log_offset + 88 == base
    sync(broker)
    head = broker.log.read_records(
        np.array([at]), np.array([len(inner)], dtype=np.int32), wait=True
    )
    assert bytes(head) == bytes(inner)
    record = found(ask(broker, SearchRequest(topic="t")))[0]

    result = ask(broker, SearchRequest(topic="t", offset_id=offset_id(record.store_host, at)))

    assert places(result) == []


def test_time_bounds_what_is_found(broker: Broker, clock: ManualClock) -> None:
    times = []
    for _ in range(10):
        times.append(clock.wall_ms())
        send(broker, [{"KEYS": "k"}])
        clock.advance(700)
    sync(broker)

    for key in (None, "k"):
        request = SearchRequest(topic="t", key=key, from_ms=times[3], to_ms=times[7])
        assert places(ask(broker, request)) == [(0, 6), (0, 5), (0, 4), (0, 3)]
    assert places(ask(broker, SearchRequest(topic="t", from_ms=times[9] + 1))) == []
    assert places(ask(broker, SearchRequest(topic="t", key="k", to_ms=times[0]))) == []


def test_all_queues_are_found_in_order_of_their_storing(broker: Broker) -> None:
    expected = []
    for n in range(90):
        queue = (n * n) % 3
        expected.append((queue, send(broker, [{}], queue=queue).queue_offset))
    sync(broker)

    result = ask(broker, SearchRequest(topic="t", messages_max=256))

    assert places(result) == expected[::-1]


def test_a_tag_finds_its_messages_and_not_those_of_its_hash(broker: Broker) -> None:
    assert java_hash("Aa") == java_hash("BB")
    for n in range(60):
        send(broker, [{"TAGS": ("Aa", "BB", "other")[n % 3]}], queue=n % 2)
    sync(broker)

    result = ask(broker, SearchRequest(topic="t", tag="BB", messages_max=256))

    assert [record.properties["TAGS"] for record in found(result)] == ["BB"] * 20


def test_all_that_is_asked_for_must_be_true(broker: Broker) -> None:
    send(broker, [{"KEYS": "k", "TAGS": "a"}, {"KEYS": "k", "TAGS": "b"}])
    send(broker, [{"KEYS": "k", "TAGS": "a"}], queue=1)
    sync(broker)

    assert places(ask(broker, SearchRequest(topic="t", key="k", tag="a"))) == [(1, 0), (0, 0)]
    assert places(ask(broker, SearchRequest(topic="t", key="k", tag="a", queue=1))) == [(1, 0)]
    one = SearchRequest(topic="t", queue=0, queue_offset=1)
    assert places(ask(broker, one)) == [(0, 1)]
    assert places(ask(broker, SearchRequest(topic="t", queue=0, queue_offset=1, tag="a"))) == []
    assert places(ask(broker, SearchRequest(topic="t", queue=0, queue_offset=2))) == []


def test_more_than_was_asked_for_is_said(broker: Broker) -> None:
    send(broker, [{"KEYS": "k"}] * 10)
    sync(broker)

    for key in (None, "k"):
        nine = ask(broker, SearchRequest(topic="t", key=key, messages_max=9))
        ten = ask(broker, SearchRequest(topic="t", key=key, messages_max=10))
        assert (len(nine.blocks), nine.truncated) == (9, True)
        assert (len(ten.blocks), ten.truncated) == (10, False)
    assert ask(broker, SearchRequest(topic="t", bytes_max=1)).truncated
    assert len(ask(broker, SearchRequest(topic="t", bytes_max=1)).blocks) == 1


def test_only_what_is_synced_is_found(broker: Broker) -> None:
    send(broker, [{"KEYS": "k"}])

    assert places(ask(broker, SearchRequest(topic="t", key="k"))) == []
    assert places(ask(broker, SearchRequest(topic="t"))) == []

    sync(broker)

    assert places(ask(broker, SearchRequest(topic="t", key="k"))) == [(0, 0)]


def test_messages_of_a_deleted_topic_are_gone(broker: Broker) -> None:
    send(broker, [{"KEYS": "k"}])
    sync(broker)
    publish(broker, "other", version=2)

    with pytest.raises(UnknownTopic):
        ask(broker, SearchRequest(topic="t", key="k"))

    publish(broker, "t", version=3)
    send(broker, [{"KEYS": "k"}])
    sync(broker)

    assert places(ask(broker, SearchRequest(topic="t", key="k"))) == [(0, 1)]
    assert places(ask(broker, SearchRequest(topic="t"))) == [(0, 1)]


def test_messages_below_the_minimum_are_gone(broker: Broker) -> None:
    send(broker, [{"KEYS": "k"}] * 5)
    sync(broker)
    broker.queues.queue("t", 0).min_offset = 3

    assert places(ask(broker, SearchRequest(topic="t", key="k"))) == [(0, 4), (0, 3)]
    assert places(ask(broker, SearchRequest(topic="t", queue=0, queue_offset=2))) == []


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"])
def test_what_nobody_may_see_yet_is_not_found(broker: Broker, topic: str) -> None:
    with pytest.raises(UnknownTopic):
        ask(broker, SearchRequest(topic=topic, key="k"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": ""},
        {"key": "a b"},
        {"offset_id": "12"},
        {"queue_offset": 3},
        {"messages_max": 0},
        {"messages_max": 257},
        {"bytes_max": 0},
    ],
)
def test_what_cannot_be_asked_is_refused(broker: Broker, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        broker.search(SearchRequest(topic="t", **wrong))  # type: ignore[arg-type]


def test_a_queue_the_topic_does_not_have_is_refused(broker: Broker) -> None:
    with pytest.raises(UnknownQueue):
        broker.search(SearchRequest(topic="t", queue=3))


def test_a_search_that_ends_before_it_has_looked_everywhere_says_so(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(broker, [{"KEYS": "k", "TAGS": "wanted"}])
    send(broker, [{"KEYS": "k", "TAGS": "a"}] * 60)
    sync(broker)
    by_key = SearchRequest(topic="t", key="k", tag="wanted")
    by_tag = SearchRequest(topic="t", tag="wanted")

    assert [len(ask(broker, one).blocks) for one in (by_key, by_tag)] == [1, 1]

    monkeypatch.setattr(searchplaces, "WALKED_MAX", 32)
    monkeypatch.setattr(searchplaces, "SCANNED_MAX", 32)
    for request in (by_key, by_tag):
        result = ask(broker, request)
        assert (len(result.blocks), result.scan_incomplete) == (0, True)

    monkeypatch.undo()
    monkeypatch.setattr(search_module, "_RECORDS_MAX", 10)
    assert ask(broker, by_key).scan_incomplete


def test_the_search_of_a_common_key_walks_no_more_than_it_may(broker: Broker) -> None:
    for _ in range(40):
        send(broker, [{"KEYS": "k"}] * 100)
    sync(broker)
    search = broker.search(SearchRequest(topic="t", key="k", messages_max=32))
    steps = 0
    while not search.is_done:
        search.step(wait=True)
        steps += 1

    assert steps <= 2
    assert places(search.result()) == [(0, n) for n in range(3999, 3967, -1)]
    assert search.result().truncated


def test_nothing_is_found_where_nothing_is(broker: Broker) -> None:
    assert places(ask(broker, SearchRequest(topic="t"))) == []
