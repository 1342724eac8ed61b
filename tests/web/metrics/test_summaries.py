"""What a sample sees besides offsets, and the rows that lists and rules read."""

from dataclasses import replace
from typing import Any

import pytest

from apps.core.moments import moment, ms_of
from apps.engine.grouptypes import MemberState, QueueBacklog, Subscription
from apps.engine.types import MessageModel, QueueRange, TopicType
from apps.groups.models import ConsumerGroup
from apps.metrics import looks, rollups, services
from apps.metrics.models import GroupSample, GroupSummary, StoreSample, TopicSummary
from apps.metrics.resolutions import FINE, MINUTE
from apps.topics import services as topics
from tests.web.fake_engine import client
from tests.web.group_values import left_in_lites
from tests.web.metrics.conftest import at_once
from tests.web.metrics.fakes import START_MS, HandClock, NumberEngine

pytestmark = pytest.mark.django_db


def left(group: str, topic: str, queue: int = 0, **changes: Any) -> QueueBacklog:
    """Return what a group has left to do in a queue: ten messages, the oldest 40 s old."""
    row = QueueBacklog(
        group=group,
        topic=topic,
        queue=queue,
        committed=0,
        delivered=0,
        max_offset=10,
        in_flight=0,
        oldest_age_ms=40_000,
        stalled_ms=None,
        head_attempts=None,
        owner=None,
        lock_epoch=None,
        lock_expires_in_ms=None,
    )
    return replace(row, **changes)


def member(group: str, client_id: str, *topics: str, ordered: bool = False) -> MemberState:
    return MemberState(
        group=group,
        client_id=client_id,
        subscriptions=tuple(Subscription(topic=topic) for topic in topics),
        model=MessageModel.CLUSTERING,
        ordered=ordered,
        strategy=None,
        site="",
        generation=1,
        joined_ms=0,
        last_seen_ms=0,
        is_waiting=True,
        assignment={},
    )


@pytest.fixture
def busy(engine: NumberEngine) -> NumberEngine:
    """Two groups read orders; billing is behind, blocked in a queue, and reads refunds too."""
    engine.offsets = {"orders": [(0, 10), (0, 10)], "refunds": [(0, 5)]}
    engine.progress = {
        ("billing", "orders"): [(0, 0, 10), (10, 10, 10)],
        ("billing", "refunds"): [(5, 5, 5)],
        ("billing", "%RETRY%billing"): [(0, 0, 2)],
        ("mailing", "orders"): [(10, 10, 10), (10, 10, 10)],
    }
    engine.left_to_do = [
        left("billing", "orders", 0, head_attempts=5, refusals=7),
        left("billing", "orders", 1, committed=10, oldest_age_ms=None),
        left("billing", "refunds", 0, committed=5, max_offset=5, oldest_age_ms=None),
        left("billing", "%RETRY%billing", 0, max_offset=2, oldest_age_ms=90_000),
    ]
    engine.joined = [member("billing", "a", "orders", "refunds", ordered=True)]
    engine.seen = [client("billing", "a", "orders"), client("billing", "b", "orders")]
    engine.dead = {
        "%DLQ%billing": [QueueRange(topic="%DLQ%billing", queue=0, min_offset=1, max_offset=4)]
    }
    engine.disk_bytes, engine.free_bytes = 1_000, 250
    return engine


@pytest.mark.usefixtures("busy")
def test_a_sample_holds_ages_blocked_queues_members_and_refusals(clock: HandClock) -> None:
    services.sample(clock=clock)

    found = {row.topic: row for row in GroupSample.objects.filter(group="billing")}
    orders = found["orders"]
    assert (orders.oldest_age_ms, orders.blocked, orders.members, orders.refusals) == (
        40_000, 1, 2, 7,
    )  # fmt: skip
    assert (found["refunds"].oldest_age_ms, found["refunds"].members) == (0, 1)
    assert (found["%RETRY%billing"].oldest_age_ms, found["%RETRY%billing"].members) == (90_000, 2)
    store = StoreSample.objects.get()
    assert (store.oldest_age_ms, store.blocked, store.members, store.refusals) == (90_000, 1, 2, 7)
    assert store.disk_percent == 75


