"""Lite topics of one broker: what a receive looks at, what ends, and what it costs."""

import random
from dataclasses import replace

import pytest

from apps.engine.broker.core import Broker
from apps.engine.broker.litesets import LiteSets
from apps.engine.broker.operatorevents import QueueSuspended
from apps.engine.broker.owntopics import dead_letter_topic
from apps.engine.codec.litenames import lite_parts, lite_topic
from apps.engine.codec.record import decode_record
from apps.engine.derived.queueset import CHECKPOINT
from apps.engine.errors import (
    InvalidLiteTopic,
    LiteSubscriptionsExhausted,
    LiteTopicsExhausted,
    UnknownTopic,
)
from apps.engine.litetypes import LiteAction
from apps.engine.testing.contracts.lite import bodies_of, handles_of, lite_batch
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import (
    PERM_READ,
    GroupSpec,
    PullRequest,
    TopicSpec,
    TopicType,
)
from apps.engine.verify.store import open_store
from apps.engine.verify.walks import verify
from tests.engine.broker.lites.chats import (
    CHATS,
    HOUR_MS,
    end_all,
    opened,
    publish,
    receive,
    send,
    subscribe,
)


def drained(broker: Broker) -> list[str]:
    found: list[str] = []
    while True:
        result = receive(broker)
        if not result.leases and not result.has_more:
            return found
        found += bodies_of(result)
        broker.settler.ack("g", handles_of(result.leases))


def test_names_of_lite_topics_come_apart_at_the_last_bar() -> None:
    assert lite_parts(lite_topic("a|b", "c_-9")) == ("a|b", "c_-9")
    assert lite_parts("%LITE%a|b c") is None
    assert lite_parts("%LITE%alone") is None
    assert lite_parts("a|b") is None
    with pytest.raises(InvalidLiteTopic):
        lite_topic("p" * 64, "n" * 57)
    assert len(lite_topic("p" * 64, "n" * 56)) == 127


def test_a_lite_topic_is_as_its_parent(broker: Broker) -> None:
    topic = lite_topic("chats", "ann")
    assert broker.catalog.topic(topic).queue_count == 1
    assert broker.catalog.topic(topic).type is TopicType.LITE

    publish(broker, TopicSpec(name="chats", queue_count=1, type=TopicType.LITE, perm=PERM_READ))

    assert broker.catalog.topic(topic).perm == PERM_READ
    publish(broker)
    with pytest.raises(UnknownTopic):
        broker.catalog.topic(topic)


def test_a_receive_looks_at_what_is_ready_however_much_is_subscribed_to(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"n{number}" for number in range(2_000)]
    for name in names[:100]:
        send(broker, name, f"{name} old")
    subscribe(broker, *names)
    assert len(drained(broker)) == 100
    send(broker, "n1234", "new")
    looked: list[str] = []
    find = broker.queues.find
    monkeypatch.setattr(
        broker.queues, "find", lambda topic, number: looked.append(topic) or find(topic, number)
    )

    assert bodies_of(receive(broker)) == ["new"]
    assert set(looked) == {lite_topic("chats", "n1234")}


def test_a_busy_lite_topic_does_not_hold_up_the_others(broker: Broker) -> None:
    subscribe(broker, "busy", "still")
    send(broker, "busy", *(f"busy {number}" for number in range(20)))
    send(broker, "still", "still")
    seen = []
    for _ in range(3):
        result = receive(broker, most=1)
        seen += bodies_of(result)
        broker.settler.ack("g", handles_of(result.leases))

    assert "still" in seen[:2]


def test_more_ready_lite_topics_than_one_look_takes_are_said_to_be_more(broker: Broker) -> None:
    names = [f"n{number}" for number in range(700)]
    subscribe(broker, *names)
    for name in names:
        send(broker, name, name)
    # Nothing of the first ones is left for the client, and the marks say nothing of that.
    subscribe(broker, *names, client_id="d")
    assert len(drained(broker)) == 700

    first = receive(broker, client_id="d")
    second = receive(broker, client_id="d")

    assert (first.leases, first.has_more) == ((), True)
    assert (second.leases, second.has_more) == ((), False)


