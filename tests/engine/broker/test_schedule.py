"""Delay levels: what is delayed waits, and goes to its queue once, never early."""

import pytest

from apps.engine.broker.schedule import GROUP
from apps.engine.codec.layout import SCHEDULE_TOPIC
from apps.engine.codec.tags import tag_hash
from apps.engine.errors import InvalidArgument, MalformedBatch, MessageTooLarge, UnknownTopic
from tests.engine.broker.failurebench import FailureBench


@pytest.fixture
def bench() -> FailureBench:
    return FailureBench()


def test_a_message_of_a_level_comes_when_its_time_is_over_and_not_before(
    bench: FailureBench,
) -> None:
    answer = bench.put(b"later", DELAY="2", TAGS="a", KEYS="k")
    assert answer.is_delayed
    assert answer.due_ms == (bench.clock.wall_ms() + 5_000,)
    assert answer.handles == ()

    bench.clock.advance(4_999)
    assert (bench.deliver(), bench.bodies()) == (0, [])
    bench.clock.advance(1)
    assert bench.deliver() == 1

    (record,) = bench.records()
    assert (record.topic, record.queue, record.body) == ("orders", 0, b"later")
    assert record.properties == {
        "TAGS": "a",
        "KEYS": "k",
        "TIMER_DELAY_LEVEL": "2",
        "TIMER_OUT_MS": str(answer.due_ms[0]),
    }
    assert record.is_intact
    assert bench.deliver() == 0


def test_a_delivered_message_is_found_by_its_tag(bench: FailureBench) -> None:
    bench.put(b"x", b"y", DELAY="1", TAGS="a")
    bench.put(b"z", DELAY="1", TAGS="b")
    bench.clock.advance(1_000)
    bench.deliver()

    entries = bench.broker.queues.queue("orders", 0).read(0, 3)
    assert entries["tag_hash"].tolist() == [tag_hash("a"), tag_hash("a"), tag_hash("b")]


@pytest.mark.parametrize(
    ("level", "delay_ms"), [("1", 1_000), ("18", 7_200_000), ("99", 7_200_000)]
)
def test_a_level_above_the_table_is_the_highest(
    bench: FailureBench, level: str, delay_ms: int
) -> None:
    answer = bench.put(b"x", DELAY=level)

    assert answer.due_ms == (bench.clock.wall_ms() + delay_ms,)


@pytest.mark.parametrize("level", ["0", "-1"])
def test_a_level_of_zero_or_less_is_no_delay(bench: FailureBench, level: str) -> None:
    answer = bench.put(b"now", DELAY=level)

    assert (answer.queue_offset, answer.is_delayed) == (0, False)
    assert bench.bodies() == [b"now"]


@pytest.mark.parametrize("level", ["", "soon", "1.5", "9999999999", "²"])
def test_a_level_that_is_no_number_stores_nothing(bench: FailureBench, level: str) -> None:
    end = bench.broker.log.written_offset

    with pytest.raises(MalformedBatch):
        bench.put(b"x", DELAY=level)

    assert bench.broker.log.written_offset == end


def test_properties_without_room_for_the_delay_are_refused(bench: FailureBench) -> None:
    with pytest.raises(MessageTooLarge):
        bench.put(b"x", DELAY="1", long="x" * 32_700)


def test_a_level_beats_a_delay_of_its_own(bench: FailureBench) -> None:
    answer = bench.put(b"x", DELAY="1", TIMER_DELAY_SEC="3600")

    assert answer.due_ms == (bench.clock.wall_ms() + 1_000,)
    assert answer.handles == ()


def test_one_message_that_is_not_due_stops_those_behind_it_in_its_level_only(
    bench: FailureBench,
) -> None:
    bench.put(b"a", DELAY="2")
    bench.clock.advance(4_000)
    bench.put(b"b", DELAY="2")
    bench.put(b"c", DELAY="1")
    bench.clock.advance(1_000)

    assert bench.deliver() == 2
    assert sorted(bench.bodies()) == [b"a", b"c"]


def test_many_messages_come_in_several_frames_and_in_order(bench: FailureBench) -> None:
    bodies = [b"%04d" % number + bytes(2_000) for number in range(300)]
    for start in range(0, 300, 50):
        bench.put(*bodies[start : start + 50], DELAY="1")
    bench.clock.advance(1_000)
    end = bench.broker.queues.queue("rmq_sys_consumer_state", 0).end

    assert bench.deliver() == 300
    assert bench.bodies() == bodies
    assert bench.broker.queues.queue("rmq_sys_consumer_state", 0).end - end > 2


