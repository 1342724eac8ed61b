"""Refusals are gathered by minute: who was refused, on whose behalf, and never a line for each."""

from apps.engine.broker.lockrefusals import MINUTES_KEPT, LockRefusals
from apps.engine.testing.manualclock import ManualClock
from tests.engine.broker.lockbench import GROUP, LockBench, place

MINUTE_MS = 60_000


def told(refused: LockRefusals, since_ms: int = 0) -> list[tuple[int, str, int]]:
    return [(one.minute_ms, one.client_id, one.count) for one in refused.since(since_ms)]


def add(refused: LockRefusals, client_id: str = "b", *, times: int = 1, queue: int = 0) -> None:
    for _ in range(times):
        refused.add("g", "orders", queue, owner="a", client_id=client_id)


def test_thousands_of_refusals_are_one_count_and_nothing_in_the_journal() -> None:
    bench = LockBench()
    bench.acquire("a", 0)
    written = len(bench.journal)

    for _ in range(5_000):
        bench.locks.acquire(GROUP, "b", [place(0)])

    (found,) = bench.locks.refused.since(0)
    assert (found.owner, found.client_id, found.count) == ("a", "b", 5_000)
    assert len(bench.journal) == written


def test_each_minute_has_its_own_count() -> None:
    clock = ManualClock()
    refused = LockRefusals(clock)
    begin = clock.wall_ms() - clock.wall_ms() % MINUTE_MS
    clock.advance(MINUTE_MS - clock.wall_ms() % MINUTE_MS)

    add(refused, times=2)
    clock.advance(MINUTE_MS)
    add(refused, times=3)

    assert told(refused) == [(begin + MINUTE_MS, "b", 2), (begin + 2 * MINUTE_MS, "b", 3)]
    assert told(refused, begin + 2 * MINUTE_MS) == [(begin + 2 * MINUTE_MS, "b", 3)]


def test_an_hour_is_kept() -> None:
    clock = ManualClock()
    refused = LockRefusals(clock)

    for _ in range(MINUTES_KEPT + 5):
        add(refused)
        clock.advance(MINUTE_MS)

    assert len(told(refused)) == MINUTES_KEPT
    assert refused.total("g", "orders", 0) == MINUTES_KEPT + 5


def test_too_many_clients_of_a_minute_are_counted_together_and_none_is_lost() -> None:
    refused = LockRefusals(ManualClock(), keys_max=3)

    for number in range(10):
        add(refused, f"c{number}")
    add(refused, "c0")

    assert [(client_id, count) for _, client_id, count in told(refused)] == [
        ("c0", 2), ("c1", 1), ("c2", 1), ("", 7),
    ]  # fmt: skip


def test_room_comes_back_with_the_next_minute_and_the_oldest_goes() -> None:
    clock = ManualClock()
    refused = LockRefusals(clock, keys_max=3)
    for number in range(5):
        add(refused, f"c{number}")

    clock.advance(MINUTE_MS)
    add(refused, "later")

    assert [client_id for _, client_id, _ in told(refused)] == ["later"]


def test_totals_of_queues_that_are_gone_are_forgotten() -> None:
    refused = LockRefusals(ManualClock())
    add(refused, queue=0)
    add(refused, queue=1)

    refused.forget(lambda _topic, queue: queue == 1)

    assert [refused.total("g", "orders", queue) for queue in (0, 1)] == [0, 1]