def test_the_last_failure_of_a_message_makes_it_a_dead_letter_of_its_group(
    broker: Broker,
) -> None:
    publish(broker, CHATS, groups=(GroupSpec(name="g", retry_max=1),))
    subscribe(broker, "ann")
    send(broker, "ann", "a1", "a2")
    for _ in range(2):
        result = receive(broker, most=1)
        assert bodies_of(result) == ["a1"]
        broker.settler.nack("g", handles_of(result.leases), delay_ms=0, reason="no")
    broker.expire()
    burial = broker.burying.next()
    assert burial is not None
    broker.burying.bury(burial, broker.burying.read(burial, wait=True))
    broker.log.sync()
    broker.show_synced()

    letters = broker.pull(
        PullRequest(topic=dead_letter_topic("g"), queue=0, queue_offset=0, messages_max=9)
    )
    letter = decode_record(letters.block.payload)
    assert letter.body == b"a1"
    assert letter.properties["DLQ_ORIGIN_TOPIC"] == lite_topic("chats", "ann")
    assert bodies_of(receive(broker)) == ["a2"]


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_what_was_put_off_was_not_tried_also_after_a_kill(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock, *, is_checkpointed: bool
) -> None:
    publish(broker, CHATS, groups=(GroupSpec(name="g", retry_max=1),))
    send(broker, "ann", "a1")
    subscribe(broker, "ann")
    for is_failure in (False, True, False):
        found = receive(broker)
        broker.settler.nack("g", handles_of(found.leases), delay_ms=0, is_failure=is_failure)
    broker.log.sync()
    if is_checkpointed:
        broker.checkpoint()

    again = opened(disk.crash_image(random.Random(1), CrashMode.EVERYTHING), clock)
    subscribe(again, "ann")
    (lease,) = receive(again).leases
    again.settler.nack("g", handles_of([lease]), delay_ms=0, reason="it is broken")
    end = receive(again)
    burial = again.burying.next()

    assert lease.attempt == 2
    assert end.leases == ()
    assert burial is not None
    assert [(one.number, one.reason) for one in burial.past] == [(1, ""), (2, "it is broken")]


def test_a_store_has_so_many_lite_topics_and_no_more(broker: Broker) -> None:
    broker.lites._topics_max = 2
    send(broker, "ann", "a1")
    send(broker, "bob", "b1")
    before = broker.log.written_offset

    with pytest.raises(LiteTopicsExhausted):
        broker.appender.check([lite_batch("eve", "e1")])
    send(broker, "ann", "a2")

    assert broker.queues.find(lite_topic("chats", "eve"), 0) is None
    assert broker.log.written_offset > before


