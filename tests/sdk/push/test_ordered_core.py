"""Ordered listening on a desk: locks, one batch a queue, failures, loss, pauses."""

import threading
from typing import Any

import pytest
from mqclient.consuming.push.listening import Delivery
from mqclient.errors import (
    InvalidArgument,
    LockLost,
    StaleGeneration,
)
from mqclient.values import MemberAnswer, PullStatus

from tests.sdk.push.doubles import FIRST, SECOND, Desk, found, lost, offsets_of, pulled


def desk(**settings: Any) -> Desk:
    return Desk({"ordered": True, **settings})


def reading(**settings: Any) -> Desk:
    """Return a desk with both queues locked and begun at 0, and ten messages in the first."""
    ready = desk(**settings)
    ready.assign(FIRST, SECOND)
    ready.grant(FIRST, SECOND)
    ready.begin(q0=0, q1=0)
    ready.bring(FIRST, range(10))
    return ready


def test_nothing_is_begun_or_pulled_without_a_lock() -> None:
    bench = desk()
    bench.assign(FIRST)
    bench.refuse(FIRST)
    without = bench.has("begin"), bench.has("messages")
    bench.advance(1.0)
    bench.grant(FIRST)
    bench.begin(q0=3)

    pull = bench.pull_of(FIRST)

    assert without == (False, False)
    assert (pull.query["offset"], pull.query["epoch"], pull.query["generation"]) == ("3", "7", "1")
    assert (pull.query["group"], pull.query["client_id"]) == ("g", "me")


def test_only_the_locked_queues_are_read() -> None:
    bench = desk()
    bench.assign(FIRST, SECOND)
    bench.grant(FIRST)
    begun = bench.one("begin")
    begun.answer({FIRST: 0})

    bench.pull_of(FIRST)

    assert begun.document["queues"] == [{"topic": "orders", "queue": 0}]
    assert not bench.has("messages")


def test_one_listener_has_a_queue_and_queues_go_side_by_side() -> None:
    bench = reading()
    bench.bring(SECOND, range(5))

    first, second = bench.listen(), bench.listen()
    third = bench.core.next_delivery()

    assert {first.context.queue, second.context.queue} == {FIRST, SECOND}
    assert offsets_of(first) == offsets_of(second) == [0]
    assert third is None


def test_many_threads_at_once_get_one_batch_of_a_queue() -> None:
    bench = reading()
    barrier = threading.Barrier(8)
    taken: list[Delivery | None] = []

    def take() -> None:
        barrier.wait(60)
        taken.append(bench.core.next_delivery())

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(taken) == 8
    assert sum(delivery is not None for delivery in taken) == 1


def test_the_same_listener_goes_on_with_the_queue_in_order() -> None:
    bench = reading(consume_batch_max=4)

    seen = []
    delivery: Delivery | None = bench.listen()
    while delivery is not None:
        seen += offsets_of(delivery)
        delivery = bench.go_on(delivery)
        assert delivery is None or bench.core.begin(delivery)

    assert seen == list(range(10))
    assert bench.core.positions() == {FIRST: 10, SECOND: 0}


def test_after_a_minute_on_one_queue_another_has_its_turn() -> None:
    bench = reading(lock_valid_s=600.0)
    bench.bring(SECOND, range(5))
    first = bench.listen()

    bench.clock.now_s += 20
    second = bench.go_on(first)
    assert second is not None
    assert bench.core.begin(second)
    bench.take()
    bench.grant(FIRST, SECOND, lease_ms=1_200_000)
    bench.clock.now_s += 40
    third = bench.go_on(second)

    assert offsets_of(second) == [1]
    assert second.context.queue == first.context.queue
    assert third is not None
    assert third.context.queue != first.context.queue


def test_a_failed_message_suspends_its_queue_and_comes_again_first() -> None:
    bench = reading()
    bench.bring(SECOND, range(1))
    failing = bench.listen()
    other = bench.core.finish(failing, None, "broken")
    bench.advance(0.99)
    early = bench.core.next_delivery()
    bench.advance(0.01)

    again = bench.listen()

    assert other is not None
    assert other.context.queue == SECOND
    assert early is None
    assert offsets_of(again) == offsets_of(failing) == [0]
    assert (failing.context.attempt, again.context.attempt) == (1, 2)
    assert bench.core.positions()[FIRST] == 0


