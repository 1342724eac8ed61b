"""What groups have left to do in lite topics: as sums, and what an answer costs."""

import random

import pytest

from apps.engine.broker import litelags
from apps.engine.broker.core import Broker
from apps.engine.codec.litenames import lite_topic
from apps.engine.derived.consumequeue import ColdRead, ConsumeQueue
from apps.engine.litetypes import LiteBacklog
from apps.engine.testing.contracts.lite import handles_of
from apps.engine.testing.crashes import CrashMode
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from apps.engine.types import ConsumeFrom, GroupSpec
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


def put(broker: Broker, name: str, count: int = 1) -> None:
    send(broker, name, *["x"] * count)


def take(broker: Broker, most: int = 32) -> list[str]:
    return handles_of(receive(broker, most=most).leases)


def lag_of(broker: Broker, group: str = "g") -> tuple[int | None, int | None]:
    (row,) = broker.litelags.rows(group)
    return row.lag, row.topics_behind


def test_an_answer_looks_at_no_lite_topic_that_nothing_happened_to(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        put(broker, f"n{number}")
    subscribe(broker, "n1")
    broker.litelags.rows()
    looked: list[str] = []
    found = litelags.LiteLags._found

    def noting(lags: litelags.LiteLags, account: object, topic: str, *, wait: bool) -> object:
        looked.append(topic)
        return found(lags, account, topic, wait=wait)  # type: ignore[arg-type]

    monkeypatch.setattr(litelags.LiteLags, "_found", noting)
    answers = [lag_of(broker) for _ in range(3)]
    at_rest = list(looked)
    put(broker, "n7")
    after = lag_of(broker)

    assert answers == [(50, 50)] * 3
    assert at_rest == []
    assert (after, set(looked)) == ((51, 50), {lite_topic("chats", "n7")})


def test_a_group_that_is_new_to_many_lite_topics_is_unknown_until_they_are_counted(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litelags, "_COUNTED_AT_ONCE", 20)
    for number in range(50):
        put(broker, f"n{number}")
    subscribe(broker, "n1")

    rows = [broker.litelags.rows("g")[0] for _ in range(4)]

    unknown = LiteBacklog(
        group="g",
        topic="chats",
        arrived=50,
        lag=None,
        topics_behind=None,
        in_flight=None,
        ready=None,
        oldest_age_ms=None,
    )
    assert rows[:2] == [unknown] * 2
    assert [row.lag for row in rows[2:]] == [50, 50]


def test_what_is_not_counted_yet_is_counted_when_lite_topics_are_looked_through(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litelags, "_COUNTED_AT_ONCE", 20)
    for number in range(50):
        put(broker, f"n{number}")
    subscribe(broker, "n1")
    end_all(broker)

    assert lag_of(broker) == (50, 50)


def test_a_group_that_begins_at_a_time_is_behind_in_what_came_since(
    broker: Broker, clock: ManualClock
) -> None:
    put(broker, "old", 2)
    clock.advance(1_000)
    begin = GroupSpec(name="g", consume_from=ConsumeFrom.TIMESTAMP, consume_from_ms=clock.wall_ms())
    publish(broker, CHATS, groups=(begin,))
    put(broker, "old")
    put(broker, "new", 3)
    subscribe(broker, "nobody")

    end_all(broker)

    assert lag_of(broker) == (4, 2)


def test_a_decision_about_the_group_counts_from_then_on(broker: Broker) -> None:
    put(broker, "ann", 3)
    put(broker, "bob")
    subscribe(broker, "bob")
    for handle in take(broker):
        broker.settler.ack("g", [handle])
    before = lag_of(broker)
    publish(broker, CHATS, groups=(GroupSpec(name="g", consume_from=ConsumeFrom.LAST),))

    assert (before, lag_of(broker)) == ((3, 1), (0, 0))


def test_what_is_gone_is_not_left_to_do(broker: Broker, clock: ManualClock) -> None:
    put(broker, "ann", 3)
    subscribe(broker, "ann")
    take(broker, 1)
    clock.advance(HOUR_MS)
    put(broker, "bob")
    subscribe(broker, "ann")

    end_all(broker)

    assert lag_of(broker) == (1, 1)
    publish(broker)
    assert broker.litelags.rows() == []


def test_who_reads_nothing_of_a_parent_any_more_is_not_listed(
    broker: Broker, clock: ManualClock
) -> None:
    put(broker, "ann")
    subscribe(broker, "ann")
    rows = broker.litelags.rows()
    clock.advance(HOUR_MS)

    assert [row.lag for row in rows] == [1]
    assert broker.litelags.rows() == []


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_restart_finds_the_same(
    broker: Broker, disk: SimulatedDisk, clock: ManualClock, *, is_killed: bool
) -> None:
    put(broker, "ann", 3)
    put(broker, "bob", 2)
    subscribe(broker, "ann")
    handles = take(broker, 2)
    broker.settler.ack("g", handles[1:])
    clock.advance(7_000)
    (before,) = broker.litelags.rows()
    broker.log.sync()
    if is_killed:
        disk = disk.crash_image(random.Random(1), CrashMode.EVERYTHING)
    else:
        broker.close()

    again = opened(disk, clock)
    again.times.of(again.queues.queue(lite_topic("chats", "ann"), 0), 0, wait=True)
    (after,) = again.litelags.rows()

    assert (before.lag, before.topics_behind, before.in_flight, before.ready) == (5, 2, 1, 3)
    assert before.oldest_age_ms == 7_000
    assert after == before


def test_positions_that_are_none_any_more_do_not_pile_up(broker: Broker) -> None:
    subscribe(broker, "ann")
    for _ in range(500):
        put(broker, "ann", 2)
        broker.settler.ack("g", take(broker, 1))

    (account,) = broker.litelags._accounts["%LITE%chats"].values()
    assert lag_of(broker) == (500, 1)
    assert len(account.heads) <= 2 * 1 + 65


def test_the_oldest_message_is_unknown_until_somebody_knows_where_it_lies(
    broker: Broker, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ConsumeQueue.log_offset

    def cold(queue: ConsumeQueue, queue_offset: int, *, wait: bool) -> int:
        if not wait:
            raise ColdRead(lambda: None)
        # From here on it is in memory.
        monkeypatch.setattr(ConsumeQueue, "log_offset", found)
        return found(queue, queue_offset, wait=wait)

    monkeypatch.setattr(ConsumeQueue, "log_offset", cold)
    put(broker, "ann")
    subscribe(broker, "ann")
    clock.advance(5_000)
    (before,) = broker.litelags.rows()
    with pytest.raises(ColdRead):
        broker.expire_lite(wait=False)
    broker.expire_lite(wait=True)
    (after,) = broker.litelags.rows()

    assert (before.lag, before.oldest_age_ms) == (1, None)
    assert (after.lag, after.oldest_age_ms) == (1, 5_000)
