"""Both lite pull consumers as members of a group: the broker assigns, the caller reads."""

from datetime import UTC, datetime
from typing import Any

import pytest
from mqclient import (
    AsyncLitePullConsumer,
    ConsumeFrom,
    InvalidArgument,
    InvalidFilter,
    LitePullConsumer,
    Sql,
    TopicQueue,
    UnknownTopic,
)

from tests.sdk.fake_broker import FakeBroker
from tests.sdk.push.hearing import wait_until

FIRST, SECOND = TopicQueue("orders", 0), TopicQueue("orders", 1)


def consumer(broker: FakeBroker, **settings: Any) -> LitePullConsumer:
    return LitePullConsumer(broker.url, **{"group": "g", "client_id": "a", **settings})


def fill(broker: FakeBroker, count: int) -> None:
    for queue in range(4):
        broker.put("orders", queue, *(b"%d-%d" % (queue, number) for number in range(count)))


def drain(reader: LitePullConsumer, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    while len(bodies) < count:
        messages = reader.poll(5.0)
        assert messages
        bodies += [message.body for message in messages]
    return bodies


def test_a_member_reads_what_it_is_assigned_and_commits_it(broker: FakeBroker) -> None:
    fill(broker, 10)

    with consumer(broker) as reader:
        reader.subscribe("orders")
        bodies = drain(reader, 40)
        members = list(broker.groups["g"].members)

    assert len(set(bodies)) == 40
    assert members == ["a"]
    assert broker.committed == {("g", "orders", queue): 10 for queue in range(4)}
    assert broker.groups["g"].members == {}
    commits = [document for name, document in broker.documents if name == "offsets:commit"]
    assert {commit["client_id"] for commit in commits} == {"a"}
    assert all(commit["generation"] > 0 for commit in commits)


def test_two_members_share_the_queues(broker: FakeBroker) -> None:
    fill(broker, 5)

    with consumer(broker) as first:
        first.subscribe("orders")
        with consumer(broker, client_id="b") as second:
            second.subscribe("orders")
            wait_until(lambda: len(first._core._membership.queues) == 2)  # type: ignore[union-attr]
            bodies = drain(first, 10) + drain(second, 10)
            shares = first.assignment(), second.assignment()

    assert {place.queue for place in shares[0]} == {0, 1}
    assert {place.queue for place in shares[1]} == {2, 3}
    assert len(set(bodies)) == 20


def test_a_change_of_the_assignment_is_told_in_the_next_poll(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1")
    broker.assign("g", {"a": {"orders": [0]}})
    told: list[tuple[str, list[TopicQueue], int | None]] = []

    with consumer(broker, is_auto_commit=False) as reader:

        def revoked(queues: list[TopicQueue]) -> None:
            reader.commit()
            told.append(("revoked", queues, broker.committed["g", "orders", 0]))

        reader.subscribe(
            "orders",
            on_assigned=lambda queues: told.append(("assigned", queues, None)),
            on_revoked=revoked,
        )
        drain(reader, 2)
        broker.assign("g", {"a": {"orders": [1]}})
        reader_thread_told_before = list(told)
        broker.put("orders", 1, b"x")
        bodies = drain(reader, 1)
        queues = reader.assignment()

    assert reader_thread_told_before == [("assigned", [FIRST], None)]
    assert told[1:] == [("revoked", [FIRST], 2), ("assigned", [SECOND], None)]
    assert bodies == [b"x"]
    assert queues == (SECOND,)


def test_a_poll_that_waits_learns_of_a_new_queue(broker: FakeBroker) -> None:
    broker.put("orders", 1, b"x")
    broker.assign("g", {"a": {"orders": []}})

    with consumer(broker) as reader:
        reader.subscribe("orders")
        assert reader.poll(0.01) == []
        broker.assign("g", {"a": {"orders": [1]}})
        messages = reader.poll(5.0)

    assert [message.body for message in messages] == [b"x"]


def test_a_queue_that_is_anothers_by_now_is_given_up_and_committed(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1")
    broker.assign("g", {"a": {"orders": [0]}})

    with consumer(broker) as reader:
        reader.subscribe("orders")
        drain(reader, 2)
        broker.assign("g", {"b": {"orders": [0]}})
        wait_until(lambda: bool(reader._core.lost()))
        messages = reader.poll(0.01)
        queues = reader.assignment()

    assert messages == []
    assert queues == ()
    assert broker.committed["g", "orders", 0] == 2


def test_a_commit_during_a_change_still_moves_the_group_forward(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0")
    fault = broker.fault(
        "offsets:commit", "status", status=409, code="stale_generation", retriable=False
    )

    with consumer(broker) as reader:
        reader.subscribe("orders")
        drain(reader, 1)
        reader.commit()
        committed = broker.committed["g", "orders", 0]

    assert fault.fired_count == 1
    assert committed == 1


def test_a_member_seeks_and_pauses_queues_it_owns(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1", b"2")
    broker.assign("g", {"a": {"orders": [0]}})

    with consumer(broker) as reader:
        reader.subscribe("orders")
        drain(reader, 3)
        reader.seek(FIRST, 1)
        again = drain(reader, 2)
        reader.pause([FIRST])
        broker.put("orders", 0, b"3")
        while_paused = reader.poll(0.02)
        reader.resume([FIRST])
        after = drain(reader, 1)
        with pytest.raises(InvalidArgument):
            reader.seek(SECOND, 0)

    assert (again, while_paused, after) == ([b"1", b"2"], [], [b"3"])


def test_a_subscription_may_have_filters_and_a_first_offset(broker: FakeBroker) -> None:
    broker.topics["notes"] = 1
    broker.put("orders", 0, b"old", tag="A")
    with consumer(broker, consume_from=ConsumeFrom.LAST) as reader:
        reader.subscribe(subscriptions={"orders": "A", "notes": Sql("size > 3")})
        reader.poll(0.02)
        broker.put("orders", 0, b"other", tag="B")
        broker.put("orders", 0, b"new", tag="A")
        bodies = drain(reader, 1)

    pulls = [line for line in broker.requests if "/topics/notes/queues/0/messages" in line]
    assert bodies == [b"new"]
    assert all("filter=size%20%3E%203&filter_type=SQL92" in line for line in pulls)
    assert pulls


def test_subscribing_again_changes_the_topics(broker: FakeBroker) -> None:
    broker.topics["notes"] = 1
    broker.put("notes", 0, b"n")

    with consumer(broker) as reader:
        reader.subscribe("orders")
        reader.poll(0.01)
        before = len(reader.assignment())
        reader.subscribe("notes")
        bodies = drain(reader, 1)
        after = reader.assignment()

    assert before == 4
    assert bodies == [b"n"]
    assert after == (TopicQueue("notes", 0),)


def test_unsubscribing_leaves_the_group_and_commits(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0")

    with consumer(broker) as reader:
        reader.subscribe("orders")
        drain(reader, 1)
        reader.unsubscribe()
        members, queues = dict(broker.groups["g"].members), reader.assignment()
        reader.assign([SECOND])
        after = reader.assignment()

    assert members == {}
    assert queues == ()
    assert after == (SECOND,)
    assert broker.committed["g", "orders", 0] == 1


def test_who_unsubscribed_may_subscribe_again_at_once(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0")

    with consumer(broker) as reader:
        reader.subscribe("orders")
        before = drain(reader, 1)
        reader.unsubscribe()
        reader.subscribe("orders")
        broker.put("orders", 0, b"1")
        after = drain(reader, 1)
        assigned = reader.assignment()

    assert (before, after) == ([b"0"], [b"1"])
    assert len(assigned) == 4


def test_assigning_and_subscribing_exclude_each_other(broker: FakeBroker) -> None:
    with consumer(broker) as assigned, consumer(broker) as subscribed:
        assigned.assign([FIRST])
        subscribed.subscribe("orders")
        with pytest.raises(InvalidArgument):
            assigned.subscribe("orders")
        with pytest.raises(InvalidArgument):
            subscribed.assign([FIRST])


def test_what_cannot_be_subscribed_is_refused(broker: FakeBroker) -> None:
    with consumer(broker) as reader, LitePullConsumer(broker.url) as without_group:
        with pytest.raises(UnknownTopic):
            reader.subscribe("nowhere")
        reader.assign([FIRST])
        reader.assign([])
        with pytest.raises(InvalidFilter):
            reader.subscribe(subscriptions={"orders": "a||"})
        with pytest.raises(InvalidArgument):
            reader.subscribe()
        with pytest.raises(InvalidArgument):
            without_group.subscribe("orders")


def test_who_assigned_queues_by_hand_may_set_the_group_back(broker: FakeBroker) -> None:
    broker.put("orders", 0, b"0", b"1")

    with consumer(broker) as reader:
        reader.assign([FIRST])
        drain(reader, 2)
        reader.commit()
        reader.seek(FIRST, 0)
        reader.commit()

    assert broker.committed["g", "orders", 0] == 0
    commits = [document for name, document in broker.documents if name == "offsets:commit"]
    assert all("client_id" not in commit for commit in commits)


@pytest.mark.parametrize(
    ("time", "offset"),
    [(1_000, 0), (1_001, 2), (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), 0)],
)
def test_the_offset_of_a_time_is_asked_for(
    broker: FakeBroker, time: datetime | int, offset: int
) -> None:
    broker.put("orders", 0, b"0", b"1")

    with LitePullConsumer(broker.url) as reader:
        found = reader.offset_for_time(FIRST, time)

    assert found == offset


def test_a_time_without_a_zone_is_refused(broker: FakeBroker) -> None:
    with LitePullConsumer(broker.url) as reader, pytest.raises(InvalidArgument):
        reader.offset_for_time(FIRST, datetime(2026, 1, 1))  # noqa: DTZ001


async def test_an_async_member_reads_commits_and_follows_the_assignment(
    broker: FakeBroker,
) -> None:
    broker.put("orders", 0, b"0")
    broker.put("orders", 1, b"1")
    broker.assign("g", {"a": {"orders": [0]}})
    told: list[tuple[str, list[TopicQueue]]] = []

    async def assigned(queues: list[TopicQueue]) -> None:
        told.append(("assigned", queues))

    async with AsyncLitePullConsumer(broker.url, group="g", client_id="a") as reader:
        await reader.subscribe(
            "orders",
            on_assigned=assigned,
            on_revoked=lambda queues: told.append(("revoked", queues)),
        )
        first = await reader.poll(5.0)
        broker.assign("g", {"a": {"orders": [1]}})
        second = await reader.poll(5.0)
        at = await reader.offset_for_time(SECOND, 1_001)
        await reader.unsubscribe()
        members = dict(broker.groups["g"].members)

    assert [message.body for message in first + second] == [b"0", b"1"]
    assert told == [("assigned", [FIRST]), ("revoked", [FIRST]), ("assigned", [SECOND])]
    assert at == 1
    assert members == {}
    assert broker.committed == {("g", "orders", 0): 1, ("g", "orders", 1): 1}
