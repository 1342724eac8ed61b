"""Samples: what one reading of the engine becomes, and which rates two readings give."""

import threading
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext

from apps.bridge import engine as bridge
from apps.core.moments import ms_of
from apps.engine.errors import Stopping
from apps.metrics import readings, services
from apps.metrics.models import GroupSample, StoreSample, TopicSample
from apps.metrics.readings import Reading, TopicReading
from tests.web.metrics.conftest import at_once
from tests.web.metrics.fakes import START_MS, HandClock, NumberEngine, topic_sample

pytestmark = pytest.mark.django_db


def newest(model: Any, **filters: str) -> Any:
    """Return the row of the newest slot."""
    return model.objects.filter(**filters).latest("at")


def test_a_sample_sums_the_queues_of_topics_and_groups(
    engine: NumberEngine, clock: HandClock
) -> None:
    engine.offsets = {"orders": [(2, 10), (0, 2**60)], "empty": []}
    engine.progress = {("billing", "orders"): [(4, 7, 10), (1, 1, 5)]}
    engine.log_start, engine.written_offset = 100, 5_100
    clock.now_ms += 3_400

    step = services.sample(clock=clock)

    assert (step.done, step.more) == (4, False)
    topic = TopicSample.objects.get(topic="orders")
    assert (topic.sent, topic.held) == (2**60 + 10, 2**60 + 8)
    assert (topic.held_min, topic.held_max) == (topic.held, topic.held)
    assert TopicSample.objects.get(topic="empty").sent == 0
    group = GroupSample.objects.get()
    assert (group.group, group.topic, group.queue_count) == ("billing", "orders", 2)
    assert (group.committed, group.delivered, group.in_flight, group.lag) == (5, 8, 3, 10)
    store = StoreSample.objects.get()
    assert (store.sent, store.held, store.lag) == (topic.sent, topic.held, 10)
    assert (store.committed, store.delivered, store.in_flight) == (5, 8, 3)
    assert store.log_bytes == 5_000
    assert (ms_of(store.at), ms_of(store.taken_at)) == (START_MS, START_MS + 3_400)
    assert {row.at for row in TopicSample.objects.all()} == {store.at} == {group.at}
    assert {store.samples, topic.samples, group.samples} == {1}


def test_the_first_sample_has_no_rate(engine: NumberEngine, clock: HandClock) -> None:
    engine.offsets = {"orders": [(0, 10)]}
    engine.progress = {("billing", "orders"): [(4, 4, 10)]}

    services.sample(clock=clock)

    assert TopicSample.objects.get().send_rate is None
    assert TopicSample.objects.get().send_rate_samples == 0
    assert GroupSample.objects.get().consume_rate is None
    store = StoreSample.objects.get()
    assert (store.send_rate, store.consume_rate) == (None, None)
    assert (store.send_rate_samples, store.consume_rate_samples) == (0, 0)


def test_a_rate_is_counted_over_the_time_that_really_passed(
    engine: NumberEngine, clock: HandClock
) -> None:
    engine.offsets = {"orders": [(0, 10), (0, 0)]}
    engine.progress = {("billing", "orders"): [(4, 4, 10)]}
    clock.now_ms = START_MS + 4_000
    services.sample(clock=clock)
    engine.offsets = {"orders": [(0, 20), (0, 5)]}
    engine.progress = {("billing", "orders"): [(10, 10, 10)]}
    # The next slot but one, 7.5 s later.
    clock.now_ms = START_MS + 11_500

    services.sample(clock=clock)

    topic, group, store = newest(TopicSample), newest(GroupSample), newest(StoreSample)
    assert (topic.send_rate, topic.send_rate_min, topic.send_rate_max) == (2.0, 2.0, 2.0)
    assert (group.consume_rate, group.consume_rate_samples) == (0.8, 1)
    assert (store.send_rate, store.consume_rate, store.send_rate_samples) == (2.0, 0.8, 1)


def test_a_counter_that_stands_still_has_the_rate_zero(
    engine: NumberEngine, clock: HandClock
) -> None:
    engine.offsets = {"orders": [(0, 10)]}
    for _ in range(2):
        services.sample(clock=clock)
        clock.now_ms += 5_000

    assert newest(TopicSample).send_rate == 0.0


def test_a_counter_that_fell_has_no_rate_and_the_others_have_theirs(
    engine: NumberEngine, clock: HandClock
) -> None:
    engine.offsets = {"anew": [(0, 10)], "steady": [(0, 10)]}
    engine.progress = {("reset", "steady"): [(9, 9, 10)], ("billing", "steady"): [(0, 0, 10)]}
    services.sample(clock=clock)
    engine.offsets = {"anew": [(0, 3)], "steady": [(0, 15)], "new": [(0, 1_000)]}
    engine.progress = {("reset", "steady"): [(0, 0, 15)], ("billing", "steady"): [(10, 10, 15)]}
    clock.now_ms += 5_000

    services.sample(clock=clock)

    assert newest(TopicSample, topic="anew").send_rate is None
    assert newest(TopicSample, topic="new").send_rate is None
    assert newest(TopicSample, topic="steady").send_rate == 1.0
    assert newest(GroupSample, group="reset").consume_rate is None
    assert newest(GroupSample, group="billing").consume_rate == 2.0
    assert (newest(StoreSample).send_rate, newest(StoreSample).consume_rate) == (1.0, 2.0)


