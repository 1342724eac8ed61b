"""Concurrent listening on a desk: batches, failures, what is committed, how far is read ahead."""

import random
from typing import Any

import pytest
from mqclient.consuming.push.concurrent import ConcurrentDispatch
from mqclient.consuming.push.listening import Consumed, Delivery
from mqclient.consuming.push.snapshot import Snapshot
from mqclient.errors import (
    ConnectFailed,
    MqError,
    Overloaded,
    StaleGeneration,
    UnknownTopic,
)
from mqclient.values import (
    MemberAnswer,
    PullStatus,
    Returned,
    SentBack,
)
from mqclient.wire.records import Message

from tests.sdk.push.doubles import FIRST, SECOND, Desk, found, lost, offsets_of, pulled


def reading(count: int = 10, **settings: Any) -> Desk:
    """Return a desk with the first queue begun at 0 and so many messages of it here."""
    bench = Desk(settings)
    bench.assign(FIRST)
    bench.begin(q0=0)
    if count:
        bench.bring(FIRST, range(count))
    return bench


def commit_of(bench: Desk) -> list[tuple[int, str]]:
    bench.advance(5.0)
    if not bench.has("commit"):
        return []
    commit = bench.one("commit")
    commit.answer()
    return [(item["queue"], item["offset"]) for item in commit.document["offsets"]]


def test_several_listeners_have_messages_of_one_queue() -> None:
    bench = reading(5, consume_batch_max=2)

    batches = [offsets_of(bench.listen()) for _ in range(3)]

    assert batches == [[0, 1], [2, 3], [4]]
    assert bench.core.next_delivery() is None


def test_the_smallest_unfinished_offset_is_committed() -> None:
    bench = reading(3)
    first, second, third = (bench.listen() for _ in range(3))
    bench.succeed(third)
    bench.succeed(second)
    none_done = commit_of(bench)
    bench.succeed(first)

    all_done = commit_of(bench)
    again = commit_of(bench)

    assert none_done == []
    assert all_done == [(0, "3")]
    assert again == []


def test_offsets_that_were_filtered_out_are_committed_too() -> None:
    bench = reading(0)
    bench.pull_of(FIRST).answer(pulled(PullStatus.NO_MATCHED_MSG, 70))
    pull = bench.pull_of(FIRST)

    assert pull.query["offset"] == "70"
    assert commit_of(bench) == [(0, "70")]


@pytest.mark.parametrize(
    ("ack_index", "done"), [(None, 4), (3, 4), (9, 4), (1, 2), (0, 1), (-1, 0), (-7, 0)]
)
def test_a_batch_may_be_done_in_part(ack_index: int | None, done: int) -> None:
    bench = reading(4, consume_batch_max=4)
    delivery = bench.listen()
    delivery.context.ack_index = ack_index
    bench.succeed(delivery)
    position = bench.core.positions()[FIRST]

    sent = bench.take_back()["messages"] if done < 4 else []

    assert position == done
    assert [int(item["offset"]) for item in sent] == list(range(done, 4))


def test_the_index_of_a_batch_for_later_is_not_heeded() -> None:
    bench = reading(4, consume_batch_max=4)
    delivery = bench.listen()
    delivery.context.ack_index = 2
    bench.core.finish(delivery, Consumed.RETRY_LATER, "later")

    assert bench.core.positions()[FIRST] == 0


def test_reading_ahead_ends_at_the_number_of_messages() -> None:
    bench = reading(10, cached_messages_max=10)
    full = bench.has("messages")
    before = bench.work_count
    bench.succeed(bench.listen())
    told = bench.work_count > before
    at_once = bench.has("messages")
    bench.advance(0.05)

    assert not full
    assert told
    assert not at_once
    assert bench.pull_of(FIRST).query["offset"] == "10"


def test_reading_ahead_ends_at_the_bytes() -> None:
    bench = reading(0, cached_bytes_max=100)
    bench.bring(FIRST, range(2), size_bytes=49)
    below = bench.pull_of(FIRST)
    below.answer(found(FIRST, range(2, 3), size_bytes=2))
    bench.advance(0.06)

    assert not bench.has("messages")