@pytest.mark.usefixtures("busy")
def test_a_group_has_one_summary_over_all_it_reads(clock: HandClock) -> None:
    services.sample(clock=clock)

    row = GroupSummary.objects.get(name="billing")
    assert (row.lag, row.retry_lag, row.queue_count) == (12, 2, 4)
    assert (row.topics, row.topic_count, row.is_ordered) == (["orders", "refunds"], 2, True)
    assert (row.oldest_age_ms, row.blocked, row.members, row.dead_letters) == (90_000, 1, 2, 3)
    assert (row.consume_rate, row.arrive_rate, row.drain_ms) == (None, None, None)
    assert ms_of(row.sampled_at) == START_MS
    idle = GroupSummary.objects.get(name="mailing")
    assert (idle.lag, idle.oldest_age_ms, idle.drain_ms, idle.members) == (0, 0, 0, 0)


def test_rates_say_when_a_backlog_will_be_gone(busy: NumberEngine, clock: HandClock) -> None:
    services.sample(clock=clock)
    clock.now_ms += 5_000
    busy.progress["billing", "orders"] = [(8, 8, 12), (10, 10, 10)]
    busy.left_to_do[0] = left("billing", "orders", 0, committed=8, max_offset=12, refusals=12)

    services.sample(clock=clock)

    row = GroupSummary.objects.get(name="billing")
    assert (row.consume_rate, row.arrive_rate, row.refusal_rate) == (1.6, 0.4, 1.0)
    # Six messages left, at 1.2 a second more out than in.
    assert row.lag == 6
    assert row.drain_ms == pytest.approx(5_000, abs=1)


@pytest.mark.usefixtures("busy")
def test_a_topic_has_one_summary_with_what_its_groups_leave(clock: HandClock) -> None:
    topics.create_or_change_topic(name="orders", queue_count=2, type=TopicType.FIFO)

    services.sample(clock=clock)

    row = TopicSummary.objects.get(name="orders")
    assert (row.type, row.queue_count, row.held, row.group_count) == ("FIFO", 2, 20, 2)
    assert (row.lag, row.lag_max, row.oldest_age_ms, row.blocked) == (10, 10, 40_000, 1)
    unknown = TopicSummary.objects.get(name="refunds")
    assert (unknown.type, unknown.queue_count, unknown.lag) == ("", None, 0)


def test_a_group_that_reads_nothing_yet_has_an_unknown_lag(
    engine: NumberEngine, clock: HandClock
) -> None:
    ConsumerGroup.objects.create(name="decided", ordered=True)
    engine.seen = [client("waiting", "c", "orders")]

    services.sample(clock=clock)

    decided, waiting = GroupSummary.objects.order_by("name")
    assert (decided.lag, decided.members, decided.is_ordered) == (None, 0, True)
    assert (waiting.lag, waiting.members, waiting.topics) == (None, 1, ["orders"])


def test_what_is_left_in_lite_topics_is_a_groups_in_their_parent(
    busy: NumberEngine, clock: HandClock
) -> None:
    topics.create_or_change_topic(name="inbox", type=TopicType.LITE)
    busy.offsets["inbox"] = [(0, 0)]
    busy.seen.append(client("phones", "p", "inbox"))
    busy.left_in_lites = [left_in_lites("phones", lag=100), left_in_lites("billing", lag=5)]
    services.sample(clock=clock)
    clock.now_ms += 5_000
    busy.left_in_lites = [left_in_lites("phones", lag=80, arrived=2_010)]

    services.sample(clock=clock)

    newest = GroupSample.objects.get(group="phones", at=moment(clock.now_ms))
    assert (newest.topic, newest.committed, newest.delivered) == ("inbox", 1_930, 810)
    assert (newest.lag, newest.in_flight, newest.oldest_age_ms) == (80, 4, 40_000)
    assert (newest.consume_rate, newest.arrive_rate, newest.members) == (6.0, 2.0, 1)
    row = GroupSummary.objects.get(name="phones")
    assert (row.lag, row.retry_lag, row.topics, row.queue_count) == (80, 0, ["inbox"], 0)
    assert (row.oldest_age_ms, row.members, row.drain_ms) == (40_000, 1, 20_000)
    parent = TopicSummary.objects.get(name="inbox")
    assert (parent.group_count, parent.lag, parent.lag_max) == (1, 80, 80)
    assert StoreSample.objects.get(at=moment(clock.now_ms)).lag == 92