def test_a_lite_topic_without_messages_for_its_time_is_gone_whatever_is_unread(
    broker: Broker, clock: ManualClock
) -> None:
    subscribe(broker, "ann", "bob")
    send(broker, "ann", "a1", "a2")
    clock.advance(HOUR_MS // 2)
    send(broker, "bob", "b1")
    handles = handles_of(receive(broker, most=1).leases)
    clock.advance(HOUR_MS // 2)
    end_all(broker)
    page = broker.literead.page("chats", after="", count=9)

    assert [topic.name for topic in page.topics] == ["bob"]
    assert [key for key in broker.state.progress if key[1].endswith("ann")] == []
    by_topic = {topic for handle in handles for topic, _ in broker.settler.places("g", [handle])}
    assert by_topic <= {lite_topic("chats", "bob")}


def test_a_name_that_comes_again_counts_on_and_begins_anew(
    broker: Broker, clock: ManualClock
) -> None:
    send(broker, "ann", "a1", "a2")
    clock.advance(HOUR_MS)
    end_all(broker)

    send(broker, "ann", "a3")
    subscribe(broker, "ann")

    (topic,) = broker.literead.page("chats", after="", count=9).topics
    assert (topic.min_offset, topic.max_offset) == (2, 3)
    assert drained(broker) == ["a3"]


def test_a_clock_set_ahead_ends_no_lite_topic(broker: Broker, clock: ManualClock) -> None:
    send(broker, "ann", "a1")

    clock.set_wall(clock.wall_ms() + 10 * HOUR_MS)
    end_all(broker)

    assert len(broker.lites) == 1


def test_the_lite_topics_of_a_deleted_parent_stay_hidden(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    send(broker, "ann", "a1")
    publish(broker, TopicSpec(name="other", queue_count=1))
    publish(broker, CHATS)
    subscribe(broker, "ann")
    assert drained(broker) == []
    broker.close()

    again = opened(disk, clock)
    subscribe(again, "ann")
    assert drained(again) == []
    send(again, "ann", "a2")
    assert drained(again) == ["a2"]


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("has_queues", [False, True])
def test_a_restart_knows_the_times_of_lite_topics(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock, is_killed: bool, has_queues: bool
) -> None:
    send(broker, "ann", "a1")
    broker.checkpoint()
    clock.advance(HOUR_MS // 2)
    send(broker, "bob", "b1")
    if is_killed:
        disk = disk.crash_image(random.Random(0), CrashMode.EVERYTHING)
    else:
        broker.close()
    if not has_queues:
        disk.remove(CHECKPOINT)

    again = opened(disk, clock)
    clock.advance(HOUR_MS // 2)
    end_all(again)

    page = again.literead.page("chats", after="", count=9)
    assert [(topic.name, topic.last_ms) for topic in page.topics] == [
        ("bob", clock.wall_ms() - HOUR_MS // 2)
    ]


def test_short_lite_topics_have_no_files_and_long_ones_do(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    send(broker, "short", *map(str, range(63)))
    send(broker, "long", *map(str, range(64)))
    broker.checkpoint()
    send(broker, "long", "64")
    broker.close()
    files = {path.split("/")[1] for path in disk.content() if path.startswith("consumequeue/%25L")}

    again = opened(disk, clock)
    subscribe(again, "short", "long")

    assert files == {"%25LITE%25chats%7Clong"}
    assert sorted(map(int, drained(again))) == sorted([*range(63), *range(65)])


def test_files_of_a_lite_topic_go_when_it_is_gone_for_good(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    send(broker, "long", *map(str, range(100)))
    broker.checkpoint()
    clock.advance(HOUR_MS)
    end_all(broker)
    before = broker.queues.begin_cleaning()()
    broker.checkpoint()

    assert (before, broker.queues.begin_cleaning()()) == (0, 2)
    assert not disk.exists("consumequeue/%25LITE%25chats%7Clong")


def test_a_store_with_lite_topics_has_no_findings(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock
) -> None:
    send(broker, "gone", "g1")
    send(broker, "long", *map(str, range(100)))
    clock.advance(HOUR_MS)
    send(broker, "ann", "a1", "a2")
    subscribe(broker, "ann")
    receive(broker, most=1)
    end_all(broker)
    broker.close()

    store = open_store(disk, is_running=False)
    assert list(verify(store, started=lambda _: None)) == []
    store.close()


def a_set(sets: LiteSets, client_id: str, *topics: str, group: str = "g") -> int:
    plan = sets.planned(group, client_id, "p", LiteAction.REPLACE, topics)
    sets.carry_out(plan, is_exclusive=True)
    client = sets.find(group, client_id)
    return 0 if client is None else len(client.topics)


def test_all_clients_together_have_so_many_subscriptions_and_no_more(clock: ManualClock) -> None:
    sets = LiteSets(clock, of_client_max=3, of_store_max=4)
    a_set(sets, "a", "1", "2")
    a_set(sets, "b", "3", "4")

    with pytest.raises(LiteSubscriptionsExhausted):
        a_set(sets, "c", "5")
    assert a_set(sets, "a", "1") == 1
    assert a_set(sets, "c", "5") == 1
    assert sets.count == 4


def test_what_a_client_lost_bars_it_for_three_minutes_at_the_most(clock: ManualClock) -> None:
    sets = LiteSets(clock, of_client_max=9, of_store_max=9)
    a_set(sets, "old", "1", "2")
    a_set(sets, "new", "1")

    clock.advance(180_000)
    barred = a_set(sets, "old", "1", "2")
    clock.advance(1)
    free = a_set(sets, "old", "1", "2")

    assert (barred, free) == (1, 2)


def test_a_suspended_lite_topic_gives_nothing_until_it_goes_on(broker: Broker) -> None:
    subscribe(broker, "ann")
    send(broker, "ann", "a1")
    suspended = QueueSuspended(
        group="g",
        topic=lite_topic("chats", "ann"),
        queue=0,
        is_suspended=True,
        by="ann",
        reason="a look",
    )
    broker.recorder.record(suspended)
    before = receive(broker)

    broker.recorder.record(replace(suspended, is_suspended=False))

    assert before.leases == ()
    assert bodies_of(receive(broker)) == ["a1"]


def test_a_store_time_of_a_name_that_was_freed_is_not_that_of_the_next(
    broker: Broker, clock: ManualClock
) -> None:
    send(broker, "ann", "a1")
    queue = broker.queues.queue(lite_topic("chats", "ann"), 0)
    before_ms = broker.times.of(queue, 0, wait=True)
    clock.advance(HOUR_MS)

    broker.times.forget_topics({queue.topic})

    assert before_ms == clock.wall_ms() - HOUR_MS
    assert not [key for key in broker.times._times if key[0] == queue.topic]


def test_a_client_that_waits_does_not_hide_another_that_is_silent(
    broker: Broker, clock: ManualClock
) -> None:
    subscribe(broker, "ann", client_id="waits")
    subscribe(broker, "ann", client_id="silent")
    with broker.literead.sets.waiting("g", "waits"):
        clock.advance(180_001)

        assert [client.client_id for client in broker.literead.sets.of_group("g")] == ["waits"]


def test_asking_about_a_lite_topic_that_is_not_there_makes_none(broker: Broker) -> None:
    (held,) = broker.queue_ranges(lite_topic("chats", "nobody"))

    assert (held.min_offset, held.max_offset) == (0, 0)
    assert broker.queues.find(lite_topic("chats", "nobody"), 0) is None


def test_a_lite_topic_that_was_only_asked_for_is_forgotten(broker: Broker) -> None:
    topic = lite_topic("chats", "nobody")
    broker.pull(PullRequest(topic=topic, queue=0, queue_offset=0))
    before = broker.queues.find(topic, 0)

    end_all(broker)

    assert before is not None
    assert broker.queues.find(topic, 0) is None