def test_reading_ahead_ends_at_the_span_from_a_message_that_is_stuck() -> None:
    bench = reading(1, span_max=20)
    bench.listen()
    for start in (1, 11):
        bench.bring(FIRST, range(start, start + 10))
    for _ in range(20):
        bench.succeed(bench.listen())
    bench.advance(0.06)

    assert not bench.has("messages")


def test_a_busy_broker_is_asked_again_soon_and_a_broken_one_after_a_second() -> None:
    bench = reading(0)
    errors: list[tuple[MqError, float]] = [(Overloaded("x"), 0.02), (Overloaded("x"), 0.04)]
    errors += [(lost(), 1.0), (UnknownTopic("x"), 1.0)]
    for error, pause_s in errors:
        bench.pull_of(FIRST).fail(error)
        bench.clock.now_s += pause_s * 0.9
        assert not bench.has("messages")
        bench.clock.now_s += pause_s * 0.11
        assert bench.has("messages")


def test_a_queue_that_its_old_owner_still_has_is_not_asked_in_a_tight_loop() -> None:
    bench = reading(0)
    bench.pull_of(FIRST).answer(pulled(PullStatus.NO_NEW_MSG, 0))
    at_once = bench.has("messages")
    bench.advance(0.05)
    pull = bench.pull_of(FIRST)
    bench.clock.now_s += 15
    pull.answer(pulled(PullStatus.NO_NEW_MSG, 0))

    assert not at_once
    assert bench.has("messages")


def test_what_was_read_before_it_was_deleted_still_gets_a_listener() -> None:
    bench = reading(5)
    bench.pull_of(FIRST).answer(pulled(PullStatus.OFFSET_ILLEGAL, 50))
    delivery = bench.listen()
    bench.advance(1.0)

    assert offsets_of(delivery) == [0]
    assert bench.pull_of(FIRST).query["offset"] == "50"


def test_a_queue_shorter_than_what_was_read_is_read_again_from_its_end() -> None:
    bench = reading(5)
    bench.pull_of(FIRST).answer(pulled(PullStatus.OFFSET_ILLEGAL, 2))

    assert bench.core.next_delivery() is None
    assert bench.pull_of(FIRST).query["offset"] == "2"


def test_a_lost_queue_is_committed_at_once_and_again_when_its_listeners_are_done() -> None:
    bench = reading(4)
    first, second, third = (bench.listen() for _ in range(3))
    bench.succeed(first)
    bench.assign(generation=2)
    at_once = bench.one("commit")
    at_once.answer()
    bench.succeed(second)
    early = bench.has("commit")
    bench.succeed(third)

    at_last = bench.one("commit")

    assert at_once.document == {
        "client_id": "me", "offsets": [{"topic": "orders", "queue": 0, "offset": "1"}],
    }  # fmt: skip
    assert not early
    assert at_last.document["offsets"] == [{"topic": "orders", "queue": 0, "offset": "3"}]
    assert bench.core.next_delivery() is None


def test_a_queue_that_comes_back_begins_where_the_last_word_left_it() -> None:
    bench = reading(2)
    running = bench.listen()
    bench.assign(generation=2)
    bench.assign(FIRST, generation=3)
    while_leaving = bench.has("begin")
    bench.succeed(running)
    bench.one("commit").answer()
    bench.begin(q0=1)

    assert not while_leaving
    assert bench.pull_of(FIRST).query["offset"] == "1"


def test_a_refused_commit_is_repeated_queue_by_queue_to_find_the_one_that_is_lost() -> None:
    bench = Desk()
    bench.assign(FIRST, SECOND)
    bench.begin(q0=0, q1=0)
    bench.bring(FIRST, range(1))
    bench.bring(SECOND, range(1))
    bench.succeed(bench.listen())
    bench.succeed(bench.listen())
    bench.advance(5.0)
    bench.one("commit").fail(StaleGeneration("one of them"))

    singles = [bench.one("commit")]
    singles[0].fail(StaleGeneration("this one"))
    singles.append(bench.one("commit"))
    singles[1].answer()
    last = bench.one("commit")

    refused, taken = [request.document["offsets"] for request in singles]
    assert len(refused) == len(taken) == 1
    assert {refused[0]["queue"], taken[0]["queue"]} == {0, 1}
    assert last.document == {"client_id": "me", "offsets": refused}
    assert [place.queue for place in bench.core.positions()] == [taken[0]["queue"]]