def test_lite_topics_that_are_not_counted_yet_are_unknown_and_not_zero(
    busy: NumberEngine, clock: HandClock
) -> None:
    busy.left_in_lites = [left_in_lites("billing", lag=None)]

    services.sample(clock=clock)

    sample = GroupSample.objects.get(topic="inbox")
    assert (sample.lag, sample.committed, sample.oldest_age_ms) == (None, None, None)
    row = GroupSummary.objects.get(name="billing")
    assert (row.lag, row.retry_lag, row.committed, row.oldest_age_ms) == (None, 2, None, None)
    assert StoreSample.objects.get().lag is None


def test_what_is_gone_has_no_summary_any_more(busy: NumberEngine, clock: HandClock) -> None:
    services.sample(clock=clock)
    clock.now_ms += 5_000
    busy.progress = {("mailing", "orders"): [(10, 10, 10), (10, 10, 10)]}
    busy.joined, busy.seen = [], []
    del busy.offsets["refunds"]

    services.sample(clock=clock)

    assert list(GroupSummary.objects.values_list("name", flat=True)) == ["mailing"]
    assert list(TopicSummary.objects.values_list("name", flat=True)) == ["orders"]


def test_a_large_store_is_looked_at_less_often_and_keeps_what_was_seen(
    busy: NumberEngine, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Six rows of progress at two a slot: every third slot has a look.
    monkeypatch.setattr(looks, "ROWS_PER_SLOT", 2)
    for _ in range(6):
        services.sample(clock=clock)
        clock.now_ms += 5_000

    assert busy.looks == 2
    row = GroupSummary.objects.get(name="billing")
    assert (row.lag, row.oldest_age_ms, row.members) == (12, 90_000, 2)
    assert (ms_of(row.looked_at or row.sampled_at), ms_of(row.sampled_at)) == (
        START_MS + 15_000, START_MS + 25_000,
    )  # fmt: skip
    ages_ms = GroupSample.objects.filter(group="billing", topic="orders").order_by("at")
    assert list(ages_ms.values_list("oldest_age_ms", flat=True)) == [
        40_000, None, None, 40_000, None, None,
    ]  # fmt: skip


def test_a_minute_keeps_the_newest_look_that_was_known(
    busy: NumberEngine, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "ROWS_PER_SLOT", 3)
    for age_ms in (10_000, 20_000, 30_000, 40_000):
        busy.left_to_do[0] = left("billing", "orders", 0, oldest_age_ms=age_ms)
        services.sample(clock=clock)
        clock.now_ms += 5_000

    rollups.roll_up(FINE, MINUTE, START_MS)

    row = GroupSample.objects.get(resolution_s=60, group="billing", topic="orders")
    assert (row.oldest_age_ms, row.oldest_age_ms_min, row.oldest_age_ms_max) == (
        30_000, 10_000, 30_000,
    )  # fmt: skip


@pytest.mark.usefixtures("busy")
def test_an_older_sample_does_not_overwrite_a_newer_summary(clock: HandClock) -> None:
    clock.now_ms += 60_000
    services.sample(clock=clock)
    clock.now_ms -= 30_000

    services.sample(clock=clock)

    row = GroupSummary.objects.get(name="billing")
    assert ms_of(row.sampled_at) == START_MS + 60_000
    assert StoreSample.objects.count() == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("busy")
def test_two_samples_at_once_leave_one_summary_each(clock: HandClock) -> None:
    steps = at_once(lambda: services.sample(clock=clock))

    assert sorted(step.done > 0 for step in steps) == [False, True]
    assert GroupSummary.objects.count() == 2
