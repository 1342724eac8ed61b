"""A group's retry topic is part of what it has left to do, however its members read."""

import pytest

from apps.engine.grouptypes import HeartbeatRequest, QueueBacklog, QueuePlace, Subscription
from apps.engine.types import GroupProgress, MessageModel, OffsetCommit
from tests.engine.broker.failurebench import FailureBench

RETRY = "%RETRY%g"


@pytest.fixture
def bench() -> FailureBench:
    return FailureBench()


def backlog(bench: FailureBench, group: str | None = "g") -> list[QueueBacklog]:
    return [row for row in bench.broker.backlog.rows(group) if row.topic == RETRY]


def progress(bench: FailureBench, group: str | None = "g") -> list[GroupProgress]:
    return [row for row in bench.broker.offsets.progress(group) if row.topic == RETRY]


def fail(bench: FailureBench, count: int) -> None:
    """Let so many messages come again in the retry topic."""
    bench.put(*[b"x"] * count)
    bench.send_back(*range(count))
    bench.clock.advance(10_000)
    assert bench.deliver() == count


def join(bench: FailureBench, client_id: str, model: MessageModel) -> None:
    topics = ("orders", RETRY) if model is MessageModel.CLUSTERING else ("orders",)
    bench.broker.membership.heartbeat(
        HeartbeatRequest(
            group="g",
            client_id=client_id,
            subscriptions=tuple(Subscription(topic=topic) for topic in topics),
            model=model,
        )
    )


def test_a_group_that_never_failed_has_no_retry_topic(bench: FailureBench) -> None:
    bench.put(b"x")
    bench.receive()
    join(bench, "a", MessageModel.CLUSTERING)

    assert backlog(bench) == []
    assert progress(bench) == []


def test_what_waits_in_a_delay_is_not_yet_in_the_retry_topic(bench: FailureBench) -> None:
    bench.put(b"x")
    bench.send_back(0)

    assert backlog(bench) == []


@pytest.mark.parametrize("asked", ["g", None])
def test_retries_nobody_has_read_yet_are_left_to_do(bench: FailureBench, asked: str | None) -> None:
    fail(bench, 3)

    (row,) = backlog(bench, asked)
    (found,) = progress(bench, asked)

    assert (row.queue, row.committed, row.delivered, row.max_offset) == (0, 0, 0, 3)
    assert row.oldest_age_ms == 0
    assert (found.committed, found.max_offset, found.ready) == (0, 3, 3)


def test_receivers_are_given_their_retries_and_the_figures_follow(bench: FailureBench) -> None:
    fail(bench, 3)

    leases = bench.receive(most=2, topics=("bills",)).leases
    (out,) = backlog(bench)
    for lease in leases:
        bench.broker.settler.ack("g", [f"{lease.token}:0-1"])
    (done,) = backlog(bench)
    (found,) = progress(bench)

    assert (out.committed, out.delivered, out.in_flight, out.head_attempts) == (0, 2, 2, 1)
    assert (done.committed, done.in_flight) == (2, 0)
    assert (found.committed, found.delivered, found.in_flight, found.ready) == (2, 2, 0, 1)


def test_a_push_member_owns_its_retry_queue_and_the_figures_follow(bench: FailureBench) -> None:
    fail(bench, 3)
    join(bench, "a", MessageModel.CLUSTERING)
    place = QueuePlace(topic=RETRY, queue=0)
    (begin,) = bench.broker.begin.offsets("g", [place])

    bench.pull(begin.queue_offset, topic=RETRY, most=2)
    (out,) = backlog(bench)
    commit = OffsetCommit(topic=RETRY, queue=0, queue_offset=2)
    bench.broker.offsets.commit("g", [commit], client_id="a")
    (done,) = backlog(bench)
    (found,) = progress(bench)

    assert begin.queue_offset == 0
    assert (out.owner, out.committed, out.delivered, out.in_flight) == ("a", 0, 2, 2)
    assert (done.owner, done.committed, done.in_flight, done.max_offset) == ("a", 2, 0, 3)
    assert (found.committed, found.max_offset, found.ready) == (2, 3, 1)


def test_a_retry_that_fails_again_comes_behind_and_what_is_done_stays_listed(
    bench: FailureBench,
) -> None:
    fail(bench, 1)
    bench.send_back(0, topic=RETRY)
    commit = OffsetCommit(topic=RETRY, queue=0, queue_offset=1)
    bench.broker.offsets.commit("g", [commit], client_id="a")

    (waiting,) = backlog(bench)
    bench.clock.advance(30_000)
    bench.deliver()
    (again,) = backlog(bench)

    assert (waiting.committed, waiting.max_offset) == (1, 1)
    assert (again.committed, again.max_offset) == (1, 2)


def test_a_group_that_is_broadcast_to_has_no_retry_topic(bench: FailureBench) -> None:
    fail(bench, 1)

    join(bench, "a", MessageModel.BROADCASTING)
    alone = backlog(bench), progress(bench)
    join(bench, "b", MessageModel.CLUSTERING)
    beside = backlog(bench), progress(bench)

    assert alone == ([], [])
    assert [len(rows) for rows in beside] == [1, 1]


def test_retries_are_listed_after_a_restart_and_are_nobody_elses(bench: FailureBench) -> None:
    fail(bench, 2)

    bench.restart()

    assert [row.max_offset for row in backlog(bench, None)] == [2]
    assert bench.broker.backlog.rows("h") == []
