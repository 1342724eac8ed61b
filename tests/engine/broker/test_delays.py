"""Messages with a delay of their own, from the send to the queue."""

import json
import random

import numpy as np
import pytest

from apps.engine.codec.layout import TRACE_TOPIC
from apps.engine.codec.properties import (
    KEYS,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
)
from apps.engine.codec.tags import tag_hash
from apps.engine.delaytypes import Recall
from apps.engine.errors import (
    DelayTooLong,
    InvalidArgument,
    MalformedBatch,
    StoreFull,
    UnknownTopic,
)
from apps.engine.testing.crashes import CrashMode
from tests.engine.broker.delayed import (
    CONFIG,
    TINY,
    Store,
    bodies,
    deliver,
    found,
    listed,
    publish,
    record,
    send,
    send_at,
    sync,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def test_a_message_is_delivered_at_its_time_and_not_before() -> None:
    store = Store()
    broker, clock = store.open(), store.clock
    due_ms = clock.wall_ms() + 500

    answer = send_at(broker, {"a": due_ms}, queue=1)
    clock.advance(499)
    early = deliver(broker)
    clock.advance(1)

    assert (answer.is_delayed, answer.due_ms, answer.queue) == (True, (due_ms,), 1)
    assert early == 0
    assert deliver(broker) == 1
    assert bodies(broker, queue=1) == ["a"]
    assert found(broker)[0].store_time_ms == due_ms
    assert deliver(broker) == 0


def test_messages_come_in_the_order_in_which_they_are_due() -> None:
    store = Store()
    broker, now_ms = store.open(queues=1), store.clock.wall_ms()

    send_at(broker, {"c": now_ms + 30, "a": now_ms + 10})
    send_at(broker, {"d": now_ms + 30, "b": now_ms + 20})
    store.clock.advance(30)
    deliver(broker)

    assert bodies(broker) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("properties", "delay_ms"),
    [
        ({TIMER_DELAY_SEC: "2"}, 2_000),
        ({TIMER_DELAY_MS: "250"}, 250),
        ({TIMER_DELAY_MS: "250", TIMER_DELAY_SEC: "2"}, 2_000),
        ({TIMER_DELIVER_MS: "1700000000777"}, 777),
        ({TIMER_DELIVER_MS: "1700000000777", TIMER_DELAY_MS: "250"}, 250),
        ({TIMER_DELAY_MS: "0"}, 0),
        ({TIMER_DELIVER_MS: "5"}, 0),
    ],
)
def test_the_due_time_follows_rocketmqs_properties(
    properties: dict[str, str], delay_ms: int
) -> None:
    store = Store()
    broker = store.open()

    answer = send(broker, [record(b"a", properties=properties)])

    assert answer.due_ms == (store.clock.wall_ms() + delay_ms,)


@pytest.mark.parametrize("value", ["", "-1", "soon", "1.5", "1" * 16, "٣"])
def test_a_delay_that_is_no_number_is_refused_with_nothing_stored(value: str) -> None:
    broker = Store().open()
    end = broker.log.written_offset

    with pytest.raises(MalformedBatch):
        send(broker, [record(b"a", properties={TIMER_DELAY_MS: value})])

    assert broker.log.written_offset == end


def test_a_batch_has_a_delay_in_every_record_or_in_none() -> None:
    broker = Store().open()

    with pytest.raises(MalformedBatch, match="record 1"):
        send(broker, [record(b"a", properties={TIMER_DELAY_MS: "5"}), record(b"b")])


def test_a_delay_of_a_year_is_kept_and_a_longer_one_than_allowed_refused() -> None:
    store = Store()
    broker = store.open()
    send_at(broker, {"a": store.clock.wall_ms() + 365 * DAY_MS})
    broker.close()

    with pytest.raises(DelayTooLong):
        send_at(store.open(), {"b": store.clock.wall_ms() + CONFIG.delay_ms_max + 1})
    store.clock.advance(365 * DAY_MS - 1)
    broker = store.open()
    early = deliver(broker)
    store.clock.advance(1)

    assert (early, deliver(broker), bodies(broker)) == (0, 1, ["a"])