def test_a_group_that_comes_to_a_further_queue_has_no_rate_of_its_old_offsets(
    engine: NumberEngine, clock: HandClock
) -> None:
    engine.progress = {("billing", "orders"): [(10, 10, 10)]}
    services.sample(clock=clock)
    engine.progress = {("billing", "orders"): [(10, 10, 10), (1_000_000, 1_000_000, 1_000_000)]}
    clock.now_ms += 5_000
    services.sample(clock=clock)
    assert newest(GroupSample).consume_rate is None
    engine.progress = {("billing", "orders"): [(15, 15, 15), (1_000_005, 1_000_005, 1_000_005)]}
    clock.now_ms += 5_000

    services.sample(clock=clock)

    assert newest(GroupSample).consume_rate == 2.0


@pytest.mark.parametrize(("pause_ms", "rate"), [(60_000, 1.0), (60_001, None), (3_600_000, None)])
def test_after_a_long_pause_there_is_no_rate(
    engine: NumberEngine, clock: HandClock, pause_ms: int, rate: float | None
) -> None:
    engine.offsets = {"orders": [(0, 0)]}
    services.sample(clock=clock)
    engine.offsets = {"orders": [(0, pause_ms // 1000)]}
    clock.now_ms += pause_ms

    services.sample(clock=clock)

    assert newest(TopicSample).send_rate == rate


def test_a_wall_clock_that_goes_back_makes_no_rate(engine: NumberEngine, clock: HandClock) -> None:
    engine.offsets = {"orders": [(0, 0)]}
    services.sample(clock=clock)
    engine.offsets = {"orders": [(0, 100)]}
    clock.now_ms -= 5_000

    services.sample(clock=clock)

    assert list(TopicSample.objects.values_list("send_rate", flat=True)) == [None, None]


@pytest.mark.parametrize("later_ms", [0, -1_000])
def test_readings_that_do_not_follow_each_other_make_no_rate(later_ms: int) -> None:
    before = Reading(taken_ms=START_MS, topics={"orders": TopicReading(sent=1)})
    now = Reading(taken_ms=START_MS + later_ms, topics={"orders": TopicReading(sent=2)})

    assert readings.send_rates(now, before) == {"orders": None}


def test_without_a_group_the_lag_is_unknown_and_without_a_topic_nothing_is_held(
    engine: NumberEngine, clock: HandClock
) -> None:
    services.sample(clock=clock)

    store = StoreSample.objects.get()
    assert (store.lag, store.held, store.send_rate) == (None, 0, None)


def test_topics_of_the_product_itself_are_left_out(engine: NumberEngine, clock: HandClock) -> None:
    engine.offsets = {"rmq_sys_consumer_state": [(0, 99)], "orders": [(0, 1)]}
    engine.progress = {("g", "rmq_sys_consumer_state"): [(1, 1, 99)], ("g", "orders"): [(0, 0, 1)]}

    services.sample(clock=clock)

    assert TopicSample.objects.get().topic == "orders"
    assert GroupSample.objects.get().topic == "orders"
    assert StoreSample.objects.get().sent == 1


def test_a_second_run_of_a_slot_writes_nothing(engine: NumberEngine, clock: HandClock) -> None:
    engine.offsets = {"orders": [(0, 1)]}
    services.sample(clock=clock)
    before = list(TopicSample.objects.values()) + list(StoreSample.objects.values())
    engine.offsets = {"orders": [(0, 2)], "later": [(0, 1)]}
    clock.now_ms += 4_999

    step = services.sample(clock=clock)

    assert (step.done, step.more) == (0, False)
    assert list(TopicSample.objects.values()) + list(StoreSample.objects.values()) == before


@pytest.mark.django_db(transaction=True)
def test_two_runs_of_a_slot_at_once_write_one_set_of_rows(
    engine: NumberEngine, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.offsets = {f"topic{number}": [(0, number)] for number in range(50)}
    engine.progress = {(f"g{number}", "topic1"): [(0, 0, 1)] for number in range(50)}
    both_have_asked = threading.Barrier(2)
    status = engine.status

    def status_when_both_ask() -> Any:
        both_have_asked.wait(timeout=60)
        return status()

    monkeypatch.setattr(engine, "status", status_when_both_ask)

    steps = at_once(lambda: services.sample(clock=clock))

    assert sorted(step.done for step in steps) == [0, 101]
    assert TopicSample.objects.count() == 50
    assert GroupSample.objects.count() == 50
    assert StoreSample.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_run_that_fails_half_way_leaves_the_slot_to_the_next(
    engine: NumberEngine, clock: HandClock
) -> None:
    engine.offsets = {"orders": [(0, 1)]}
    topic_sample(START_MS, "orders").save()
    with pytest.raises(IntegrityError):
        services.sample(clock=clock)
    assert StoreSample.objects.count() == 0
    TopicSample.objects.all().delete()

    assert services.sample(clock=clock).done == 2


def test_without_an_engine_nothing_is_written(clock: HandClock) -> None:
    bridge.remove()

    with pytest.raises(Stopping):
        services.sample(clock=clock)

    assert StoreSample.objects.count() == 0


def test_a_thousand_topics_and_groups_take_a_handful_of_statements(
    engine: NumberEngine, clock: HandClock
) -> None:
    engine.offsets = {f"topic{number}": [(0, 9)] * 4 for number in range(1_000)}
    engine.progress = {(f"g{number}", f"topic{number}"): [(1, 2, 9)] for number in range(1_000)}
    services.sample(clock=clock)
    clock.now_ms += 5_000

    with CaptureQueriesContext(connection) as queries:
        step = services.sample(clock=clock)

    assert step.done == 2_001
    rows = [query for query in queries.captured_queries if "SAVEPOINT" not in query["sql"]]
    assert len(rows) <= 16
