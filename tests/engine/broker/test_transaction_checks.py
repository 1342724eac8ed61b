"""Check-backs: when producers are asked about half messages, how often, and what comes after."""

from dataclasses import replace

import pytest

from apps.engine.broker.transactionschedule import CheckSchedule
from apps.engine.broker.transactionstate import Half
from apps.engine.codec.layout import GIVEN_UP_TOPIC
from apps.engine.codec.record import decode_record
from apps.engine.errors import InvalidArgument, InvalidName, TransactionDecided
from apps.engine.transactiontypes import Begun, Check, Outcome
from tests.engine.broker.sendbench import CONFIG, SendBench, batch_of, record

IMMUNITY_MS, CHECK_MS, CHECKS_MAX = 6_000, 60_000, 3


@pytest.fixture
def bench() -> SendBench:
    return SendBench(replace(CONFIG, transaction_checks_max=CHECKS_MAX))


def begin(bench: SendBench, body: bytes = b"half", *, group: str = "g", after: int | None = None,
          topic: str = "t", queue: int = 0) -> Begun:  # fmt: skip
    """Begin a transaction whose first check is due `after` ms."""
    return bench.broker.transactions.begin(
        batch_of([record(topic, queue, body, TAGS="a", KEYS="k", UNIQ_KEY="id")], topic, queue),
        producer_group=group,
        check_immunity_ms=after,
    )


def checked(
    bench: SendBench, client_id: str = "c", group: str = "g", most: int = 32
) -> list[Check]:
    return bench.broker.checks.receive(group, client_id=client_id, checks_max=most, wait=True)


def give_up(bench: SendBench, most: int = 100) -> int:
    checks = bench.broker.checks
    return sum(checks.give_up(half, wait=True) for half in checks.over(most))


def ids(checks: list[Check]) -> list[str]:
    return [check.transaction_id for check in checks]


def test_a_half_message_is_first_checked_when_its_immunity_is_over(bench: SendBench) -> None:
    begun = begin(bench)
    bench.clock.advance(IMMUNITY_MS - 1)
    too_early = checked(bench)
    bench.clock.advance(1)

    (check,) = checked(bench)

    assert too_early == []
    assert (check.transaction_id, check.number) == (begun.transaction_id, 1)
    assert check.checks_max == CHECKS_MAX


def test_a_transaction_may_have_an_immunity_of_its_own(bench: SendBench) -> None:
    late, at_once = begin(bench, after=9_000), begin(bench, after=0)

    assert ids(checked(bench)) == [at_once.transaction_id]
    bench.clock.advance(8_999)
    assert checked(bench) == []
    bench.clock.advance(1)
    assert ids(checked(bench)) == [late.transaction_id]


def test_a_check_shows_the_message_as_its_producer_sent_it(bench: SendBench) -> None:
    begun = begin(bench, b"body", queue=1, after=0)

    (check,) = checked(bench)

    found = decode_record(check.block.payload)
    assert (check.block.topic, check.block.queue, len(check.block)) == ("t", 1, 1)
    assert (found.topic, found.queue, found.body, found.is_intact) == ("t", 1, b"body", True)
    assert found.store_time_ms == begun.store_time_ms
    assert found.properties["__transactionId__"] == begun.transaction_id
    assert found.properties["UNIQ_KEY"] == "id"
    assert not {"REAL_TOPIC", "REAL_QID"} & set(found.properties)


def test_the_next_check_comes_an_interval_after_the_last_to_any_client(bench: SendBench) -> None:
    begin(bench, after=0)
    checked(bench, "a")
    bench.clock.advance(CHECK_MS - 1)
    too_early = checked(bench, "b")
    bench.clock.advance(1)

    (second,) = checked(bench, "b")

    assert too_early == []
    assert second.number == 2


def test_each_check_goes_to_one_client_and_to_its_own_group(bench: SendBench) -> None:
    mine = [begin(bench, after=0).transaction_id for _ in range(3)]
    other = begin(bench, group="h", after=0).transaction_id

    first, second = ids(checked(bench, "a", most=2)), ids(checked(bench, "b"))

    assert first + second == mine
    assert ids(checked(bench, group="h")) == [other]
    assert checked(bench, group="nobody") == []


def test_a_transaction_is_asked_about_no_more_once_it_is_decided(bench: SendBench) -> None:
    begun = begin(bench, after=0)
    bench.broker.transactions.end(begun.transaction_id, Outcome.ROLLED_BACK, wait=True)

    assert checked(bench) == []
    assert bench.broker.checks.next_due_ms() is None


def test_a_half_message_nobody_decides_is_given_up_after_its_last_check(bench: SendBench) -> None:
    begun = begin(bench, b"lost", after=0)
    numbers = []
    for _ in range(CHECKS_MAX):
        numbers += [check.number for check in checked(bench)]
        assert give_up(bench) == 0
        bench.clock.advance(CHECK_MS)

    assert checked(bench) == []
    assert give_up(bench) == 1

    assert numbers == [1, 2, 3]
    (found,) = bench.read(GIVEN_UP_TOPIC)
    assert (found.body, found.properties["REAL_TOPIC"]) == (b"lost", "t")
    assert bench.bodies() == []
    assert give_up(bench) == 0
    for outcome in (Outcome.COMMITTED, Outcome.ROLLED_BACK):
        with pytest.raises(TransactionDecided, match="given up"):
            bench.broker.transactions.end(begun.transaction_id, outcome, wait=True)