def test_a_delivered_message_is_the_one_that_was_sent() -> None:
    store = Store()
    broker = store.open()
    properties = {TAGS: "TagA", UNIQ_KEY: "id", TIMER_DELAY_MS: "5", "user": "中文"}
    send(broker, [record(b"body", queue=1, properties=properties)], queue=1)
    store.clock.advance(5)
    deliver(broker)

    (one,) = found(broker)
    entry = broker.queues.queue("t", 1).read(0, 1)

    assert (one.body, one.properties, one.queue, one.message_id) == (b"body", properties, 1, "id")
    assert one.is_intact
    assert int(entry["tag_hash"][0]) == tag_hash("TagA")


def test_waiting_messages_survive_a_restart_without_a_checkpoint() -> None:
    store = Store()
    broker, now_ms = store.open(), store.clock.wall_ms()
    send_at(broker, {"a": now_ms + 10, "b": now_ms + 20, "c": now_ms + 30})
    store.clock.advance(10)
    deliver(broker)
    broker.log.sync()

    again = store.open()
    store.clock.advance(20)

    assert (len(again.delays.waiting), deliver(again)) == (2, 2)
    assert bodies(again) == ["a", "b", "c"]


def test_what_was_delivered_is_forgotten_one_by_one() -> None:
    store = Store()
    broker, now_ms = store.open(), store.clock.wall_ms()
    send_at(broker, {f"{number}": now_ms + 7919 * number % 100 for number in range(50)})
    for _ in range(10):
        store.clock.advance(10)
        deliver(broker)

    timers = broker.state.timers

    assert broker.delaydelivery.delivered == 50
    assert (timers.delivered, timers.bands) == ([], [(65_536, store.clock.wall_ms())])


def test_a_message_of_a_deleted_topic_is_passed_over_and_counted() -> None:
    store = Store()
    broker, now_ms = store.open(), store.clock.wall_ms()
    publish(broker, t=1, gone=1)
    send_at(broker, {"lost": now_ms + 5}, topic="gone")
    send_at(broker, {"kept": now_ms + 5})
    publish(broker, t=1)
    store.clock.advance(5)

    assert (deliver(broker), bodies(broker)) == (1, ["kept"])
    assert broker.delaylist.status().without_topic == 1
    assert broker.delaylist.status().pending == 0


def test_a_message_of_a_queue_that_is_gone_goes_to_another_one() -> None:
    store = Store()
    broker, now_ms = store.open(queues=4), store.clock.wall_ms()
    send_at(broker, {"three": now_ms + 5}, queue=3)
    send_at(broker, {"one": now_ms + 4}, queue=1)
    publish(broker, t=2)
    store.clock.advance(5)
    deliver(broker)

    assert bodies(broker, queue=1) == ["one", "three"]
    assert {one.queue for one in found(broker, queue=1)} == {1}


def test_a_full_disk_delays_a_delivery_and_loses_nothing() -> None:
    store = Store()
    broker, now_ms = store.open(), store.clock.wall_ms()
    send_at(broker, {f"{number}" + "x" * 1_000: now_ms + 5 for number in range(6)})
    sync(broker)
    store.clock.advance(200)
    used = store.disk.capacity_bytes - store.disk.free_bytes()
    room = store.disk.capacity_bytes
    broker.log.room.reserve_bytes = 1
    store.disk.capacity_bytes = used

    with pytest.raises(StoreFull):
        deliver(broker)
    waiting = len(broker.delays.waiting)
    store.disk.capacity_bytes = room
    store.clock.advance(200)

    assert (waiting, deliver(broker), len(found(broker))) == (6, 6, 6)


def test_a_cancelled_message_is_not_delivered_and_cancelling_again_says_so() -> None:
    store = Store()
    broker, now_ms = store.open(), store.clock.wall_ms()
    answer = send_at(broker, {"a": now_ms + 10, "b": now_ms + 10})

    first = broker.delaydelivery.recall(answer.handles[0], wait=True)
    second = broker.delaydelivery.recall(answer.handles[0], wait=True)
    store.clock.advance(10)
    deliver(broker)
    third = broker.delaydelivery.recall(answer.handles[0], wait=True)

    assert {first, second, third} == {Recall.CANCELLED}
    assert (bodies(broker), broker.delaylist.status().cancelled) == (["b"], 1)
    assert broker.delaydelivery.recall(answer.handles[1], wait=True) is Recall.DELIVERED