@pytest.mark.parametrize(("asked_ms", "waits_s"), [(1, 0.01), (250, 0.25), (99_000, 30.0)])
def test_a_listener_may_say_how_long_its_queue_waits(asked_ms: int, waits_s: float) -> None:
    bench = reading(lock_valid_s=600.0)
    failing = bench.listen()
    failing.context.suspend_ms = asked_ms
    bench.fail(failing)

    bench.clock.now_s += waits_s - 0.001
    bench.take()
    early = bench.core.next_delivery()
    bench.advance(0.002)
    if bench.has("acquire"):
        bench.grant(FIRST, SECOND)

    assert early is None
    assert offsets_of(bench.listen()) == [0]


def test_without_a_limit_a_message_is_tried_on_and_on() -> None:
    bench = reading(suspend_ms=10)
    for attempt in range(1, 51):
        delivery = bench.listen()
        assert delivery.context.attempt == attempt
        bench.fail(delivery)
        bench.advance(0.011)

    (head,) = bench.core.blocked()

    assert (head.topic, head.queue, head.queue_offset, head.attempts) == ("orders", 0, 0, 50)
    assert head.reason == "broken"


def test_at_the_limit_a_queue_stands_still_until_somebody_decides() -> None:
    bench = reading(suspend_ms=10, attempts_max=3, is_burying=False)
    for _ in range(3):
        bench.fail(bench.listen())
        bench.advance(0.011)
    still = bench.core.next_delivery()
    (head,) = bench.core.blocked()
    bench.core.revive(FIRST, is_skipping=True)

    after = bench.listen()

    assert still is None
    assert head.attempts == 3
    assert offsets_of(after) == [1]
    assert after.context.attempt == 1
    with pytest.raises(InvalidArgument):
        bench.core.revive(FIRST, is_skipping=False)


def test_the_limit_is_the_groups_unless_the_member_has_its_own() -> None:
    bench = reading(suspend_ms=10, is_burying=False)
    bench.one("heartbeat").answer(
        MemberAnswer(
            generation=1, queues=frozenset((FIRST, SECOND)), heartbeat_ms=10_000, retry_max=1
        )
    )
    for _ in range(2):
        bench.fail(bench.listen())
        bench.advance(0.011)

    assert bench.core.next_delivery() is None
    assert [head.attempts for head in bench.core.blocked()] == [2]


def test_a_queue_that_stands_still_may_be_tried_on() -> None:
    bench = reading(suspend_ms=10, attempts_max=1, is_burying=False)
    bench.fail(bench.listen())
    bench.core.revive(FIRST, is_skipping=False)

    again = bench.listen()

    assert offsets_of(again) == [0]


def test_at_the_limit_a_message_may_be_skipped_by_setting(caplog: pytest.LogCaptureFixture) -> None:
    bench = reading(suspend_ms=10, attempts_max=2, is_skipping=True)
    bench.fail(bench.listen())
    bench.advance(0.011)

    bench.fail(bench.listen())

    assert offsets_of(bench.listen()) == [1]
    assert "skipped after 2 attempts: broken" in caplog.text
    assert bench.core.positions()[FIRST] == 1


def test_a_blocked_head_is_in_the_next_heartbeat() -> None:
    bench = reading()
    bench.fail(bench.listen())
    bench.assign(FIRST, SECOND)
    bench.advance(0.5)

    beat = bench.one("heartbeat")

    assert [(head["offset"], head["attempts"]) for head in beat.document["blocked"]] == [("0", 1)]


def test_who_was_paused_for_longer_than_the_lease_starts_no_listener() -> None:
    # SIGSTOP between taking messages and starting the listener, for two minutes. Another member has
    # had the queue and worked on it when the process goes on.
    bench = reading()
    delivery = bench.core.next_delivery()
    assert delivery is not None
    bench.clock.now_s += 120

    may_run = bench.core.begin(delivery)
    after_it = bench.core.next_delivery()

    assert not may_run
    assert after_it is None


def test_who_was_paused_inside_a_listener_starts_no_second_one() -> None:
    bench = reading()
    running = bench.listen()
    bench.clock.now_s += 120

    following = bench.go_on(running)

    assert following is None
    assert bench.core.next_delivery() is None