def test_the_last_check_may_still_be_answered(bench: SendBench) -> None:
    begun = begin(bench, b"saved", after=0)
    for _ in range(CHECKS_MAX):
        checked(bench)
        bench.clock.advance(CHECK_MS)

    bench.broker.transactions.end(begun.transaction_id, Outcome.COMMITTED, wait=True)

    assert give_up(bench) == 0
    assert bench.bodies() == [b"saved"]


def test_a_half_message_nobody_is_asked_about_is_given_up_when_it_is_too_old(
    bench: SendBench,
) -> None:
    begin(bench, b"old")
    bench.clock.advance(bench.config.transaction_ms_max - 1)
    begin(bench, b"young")
    assert give_up(bench) == 0
    bench.clock.advance(1)

    assert give_up(bench) == 1

    assert bench.bodies(GIVEN_UP_TOPIC) == [b"old"]


def test_giving_up_is_a_bounded_step(bench: SendBench) -> None:
    for number in range(5):
        begin(bench, b"%d" % number)
    bench.clock.advance(bench.config.transaction_ms_max)

    assert [give_up(bench, 2) for _ in range(4)] == [2, 2, 1, 0]
    assert bench.bodies(GIVEN_UP_TOPIC) == [b"0", b"1", b"2", b"3", b"4"]


def test_what_was_decided_meanwhile_is_not_given_up(bench: SendBench) -> None:
    begun = begin(bench, b"kept")
    bench.clock.advance(bench.config.transaction_ms_max)
    (half,) = bench.broker.checks.over(10)
    bench.broker.transactions.end(begun.transaction_id, Outcome.COMMITTED, wait=True)

    assert not bench.broker.checks.give_up(half, wait=True)
    assert bench.bodies(GIVEN_UP_TOPIC) == []


def test_an_operator_has_the_producers_asked_at_once(bench: SendBench) -> None:
    begun = begin(bench)

    row = bench.broker.checks.check_now(begun.transaction_id)
    again = bench.broker.checks.check_now(begun.transaction_id)

    assert row is not None
    assert again is not None
    assert row.next_check_ms == bench.clock.wall_ms()
    assert ids(checked(bench)) == [begun.transaction_id]
    assert checked(bench) == []


def test_check_now_knows_only_what_is_pending(bench: SendBench) -> None:
    begun = begin(bench)
    bench.broker.transactions.end(begun.transaction_id, Outcome.COMMITTED, wait=True)

    assert bench.broker.checks.check_now(begun.transaction_id) is None
    assert bench.broker.checks.check_now("no id") is None


def test_a_half_message_that_had_its_last_check_is_not_checked_again(bench: SendBench) -> None:
    begun = begin(bench, after=0)
    for _ in range(CHECKS_MAX):
        checked(bench)
        bench.clock.advance(CHECK_MS)

    row = bench.broker.checks.check_now(begun.transaction_id)

    assert row is not None
    assert row.next_check_ms is None
    assert checked(bench) == []


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_checks_go_on_after_a_restart_where_they_were(
    bench: SendBench, has_checkpoint: bool
) -> None:
    begin(bench, b"first", after=0)
    second = begin(bench, b"second")
    checked(bench)
    bench.clock.advance(1_000)
    if has_checkpoint:
        bench.broker.checkpoint()
    bench.kill_and_open()

    bench.clock.advance(IMMUNITY_MS - 1_001)
    assert checked(bench) == []
    bench.clock.advance(1)
    assert ids(checked(bench)) == [second.transaction_id]
    bench.clock.advance(CHECK_MS - IMMUNITY_MS)
    (check,) = checked(bench)
    assert check.number == 2


def test_a_wall_clock_that_jumps_changes_nothing_while_the_store_is_open(bench: SendBench) -> None:
    begin(bench)
    bench.clock.set_wall(bench.clock.wall_ms() + 3_600_000)
    assert checked(bench) == []
    bench.clock.set_wall(bench.clock.wall_ms() - 7_200_000)
    bench.clock.advance(IMMUNITY_MS - 1)
    assert checked(bench) == []
    bench.clock.advance(1)

    assert len(checked(bench)) == 1


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_wall_clock_set_back_while_the_store_was_closed_makes_nobody_asked_early(
    bench: SendBench, has_checkpoint: bool
) -> None:
    begin(bench)
    bench.clock.advance(2_000)
    if has_checkpoint:
        bench.broker.checkpoint()
    bench.clock.set_wall(bench.clock.wall_ms() - 3_600_000)
    bench.kill_and_open()

    bench.clock.advance(IMMUNITY_MS - 1)
    assert checked(bench) == []
    bench.clock.advance(1)
    assert len(checked(bench)) == 1