def test_a_message_whose_topic_is_gone_is_passed_over_and_counted(bench: FailureBench) -> None:
    bench.put(b"lost", topic="bills", DELAY="1")
    bench.put(b"kept", DELAY="1")
    bench.publish(deleted="bills")
    bench.clock.advance(1_000)

    assert bench.deliver() == 1
    assert bench.broker.schedule.without_topic == {"bills": 1}
    assert bench.bodies() == [b"kept"]
    assert bench.deliver() == 0


def test_a_message_whose_queue_is_gone_comes_in_another(bench: FailureBench) -> None:
    bench.put(b"x", queue=1, DELAY="1")
    bench.orders_queue_count = 1
    bench.publish()
    bench.clock.advance(1_000)

    assert bench.deliver() == 1
    assert bench.bodies(queue=0) == [b"x"]


def test_after_a_restart_or_a_rebuild_levels_go_on_where_they_were(bench: FailureBench) -> None:
    bench.put(b"a", DELAY="1")
    bench.put(b"b", DELAY="2")
    bench.clock.advance(1_000)
    bench.deliver()
    bench.restart()
    assert bench.deliver() == 0
    # Without checkpoints everything is built again from the log.
    bench.broker.close()
    bench.disk.remove("checkpoint/consumequeue")
    bench.disk.remove("checkpoint/consumers")
    bench.open()
    queue = bench.broker.queues.queue(SCHEDULE_TOPIC, 1)
    assert queue.read(0, 1)["tag_hash"].tolist() == [bench.clock.wall_ms() + 4_000]

    bench.clock.advance(3_999)
    assert bench.deliver() == 0
    bench.clock.advance(1)
    assert bench.deliver() == 1
    assert bench.bodies() == [b"a", b"b"]


def test_a_client_that_names_a_due_time_itself_does_not_confuse_a_rebuild(
    bench: FailureBench,
) -> None:
    bench.put(b"x", TIMER_OUT_MS="soon", REAL_TOPIC="bills", DELAY="1")
    due_ms = bench.clock.wall_ms() + 1_000
    bench.broker.close()
    bench.disk.remove("checkpoint/consumequeue")
    bench.open()

    queue = bench.broker.queues.queue(SCHEDULE_TOPIC, 0)
    assert queue.read(0, 1)["tag_hash"].tolist() == [due_ms]
    bench.clock.advance(1_000)
    assert (bench.deliver(), bench.bodies()) == (1, [b"x"])


def test_a_clock_set_ahead_makes_nothing_early(bench: FailureBench) -> None:
    bench.put(b"before", DELAY="3")
    bench.clock.set_wall(bench.clock.wall_ms() + 3_600_000)
    assert bench.deliver() == 0
    bench.put(b"after", DELAY="2")
    bench.clock.advance(5_000)
    assert bench.deliver() == 1
    assert bench.bodies() == [b"after"]

    bench.clock.advance(5_000)
    assert bench.deliver() == 1
    assert bench.bodies() == [b"after", b"before"]


def test_a_jump_of_the_clock_holds_back_after_a_restart_too(bench: FailureBench) -> None:
    bench.put(b"x", DELAY="3")
    bench.clock.set_wall(bench.clock.wall_ms() + 3_600_000)
    assert bench.deliver() == 0
    bench.restart()

    bench.clock.advance(9_999)
    assert bench.deliver() == 0
    bench.clock.advance(1)
    assert bench.deliver() == 1


def test_a_clock_set_back_makes_messages_wait_and_none_early(bench: FailureBench) -> None:
    bench.put(b"x", DELAY="1")
    bench.clock.set_wall(bench.clock.wall_ms() - 60_000)
    bench.clock.advance(1_000)
    assert bench.deliver() == 0

    bench.clock.advance(60_000)
    assert bench.deliver() == 1