def test_after_a_pause_the_queue_begins_anew_under_the_new_epoch() -> None:
    bench = reading()
    bench.succeed(bench.listen())
    bench.advance(120)
    commit = bench.one("commit")
    bench.grant(FIRST, SECOND, epoch=9)
    bench.begin(q1=0)
    while_committing = bench.has("begin")
    commit.fail(LockLost("stale epoch"))
    bench.begin(q0=6)
    bench.bring(FIRST, range(6, 8))

    delivery = bench.listen()

    # Where the group is may still move while a commit is on its way.
    assert not while_committing
    assert offsets_of(delivery) == [6]
    assert delivery.context.epoch == 9


def test_what_was_read_under_a_lock_that_is_gone_is_not_committed_when_the_queue_begins_anew() -> (
    None
):
    bench = reading()
    bench.bring(SECOND, range(1))
    for _ in range(2):
        bench.succeed(bench.listen())
    bench.advance(5.0)
    # Refused as a whole, so each queue is to be tried by itself; meanwhile a lock is lost.
    bench.pull_of(FIRST).fail(LockLost("stale epoch"))
    bench.one("commit").fail(StaleGeneration("one of them"))

    single = bench.one("commit")
    single.answer()

    assert [item["queue"] for item in single.document["offsets"]] == [1]
    assert not bench.has("commit")


def test_a_renewal_under_the_same_epoch_goes_on_with_what_is_here() -> None:
    bench = reading()
    bench.advance(40)
    without_trust = bench.core.next_delivery()
    bench.grant(FIRST, SECOND, epoch=7)

    delivery = bench.listen()

    assert without_trust is None
    assert offsets_of(delivery) == [0]


def test_a_pull_that_was_refused_for_its_epoch_ends_the_queue_at_once() -> None:
    bench = reading()
    delivery = bench.core.next_delivery()
    assert delivery is not None
    bench.pull_of(FIRST).fail(LockLost("stale epoch"))

    may_run = bench.core.begin(delivery)
    pulls = [request.path for request in bench.pending if request.verb == "messages"]
    bench.advance(1.0)
    bench.grant(FIRST, epoch=8)

    assert not may_run
    assert all("/queues/0/" not in path for path in pulls)
    assert bench.one("begin").document["queues"] == [{"topic": "orders", "queue": 0}]


def test_commits_carry_the_epoch_and_the_generation() -> None:
    bench = reading()
    bench.succeed(bench.listen())
    bench.advance(5.0)

    commit = bench.one("commit")

    assert commit.document == {
        "client_id": "me", "generation": 1,
        "offsets": [{"topic": "orders", "queue": 0, "offset": "1", "epoch": 7}],
    }  # fmt: skip


def test_a_commit_refused_for_its_epoch_forgets_what_was_read_under_it() -> None:
    bench = reading()
    bench.succeed(bench.listen())
    bench.advance(5.0)
    bench.one("commit").fail(LockLost("stale epoch"))

    assert bench.core.next_delivery() is None
    assert bench.core.positions() == {SECOND: 0}


def test_a_lost_queue_waits_for_its_listener_then_commits_then_releases() -> None:
    bench = reading()
    running = bench.listen()
    bench.assign(SECOND, generation=2)
    while_running = bench.has("commit"), bench.has("release")
    bench.succeed(running)
    commit = bench.one("commit")
    before_the_commit = bench.has("release")
    commit.answer()

    release = bench.one("release")

    assert while_running == (False, False)
    assert not before_the_commit
    assert commit.document == {
        "client_id": "me", "offsets": [{"topic": "orders", "queue": 0, "offset": "1", "epoch": 7}],
    }  # fmt: skip
    # With its epoch: arriving late, it must not free a lock that was taken anew.
    assert release.document == {
        "client_id": "me", "queues": [{"topic": "orders", "queue": 0, "epoch": 7}],
    }  # fmt: skip
    assert bench.core.next_delivery() is None


def test_a_listener_that_ends_while_its_lost_queue_is_committed_has_its_message_committed_too() -> (
    None
):
    bench = reading()
    bench.succeed(bench.listen())
    running = bench.listen()
    bench.assign(SECOND, generation=2)
    first = bench.one("commit")
    bench.succeed(running)
    first.answer()

    before_the_second = bench.has("release")
    second = bench.one("commit")
    second.answer()

    said = [request.document["offsets"][0]["offset"] for request in (first, second)]
    assert said == ["1", "2"]
    assert not before_the_second
    assert bench.has("release")