def test_a_request_that_is_none_is_refused(bench: SendBench) -> None:
    def ask(group: str = "g", client_id: str = "c", most: int = 1, wait_ms: int = 0) -> None:
        bench.broker.checks.check_request(
            group, client_id=client_id, checks_max=most, wait_ms=wait_ms
        )

    ask()
    with pytest.raises(InvalidName):
        ask("no group")
    for wrong in ({"client_id": ""}, {"client_id": "\x00"}, {"client_id": "x" * 256}):
        with pytest.raises(InvalidArgument):
            ask(**wrong)
    for amount in (0, 1_001):
        with pytest.raises(InvalidArgument):
            ask(most=amount)
        with pytest.raises(InvalidArgument):
            bench.broker.checks.over(amount)
        with pytest.raises(InvalidArgument):
            bench.broker.checks.pending(None, -1, amount)
    for wait_ms in (-1, 30_001):
        with pytest.raises(InvalidArgument):
            ask(wait_ms=wait_ms)


def test_operators_see_what_is_pending_with_age_and_checks(bench: SendBench) -> None:
    first = begin(bench, b"body", queue=1, after=0)
    other = begin(bench, group="h", topic="u")
    checked(bench, "alice")
    bench.clock.advance(1_000)
    now_ms = bench.clock.wall_ms()
    checks = bench.broker.checks

    rows = [checks.row(half, wait=True) for half in checks.pending(None, -1, 10)]

    assert [row.transaction_id for row in rows] == [first.transaction_id, other.transaction_id]
    row = rows[0]
    assert (row.topic, row.queue, row.message_id, row.producer_group) == ("t", 1, "id", "g")
    assert (row.tag, row.keys, row.checks, row.last_client_id) == ("a", "k", 1, "alice")
    assert (row.begun_ms, row.last_check_ms) == (now_ms - 1_000, now_ms - 1_000)
    assert row.next_check_ms == now_ms + CHECK_MS - 1_000
    assert (row.producers, rows[1].producers) == (1, 0)
    assert (rows[1].last_check_ms, rows[1].next_check_ms) == (None, now_ms + IMMUNITY_MS - 1_000)
    assert [half.half_offset for half in checks.pending("h", -1, 10)] == [other.half_offset]
    assert [half.half_offset for half in checks.pending(None, 0, 10)] == [other.half_offset]
    assert len(checks.pending(None, -1, 1)) == 1


def test_the_counters_count(bench: SendBench) -> None:
    kept, dropped = begin(bench), begin(bench)
    bench.clock.advance(1_000)
    old = begin(bench, after=0)
    checked(bench)
    bench.broker.transactions.end(kept.transaction_id, Outcome.COMMITTED, wait=True)
    bench.broker.transactions.end(kept.transaction_id, Outcome.COMMITTED, wait=True)
    bench.broker.transactions.end(dropped.transaction_id, Outcome.ROLLED_BACK, wait=True)

    status = bench.broker.checks.status()

    assert (status.pending, status.begun, status.committed, status.rolled_back) == (1, 3, 1, 1)
    assert (status.checks, status.given_up) == (1, 0)
    assert status.oldest_begun_ms == old.store_time_ms
    bench.clock.advance(bench.config.transaction_ms_max)
    give_up(bench)
    assert (bench.broker.checks.status().given_up, bench.broker.checks.status().pending) == (1, 0)


def test_a_producer_counts_for_half_a_minute_after_it_asked(bench: SendBench) -> None:
    producers = bench.broker.checks.producers
    checked(bench, "a")
    with producers.waiting("g", "b"), producers.waiting("g", "b"):
        bench.clock.advance(30_000)
        assert producers.count("g") == 2
        assert producers.waiting_groups == {"g"}
        bench.clock.advance(1)
        assert producers.count("g") == 1
    assert producers.waiting_groups == set()
    assert producers.count("g") == 1
    bench.clock.advance(30_001)
    assert producers.count("g") == 0


def test_a_schedule_does_not_grow_with_what_was_ended() -> None:
    schedule = CheckSchedule([], config=CONFIG)
    for number in range(10_000):
        schedule.plan(half(number))
        if number:
            schedule.forget(number)

    (group,) = schedule._groups.values()
    assert len(group.heap) < 100
    assert schedule.due("g", 10**9, 5) == [0]
    schedule.forget(0)
    assert schedule._groups == {}
    assert schedule.next_ms(["g"]) is None


def test_one_planned_for_the_same_moment_again_is_due_once() -> None:
    schedule = CheckSchedule([], config=CONFIG)
    one = half(1)
    schedule.plan(one)
    one.checks, one.checked_at_ms = 1, 5
    schedule.plan(one)
    one.checks, one.checked_at_ms = 0, 0
    schedule.plan(one)

    assert schedule.due("g", 10**9, 5) == [1]
    assert schedule.due("g", 10**9, 5) == [1]


def half(number: int) -> Half:
    return Half(
        half_offset=number,
        epoch=1,
        producer_group="g",
        immunity_ms=1_000,
        begun_ms=0,
        begun_at_ms=0,
    )
