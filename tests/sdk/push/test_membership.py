"""Heartbeats: when the next one goes, and what an answer means."""

import json

import pytest
from mqclient.consuming.membership import MemberIdentity, Membership
from mqclient.errors import ConnectionLost, NotPermitted
from mqclient.values import BlockedHead, MemberAnswer, Sql, Subscription, TopicQueue

from tests.sdk.push.doubles import CALLS, FIRST, SECOND, ManualClock


class Bench:
    """A membership, and the assignments it told its owner."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.assigned: list[frozenset[TopicQueue]] = []
        self.blocked: list[BlockedHead] = []
        self.member = Membership(
            MemberIdentity(group="g", client_id="me", ordered=True, site="room1"),
            CALLS,
            clock=self.clock,
            on_assigned=self.assigned.append,
            blocked=lambda: self.blocked,
        )
        self.member.subscribe([Subscription(topic="orders", filter=Sql("a = 'b'"))])

    def beat(self) -> dict[str, object]:
        document: dict[str, object] = json.loads(self.member.begin(self.clock.now_s).buffers[1])
        return document

    def answer(self, generation: int, *places: TopicQueue) -> None:
        answer = MemberAnswer(generation=generation, queues=frozenset(places), heartbeat_ms=10_000)
        self.member.done(answer, None, self.clock.now_s)

    @property
    def due_in_s(self) -> float | None:
        moment_s = self.member.next_s()
        return None if moment_s is None else moment_s - self.clock.now_s


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_who_wants_nothing_any_more_does_not_hurry_back(bench: Bench) -> None:
    bench.beat()
    bench.answer(5, FIRST)
    bench.member.subscribe([])

    bench.member.hurry()

    assert bench.due_in_s is None


def test_the_first_heartbeat_is_not_held_and_the_next_ones_wait_for_news(bench: Bench) -> None:
    first = bench.beat()
    bench.answer(5, FIRST)
    second = bench.beat()

    assert (first["generation"], first["wait_ms"]) == (0, 0)
    assert (second["generation"], second["wait_ms"]) == (5, 10_000)


def test_a_heartbeat_says_what_the_member_wants_and_what_is_stuck(bench: Bench) -> None:
    bench.blocked = [
        BlockedHead(topic="orders", queue=1, queue_offset=2**53, attempts=4, reason="no stock")
    ]

    document = bench.beat()

    assert document["subscriptions"] == [
        {"topic": "orders", "filter": "a = 'b'", "filter_type": "SQL92"}
    ]
    assert (document["ordered"], document["site"]) == (True, "room1")
    assert document["blocked"] == [
        {
            "topic": "orders", "queue": 1, "offset": str(2**53), "attempts": 4,
            "reason": "no stock",
        }
    ]  # fmt: skip


def test_an_assignment_is_told_once_and_the_next_heartbeat_goes_at_once(bench: Bench) -> None:
    bench.beat()
    bench.answer(5, FIRST)
    due_in_s = bench.due_in_s
    bench.beat()
    bench.clock.now_s += 10
    bench.answer(5, FIRST)
    bench.beat()
    bench.answer(6, FIRST, SECOND)

    assert due_in_s == 0.0
    assert bench.assigned == [frozenset({FIRST}), frozenset({FIRST, SECOND})]


def test_a_broker_that_does_not_hold_heartbeats_is_not_asked_in_a_tight_loop(bench: Bench) -> None:
    bench.beat()
    bench.answer(5, FIRST)
    bench.beat()
    bench.answer(5, FIRST)

    assert bench.due_in_s == pytest.approx(0.5)


def test_the_assignment_is_kept_while_the_broker_is_away(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.beat()
    bench.answer(5, FIRST)
    for _ in range(20):
        bench.beat()
        bench.member.done(None, ConnectionLost("gone"), bench.clock.now_s)
        assert bench.due_in_s is not None
        assert 0 < bench.due_in_s <= 2.0
        bench.clock.now_s += bench.due_in_s

    assert bench.member.queues == {FIRST}
    assert isinstance(bench.member.failure, ConnectionLost)
    assert caplog.text.count("trying on") == 1


def test_a_refusal_is_told_and_tried_again(bench: Bench) -> None:
    bench.beat()
    bench.member.done(None, NotPermitted("disabled"), bench.clock.now_s)
    refused, due_in_s = bench.member.failure, bench.due_in_s
    bench.beat()
    bench.answer(5, FIRST)

    assert isinstance(refused, NotPermitted)
    assert due_in_s == pytest.approx(2.0)
    assert bench.member.failure is None


def test_a_broker_with_another_store_is_believed(bench: Bench) -> None:
    bench.beat()
    bench.answer(500, FIRST)
    bench.beat()
    bench.answer(3, SECOND)

    assert bench.member.generation == 3
    assert bench.assigned[-1] == {SECOND}


def test_a_member_in_a_hurry_overtakes_a_heartbeat_that_is_held(bench: Bench) -> None:
    bench.beat()
    bench.answer(5, FIRST)
    bench.beat()
    while_held = bench.due_in_s
    bench.member.hurry()
    hurried = bench.beat()

    assert while_held is None
    assert hurried["wait_ms"] == 0


def test_who_wants_nothing_more_sends_no_heartbeats(bench: Bench) -> None:
    bench.beat()
    bench.member.subscribe([])
    bench.answer(5, FIRST)

    assert bench.due_in_s is None
    assert bench.assigned == []