def test_a_recall_is_told_once_where_consumers_tell_of_their_work() -> None:
    store = Store()
    broker, now_ms = store.open(), store.clock.wall_ms()
    answer = send_at(broker, {"a": now_ms + 10, "b": now_ms + 20})

    broker.delaydelivery.recall(answer.handles[0], wait=True)
    broker.delaydelivery.recall(answer.handles[0], wait=True)
    store.clock.advance(20)
    deliver(broker)
    broker.delaydelivery.recall(answer.handles[1], wait=True)

    (told,) = found(broker, TRACE_TOPIC)
    document = json.loads(told.body)
    (record,) = document.pop("records")
    assert document == {"v": 1, "group": "", "client": ""}
    assert record == {
        "topic": "t", "queue": 0, "offset": -1, "id": told.properties[KEYS], "attempt": 0,
        "due_ms": now_ms + 10, "started_ms": now_ms, "ended_ms": now_ms, "result": "recalled",
    }  # fmt: skip


def test_a_cancelled_message_stays_cancelled_over_restarts() -> None:
    store = Store()
    broker, now_ms = store.open(), store.clock.wall_ms()
    (handle,) = send_at(broker, {"a": now_ms + 10}).handles
    broker.delaydelivery.recall(handle, wait=True)
    sync(broker)

    broker = store.open()
    store.clock.advance(10)
    delivered = deliver(broker)
    broker.close()
    broker = store.open()

    assert (delivered, bodies(broker)) == (0, [])
    assert broker.delaydelivery.recall(handle, wait=True) is Recall.CANCELLED


def test_what_became_of_a_message_is_known_for_a_day_after_it_was_due() -> None:
    store = Store()
    broker, now_ms = store.open(), store.clock.wall_ms()
    answer = send_at(broker, {"a": now_ms + 10, "b": now_ms + 10})
    broker.delaydelivery.recall(answer.handles[0], wait=True)

    def outcomes() -> list[Recall]:
        deliver(broker)
        broker.checkpoint()
        return [broker.delaydelivery.recall(handle, wait=True) for handle in answer.handles]

    store.clock.advance(10 + DAY_MS - 1)
    before = outcomes()
    store.clock.advance(1)

    assert before == [Recall.CANCELLED, Recall.DELIVERED]
    assert outcomes() == [Recall.UNKNOWN, Recall.UNKNOWN]
    assert broker.state.timers.cancelled == {}


def test_a_message_sent_now_is_in_its_queue_once() -> None:
    store = Store()
    broker, now_ms = store.open(), store.clock.wall_ms()
    (handle,) = send_at(broker, {"a": now_ms + HOUR_MS}).handles

    outcomes = [broker.delaydelivery.deliver_now(handle, wait=True) for _ in range(2)]
    sync(broker)
    broker = store.open()
    store.clock.advance(HOUR_MS)
    deliver(broker)
    deliver(broker)

    assert outcomes == [Recall.DELIVERED, Recall.DELIVERED]
    assert bodies(broker) == ["a"]
    assert broker.delaydelivery.recall(handle, wait=True) is Recall.DELIVERED


def test_a_cancelled_message_cannot_be_sent_now() -> None:
    store = Store()
    broker = store.open()
    (handle,) = send_at(broker, {"a": store.clock.wall_ms() + 10}).handles
    broker.delaydelivery.recall(handle, wait=True)

    assert broker.delaydelivery.deliver_now(handle, wait=True) is Recall.CANCELLED
    assert bodies(broker) == []


def test_a_message_whose_topic_is_gone_cannot_be_sent_now() -> None:
    store = Store()
    broker = store.open()
    (handle,) = send_at(broker, {"a": store.clock.wall_ms() + 10}).handles
    publish(broker, other=1)

    with pytest.raises(UnknownTopic):
        broker.delaydelivery.deliver_now(handle, wait=True)

    assert broker.delaydelivery.recall(handle, wait=True) is Recall.CANCELLED


@pytest.mark.parametrize("handle", ["", "x", "djEgdCBi", "é", "A" * 100_000, "===", "a b"])
def test_a_handle_nobody_issued_is_unknown(handle: str) -> None:
    broker = Store().open()

    assert broker.delaydelivery.recall(handle, wait=True) is Recall.UNKNOWN


def test_a_handle_of_another_store_or_with_a_changed_character_is_unknown() -> None:
    store, other = Store(), Store()
    broker = store.open()
    (handle,) = send_at(broker, {"a": store.clock.wall_ms() + 10}).handles
    foreign = other.open()
    send_at(foreign, {"a": other.clock.wall_ms() + 10})

    changed = [handle[:at] + ("A" if c != "A" else "B") + handle[at + 1 :]
               for at, c in enumerate(handle[:-1])]  # fmt: skip

    assert foreign.delaydelivery.recall(handle, wait=True) is Recall.UNKNOWN
    assert {broker.delaydelivery.recall(one, wait=True) for one in changed} == {Recall.UNKNOWN}
    assert len(broker.delays.waiting) == len(foreign.delays.waiting) == 1