def test_a_queue_that_is_still_anothers_is_asked_for_no_earlier_than_it_is_read() -> None:
    bench = reading(1)
    bench.bring(FIRST, range(1, 2))
    bench.pull_of(FIRST).fail(StaleGeneration("another has it"))
    at_once = bench.has("begin")
    bench.advance(0.9)
    early = bench.has("begin")
    bench.advance(0.1)
    bench.begin(q0=7)

    # In that second the owner of now may commit, and nothing of it is read again.
    assert (at_once, early) == (False, False)
    assert bench.pull_of(FIRST).query["offset"] == "7"


def test_a_commit_without_an_answer_is_repeated_after_a_second() -> None:
    bench = reading(1)
    bench.succeed(bench.listen())
    bench.advance(5.0)
    bench.one("commit").fail(lost())
    at_once = bench.has("commit")
    bench.advance(1.0)

    assert not at_once
    assert bench.one("commit").document["offsets"][0]["offset"] == "1"


def test_answers_to_pulls_of_a_lost_queue_bring_nothing() -> None:
    bench = reading(0)
    pull = bench.pull_of(FIRST)
    bench.assign(generation=2)
    pull.answer(found(FIRST, range(3)))

    assert bench.core.next_delivery() is None


def test_a_taken_batch_of_a_lost_queue_does_not_begin() -> None:
    bench = reading(1)
    delivery = bench.core.next_delivery()
    assert delivery is not None
    bench.assign(generation=2)

    assert not bench.core.begin(delivery)


def test_with_more_queues_than_pulls_each_has_its_turn_and_holds_are_short() -> None:
    bench = Desk({"pulls_max": 1})
    bench.assign(FIRST, SECOND)
    bench.begin(q0=0, q1=0)

    first = bench.pull_of(FIRST)
    first.answer(pulled(PullStatus.NO_NEW_MSG, 0))
    second = bench.pull_of(SECOND)

    assert first.query["wait_ms"] == second.query["wait_ms"] == "50"


def test_a_paused_consumer_reads_nothing_and_stays_a_member() -> None:
    bench = reading(0)
    bench.pull_of(FIRST).answer(pulled(PullStatus.NO_NEW_MSG, 0))
    bench.core.pause(is_paused=True)
    bench.advance(1.0)
    while_paused = bench.has("messages"), bench.has("heartbeat")
    bench.core.pause(is_paused=False)

    assert while_paused == (False, True)
    assert bench.has("messages")


def test_a_listener_that_runs_for_too_long_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    bench = reading(1)
    running = bench.listen()
    bench.advance(1_000.0)
    (head,) = bench.core.blocked()
    bench.succeed(running)

    assert head.reason == "a listener runs for over 900 s"
    assert caplog.text.count("runs for over 900 s") == 1
    assert bench.core.blocked() == []


def test_a_failing_begin_is_asked_again_after_a_second() -> None:
    bench = Desk()
    bench.assign(FIRST)
    bench.one("begin").fail(lost())
    at_once = bench.has("begin")
    bench.advance(1.0)

    assert not at_once
    assert bench.has("begin")


class CommitsTheHighest(ConcurrentDispatch):
    """Wrong on purpose: a finished message takes those before it with it."""

    def settle(
        self, delivery: Delivery, done_count: int, failure: str, now_s: float
    ) -> Delivery | None:
        following = super().settle(delivery, done_count, failure, now_s)
        snapshot: Snapshot = delivery.snapshot
        for message in list(snapshot.unfinished.values()):
            if message.queue_offset < delivery.messages[0].queue_offset:
                snapshot.finish([message])
        return following