def test_a_listener_that_runs_on_for_too_long_keeps_the_lock_from_being_released(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = reading()
    running = bench.listen()
    bench.assign(SECOND, generation=2)
    bench.advance(20.0)
    bench.grant(SECOND)
    after_the_wait = bench.has("release")
    bench.succeed(running)

    assert not after_the_wait
    assert not bench.has("release")
    assert "its lock is not released" in caplog.text


def test_a_queue_that_comes_back_waits_for_the_listener_it_was_lost_under() -> None:
    # The broker's lock is the same member's all the time: only the object lock keeps the new
    # snapshot of the queue from overtaking the old one's listener.
    bench = reading(loss_wait_s=1.0)
    running = bench.listen()
    bench.assign(SECOND, generation=2)
    bench.advance(1.0)
    bench.assign(FIRST, SECOND, generation=3)
    bench.grant(FIRST, epoch=8)
    bench.begin(q0=0)
    bench.bring(FIRST, range(10))
    while_running = bench.core.next_delivery()
    bench.succeed(running)

    after = bench.listen()

    assert while_running is None
    assert offsets_of(after) == [0]
    assert after.context.epoch == 8


def test_a_queue_that_comes_back_is_locked_only_after_its_release_is_through() -> None:
    bench = reading()
    bench.assign(SECOND, generation=2)
    release = bench.one("release")
    bench.assign(FIRST, SECOND, generation=3)
    while_releasing = bench.has("acquire")
    release.answer()

    acquire = bench.one("acquire")

    assert not while_releasing
    assert acquire.document["queues"] == [{"topic": "orders", "queue": 0}]


def test_a_lost_release_is_repeated_once() -> None:
    bench = reading()
    bench.assign(SECOND, generation=2)
    bench.one("release").fail(lost())
    at_once = bench.has("release")
    bench.advance(1.0)
    bench.one("release").fail(lost())
    bench.advance(5.0)

    assert not at_once
    assert not bench.has("release")


def test_a_pull_of_a_queue_that_is_anothers_gives_the_queue_up() -> None:
    bench = reading()
    bench.take()
    bench.pull_of(FIRST).fail(StaleGeneration("stale"))

    beats = [request for request in bench.take() if request.verb == "heartbeat"]

    assert [beat.document["wait_ms"] for beat in beats] == [0]
    (given_back,) = bench.one("release").document["queues"]
    assert given_back == {"topic": "orders", "queue": 0, "epoch": 7}
    assert bench.core.next_delivery() is None


def test_messages_that_come_after_the_trust_has_ended_wait_for_the_renewal() -> None:
    bench = reading()
    bench.take()
    pull = bench.pull_of(SECOND)
    bench.clock.now_s += 35
    pull.answer(found(SECOND, range(2)))
    without_trust = bench.core.next_delivery()
    bench.take()
    bench.grant(FIRST, SECOND)

    places = {bench.listen().context.queue, bench.listen().context.queue}

    assert without_trust is None
    assert places == {FIRST, SECOND}


def test_an_ordered_queue_is_not_held_back_by_its_span() -> None:
    bench = reading(span_max=3)

    assert bench.pull_of(FIRST).query["offset"] == "10"


def test_while_stopping_locks_are_renewed_for_the_listener_that_still_runs() -> None:
    bench = reading()
    running = bench.listen()
    idle = threading.Event()
    bench.core.stop(idle.set)
    bench.advance(20.0)
    renewal = bench.one("acquire")
    was_idle = idle.is_set()

    following = bench.go_on(running)

    assert len(renewal.document["queues"]) == 2
    assert not was_idle
    assert idle.is_set()
    assert following is None
    assert bench.core.positions()[FIRST] == 1


def test_a_queue_that_ends_before_what_was_read_of_it_goes_on_at_its_end() -> None:
    bench = reading()
    running = bench.listen()
    bench.pull_of(FIRST).answer(pulled(PullStatus.OFFSET_ILLEGAL, 4))
    bench.succeed(running)

    assert bench.core.next_delivery() is None
    assert bench.core.positions()[FIRST] == 4
    assert bench.pull_of(FIRST).query["offset"] == "4"
