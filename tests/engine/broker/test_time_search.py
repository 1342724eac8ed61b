"""The first message stored at or after a time, and how little of the disk it takes to find it."""

from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from apps.engine.broker.timesearch import StoreTimes
from apps.engine.codec.layout import JOURNAL_TOPIC
from apps.engine.derived.consumequeue import ColdRead
from tests.engine.broker.brokerbench import BrokerBench


def sent(pauses: Sequence[tuple[int, int]]) -> tuple[BrokerBench, list[int]]:
    """Send so many messages after so much time each; return when each was stored."""
    bench = BrokerBench()
    times = []
    for pause_ms, count in pauses:
        bench.clock.advance(pause_ms)
        bench.send(count)
        times += [bench.clock.wall_ms()] * count
    return bench, times


def first_since(bench: BrokerBench, time_ms: int) -> int:
    return bench.broker.times.first_since(
        bench.broker.queues.queue("orders", 0), time_ms, wait=True
    )


def test_an_empty_queue_has_its_end_for_every_time() -> None:
    bench = BrokerBench()

    assert first_since(bench, 0) == 0
    assert first_since(bench, 1 << 60) == 0


def test_of_messages_stored_together_the_first_is_found() -> None:
    bench, times = sent([(0, 5), (1_000, 5), (1_000, 5)])

    assert first_since(bench, times[5]) == 5
    assert first_since(bench, times[5] + 1) == 10
    assert first_since(bench, times[5] - 1) == 5
    assert first_since(bench, times[-1] + 1) == 15


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 30)), min_size=1, max_size=8),
    st.integers(-2, 45),
)
def test_the_search_agrees_with_looking_at_every_message(
    pauses: list[tuple[int, int]], after_ms: int
) -> None:
    bench, times = sent(pauses)
    wanted_ms = times[0] + after_ms

    expected = next((at for at, time_ms in enumerate(times) if time_ms >= wanted_ms), len(times))
    assert first_since(bench, wanted_ms) == expected


def test_a_wall_clock_set_back_leaves_the_queue_searchable() -> None:
    bench, times = sent([(0, 5)])
    bench.clock.set_wall(times[0] - 3_600_000)
    bench.send(5)
    bench.clock.set_wall(times[0] + 1_000)
    bench.send(5)

    assert first_since(bench, times[0] - 1_000) == 0
    assert first_since(bench, times[0] + 1) == 10


def test_what_readers_may_not_see_yet_is_not_found() -> None:
    bench, _ = sent([(0, 5)])
    bench.sync = lambda: None  # type: ignore[method-assign]
    bench.clock.advance(10)
    bench.send(5)

    assert first_since(bench, bench.clock.wall_ms()) == 5


def test_a_search_is_as_many_looks_as_the_queue_can_be_halved() -> None:
    bench, times = sent([(1, 100)] * 10)
    looks = 0
    read = bench.broker.log.read_records

    def counted(*what: object, **how: object) -> memoryview:
        nonlocal looks
        looks += 1
        return read(*what, **how)  # type: ignore[arg-type]

    bench.broker.log.read_records = counted  # type: ignore[method-assign,assignment]
    first_since(bench, times[500])
    first = looks
    first_since(bench, times[500])

    assert first <= 10
    assert looks == first


def test_a_cold_search_warms_up_look_by_look_and_never_waits() -> None:
    bench, times = sent([(1, 20)] * 20)
    bench.restart()
    bench.disk.make_cold()
    queue = bench.broker.queues.queue("orders", 0)
    tries = 0
    found = None
    while found is None:
        try:
            found = bench.broker.times.first_since(queue, times[333], wait=False)
        except ColdRead as cold:
            tries += 1
            cold.warm()

    assert found == 320
    assert 1 <= tries <= 20


def test_times_asked_for_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.engine.broker.timesearch._REMEMBERED", 2)
    bench, times = sent([(1, 1)] * 4)
    queue = bench.broker.queues.queue("orders", 0)
    store_times = StoreTimes(bench.broker.log)

    found = [store_times.of(queue, at, wait=True) for at in (0, 1, 0, 2, 3, 0, 1)]

    assert found == [times[at] for at in (0, 1, 0, 2, 3, 0, 1)]


def test_the_journal_can_be_searched_too() -> None:
    bench, _ = sent([(0, 3)])
    bench.commit(1)
    bench.clock.advance(5)
    since_ms = bench.clock.wall_ms()
    bench.commit(2)
    bench.sync()

    journal = bench.broker.queues.queue(JOURNAL_TOPIC, 0)
    assert bench.broker.times.first_since(journal, since_ms, wait=True) == 1