def test_a_handle_of_a_message_a_power_cut_took_back_does_not_mean_its_successor() -> None:
    store = Store()
    broker, due_ms = store.open(), store.clock.wall_ms() + 10
    sync(broker)
    (lost,) = send_at(broker, {"lost": due_ms}).handles
    store.disk = store.disk.crash_image(random.Random(1), CrashMode.NOTHING)

    broker = store.open()
    (kept_handle,) = send_at(broker, {"kept": due_ms}).handles

    assert broker.delaydelivery.recall(lost, wait=True) is Recall.UNKNOWN
    assert broker.delaydelivery.recall(kept_handle, wait=True) is Recall.CANCELLED


def test_a_page_lists_what_waits_by_due_time_and_its_cursor_goes_on() -> None:
    store = Store()
    broker, now_ms = store.open(), store.clock.wall_ms()
    publish(broker, t=2, other=1)
    send_at(broker, {f"t{number}": now_ms + 1000 - number // 2 for number in range(7)}, queue=1)
    send_at(broker, {"o": now_ms + 998}, topic="other")

    pages = listed(broker, messages_max=3)

    assert [one.message_id for one in pages] == ["t6", "t4", "t5", "o", "t2", "t3", "t0", "t1"]
    assert {one.due_ms for one in pages} == {now_ms + 997 + number for number in range(4)}
    assert (pages[0].topic, pages[0].queue, pages[0].level) == ("t", 1, None)
    handle = pages[0].handle
    assert handle is not None
    assert broker.delaydelivery.recall(handle, wait=True) is Recall.CANCELLED
    assert len(listed(broker)) == 7


def test_a_page_may_be_of_one_topic_and_of_a_stretch_of_time() -> None:
    store = Store()
    broker, now_ms = store.open(), store.clock.wall_ms()
    publish(broker, t=1, other=1)
    send_at(broker, {f"{number}": now_ms + number for number in range(10)})
    send_at(broker, {"o": now_ms + 5}, topic="other")

    stretch = listed(broker, topic="t", from_ms=now_ms + 3, to_ms=now_ms + 6, messages_max=2)

    assert [one.message_id for one in stretch] == ["3", "4", "5"]
    assert [one.message_id for one in listed(broker, topic="other")] == ["o"]
    assert listed(broker, topic="none") == []


@pytest.mark.parametrize("cursor", ["", "x", "1", "-1-1", "1-", "1" * 30 + "-1"])
def test_a_cursor_nobody_gave_is_refused(cursor: str) -> None:
    broker = Store().open()

    with pytest.raises(InvalidArgument):
        listed(broker, cursor=cursor)


def test_the_histogram_counts_each_message_once_by_how_far_off_it_is() -> None:
    store = Store(tuning=TINY)
    broker, now_ms = store.open(), store.clock.wall_ms()
    delays_s = [1, 5, 6, 60, 61, 300, 900, 3_600, 4 * 3_600, 8 * 3_600, 86_400, 86_401, 10**7]
    send_at(broker, {f"{delay}": now_ms + 1000 * delay for delay in delays_s})

    status = broker.delaylist.status()

    assert [count for _, count in status.histogram] == [2, 2, 2, 1, 1, 1, 1, 1, 2]
    assert [limit for limit, _ in status.histogram] == [
        5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400, None,
    ]  # fmt: skip
    assert (status.pending, status.next_due_ms) == (13, now_ms + 1000)


def test_records_of_the_engine_wait_as_those_of_clients_do() -> None:
    store = Store()
    broker, now_ms = store.open(), store.clock.wall_ms()
    topic = "%RETRY%" + "g" * 127
    records = [record(b"1", topic=topic, properties={TAGS: "TagA"}), record(b"2", topic=topic)]
    parcel = broker.delays.parcel(topic, 0, records, np.array([now_ms + 20, now_ms + 10]))
    broker.appender.write([parcel])
    broker.log.sync()

    broker = store.open()
    store.clock.advance(20)
    deliver(broker)

    assert bodies(broker, topic) == ["2", "1"]
    hashes = broker.queues.queue(topic, 0).read(0, 2)["tag_hash"].tolist()
    assert hashes == [0, tag_hash("TagA")]