def test_a_jump_between_reading_and_delivering_stops_the_delivery(bench: FailureBench) -> None:
    bench.put(b"x", DELAY="1")
    bench.clock.advance(1_000)
    (queue,) = bench.broker.schedule.queues()
    due = bench.broker.schedule.due(queue, messages_max=10, wait=True)
    assert due is not None
    bench.clock.set_wall(bench.clock.wall_ms() - 1)

    assert bench.broker.schedule.deliver(due) == 0
    assert bench.bodies() == []


def test_what_was_read_twice_is_delivered_once(bench: FailureBench) -> None:
    bench.put(b"x", DELAY="1")
    bench.clock.advance(1_000)
    (queue,) = bench.broker.schedule.queues()
    first = bench.broker.schedule.due(queue, messages_max=10, wait=True)
    second = bench.broker.schedule.due(queue, messages_max=10, wait=True)
    assert first is not None
    assert second is not None

    assert bench.broker.schedule.deliver(first) == 1
    assert bench.broker.schedule.deliver(second) == 0
    bench.sync()
    assert bench.bodies() == [b"x"]


def test_levels_say_what_waits_and_how_late_they_were(bench: FailureBench) -> None:
    bench.put(b"a", b"b", DELAY="1")
    due_ms = bench.clock.wall_ms() + 1_000
    state = bench.broker.schedule.states()[0]
    assert (state.level, state.delay_ms, state.delivered, state.max_offset) == (1, 1_000, 0, 2)
    assert (state.head_due_ms, state.late_ms) == (due_ms, None)
    assert len(bench.broker.schedule.states()) == 18
    assert not bench.broker.schedule.is_due()

    bench.clock.advance(1_250)
    assert bench.broker.schedule.is_due()
    bench.deliver()
    state = bench.broker.schedule.states()[0]
    assert (state.delivered, state.head_due_ms, state.late_ms) == (2, None, 250)


def test_the_progress_of_levels_is_no_users_group(bench: FailureBench) -> None:
    bench.put(b"x", DELAY="1")
    bench.clock.advance(1_000)
    bench.deliver()

    assert (GROUP, SCHEDULE_TOPIC, 0) in bench.broker.state.progress
    assert bench.broker.offsets.progress(None) == []
    assert bench.broker.backlog.rows(None) == []
    with pytest.raises(UnknownTopic):
        bench.broker.queue_ranges(SCHEDULE_TOPIC)


def page(bench: FailureBench, level: int = 1, **what: object) -> tuple[list[int], str | None]:
    asked: dict[str, object] = {"topic": None, "from_ms": None, "to_ms": None, "cursor": None}
    asked |= {"messages_max": 100, "wait": True}
    found = bench.broker.levellist.page(level, **(asked | what))  # type: ignore[arg-type]
    return [message.number for message in found.messages], found.cursor


def test_what_waits_in_a_level_is_listed_page_by_page(bench: FailureBench) -> None:
    start_ms = bench.clock.wall_ms()
    for number in range(6):
        bench.put(b"x", topic=("orders", "bills")[number % 2], DELAY="1", UNIQ_KEY=f"id{number}")
        bench.clock.advance(100)

    assert page(bench) == ([0, 1, 2, 3, 4, 5], None)
    assert page(bench, messages_max=4) == ([0, 1, 2, 3], "4")
    assert page(bench, messages_max=4, cursor="4") == ([4, 5], None)
    assert page(bench, topic="bills") == ([1, 3, 5], None)
    assert page(bench, topic="bills", messages_max=2) == ([1, 3], "4")
    assert page(bench, from_ms=start_ms + 1_200, to_ms=start_ms + 1_400) == ([2, 3], None)
    assert page(bench, level=2) == ([], None)
    found = bench.broker.levellist.page(
        1, topic=None, from_ms=None, to_ms=None, cursor=None, messages_max=1, wait=True
    ).messages[0]
    assert (found.topic, found.queue, found.level) == ("orders", 0, 1)
    assert (found.message_id, found.due_ms, found.handle) == ("id0", start_ms + 1_000, None)

    bench.clock.advance(400)
    bench.deliver()
    assert page(bench)[0] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "what",
    [{"level": 0}, {"level": 129}, {"messages_max": 0}, {"messages_max": 1_001}, {"cursor": "x"}],
)
def test_a_listing_that_makes_no_sense_is_refused(
    bench: FailureBench, what: dict[str, object]
) -> None:
    with pytest.raises(InvalidArgument):
        page(bench, **what)  # type: ignore[arg-type]