class Life:
    """One random life of a consumer: any order of outcomes, losses and returns of its queue."""

    def __init__(self, seed: int, kind: type[ConcurrentDispatch] = ConcurrentDispatch) -> None:
        self.rng = random.Random(seed)
        self.bench = Desk({"consume_batch_max": 3, "retry_delay_ms": 500, "commit_s": 1.0})
        dispatch = self.bench.core._queues.dispatch
        dispatch.__class__ = kind
        self.done: set[int] = set()
        self.sent_back: set[int] = set()
        self.running: list[Delivery] = []
        self.committed = 0
        self.stored = 0
        self.generation = 1
        self.violations: list[str] = []

    def run(self) -> None:
        for _ in range(300):
            self.bench.advance(self.rng.choice((0.0, 0.1, 0.6)))
            self._listen()
            self._finish()
            self._answer()
        # In the end nothing fails and nothing is lost any more.
        for _ in range(2_000):
            if self.committed == self.stored and not self.running:
                return
            self.bench.advance(0.6)
            self._listen()
            self._finish(is_good=True)
            self._answer(is_good=True)
        self.violations.append(f"{self.committed} of {self.stored} after the end")

    def _listen(self) -> None:
        delivery = self.bench.core.next_delivery()
        if delivery is not None and self.bench.core.begin(delivery):
            self.running.append(delivery)

    def _finish(self, *, is_good: bool = False) -> None:
        while self.running and (is_good or self.rng.random() < 0.6):
            delivery = self.running.pop(self.rng.randrange(len(self.running)))
            result = Consumed.SUCCESS if is_good or self.rng.random() < 0.7 else None
            if result is Consumed.SUCCESS and not is_good and self.rng.random() < 0.3:
                delivery.context.ack_index = self.rng.randrange(-1, 3)
            count = delivery.done_count(result)
            self.done.update(item.queue_offset for item in delivery.messages[:count])
            following = self.bench.core.finish(delivery, result, "" if count else "broken")
            if following is not None and self.bench.core.begin(following):
                self.running.append(following)

    def _answer(self, *, is_good: bool = False) -> None:
        self.bench.take()
        requests, self.bench.pending = self.bench.pending, []
        for request in requests:
            if not is_good and self.rng.random() < 0.4:
                self.bench.pending.append(request)
            elif not is_good and self.rng.random() < 0.1:
                request.fail(lost())
            else:
                self._carry_out(request, is_good=is_good)

    def _carry_out(self, request: Any, *, is_good: bool) -> None:
        if request.verb == "heartbeat":
            self.generation += self.rng.random() < 0.2
            is_mine = is_good or self.rng.random() < 0.7
            queues = frozenset({FIRST} if is_mine else ())
            request.answer(
                MemberAnswer(generation=self.generation, queues=queues, heartbeat_ms=10_000)
            )
        elif request.verb == "begin":
            request.answer({FIRST: self.committed})
        elif request.verb == "commit":
            offset = int(request.document["offsets"][0]["offset"])
            if not set(range(offset)) <= self.done:
                self.violations.append(f"{offset} committed, not all below is done")
            self.committed = max(self.committed, offset)
            request.answer()
        elif request.verb == "send-back":
            self._take_back(request, is_good=is_good)
        else:
            start = int(request.query["offset"])
            if not is_good and self.rng.random() < 0.7:
                self.stored += self.rng.randrange(5)
            stop = min(self.stored, start + 8)
            if stop > start:
                request.answer(found(FIRST, range(start, stop)))
            else:
                request.answer(pulled(PullStatus.NO_NEW_MSG, start))

    def _take_back(self, request: Any, *, is_good: bool) -> None:
        offsets = [int(item["offset"]) for item in request.document["messages"]]
        if not is_good and self.rng.random() < 0.2:
            request.fail(ConnectFailed("away"))
            return
        # The broker has it: it is done for the queue, wherever it comes again.
        self.done.update(offsets)
        self.sent_back.update(offsets)
        if not is_good and self.rng.random() < 0.2:
            request.fail(lost())
            return
        request.answer(
            [
                Returned(index=index, status=200, outcome=SentBack.RETRY)
                for index in range(len(offsets))
            ]
        )


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_only_what_is_done_is_committed_and_all_of_it_at_last(seed: int) -> None:
    life = Life(seed)

    life.run()

    assert life.violations == []
    assert life.stored > 20
    assert life.sent_back
    assert life.done == set(range(life.stored))


def test_a_consumer_that_commits_past_unfinished_messages_is_caught() -> None:
    lives = [Life(seed, CommitsTheHighest) for seed in range(20)]

    for life in lives:
        life.run()

    assert sum(bool(life.violations) for life in lives) > 10


def test_a_message_knows_its_place() -> None:
    bench = reading(1)
    (message,) = bench.listen().messages

    assert isinstance(message, Message)
    assert (message.topic, message.queue, message.queue_offset) == ("orders", 0, 0)
