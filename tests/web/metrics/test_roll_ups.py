"""Roll-ups: minutes of samples and hours of minutes, against a slow model and each other."""

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from apps.core.moments import ms_of
from apps.metrics import rollups, services
from apps.metrics.models import GroupSample, Sample, StoreSample, TopicSample
from apps.metrics.resolutions import FINE, HOUR, MINUTE, Resolution
from tests.web.metrics.conftest import at_once
from tests.web.metrics.fakes import START_MS, group_sample, store_sample, topic_sample

pytestmark = pytest.mark.django_db

SETTLED_MS = rollups.SETTLE_MS
MODELS: tuple[type[Sample], ...] = (TopicSample, GroupSample, StoreSample)


def rows(model: type[Sample], resolution: Resolution) -> list[dict[str, Any]]:
    """Return all columns of the rows of a resolution, ids included."""
    found = model._default_manager.filter(resolution_s=resolution.seconds)
    return list(found.order_by("id").values())


def roll_up_all(*, now_ms: int) -> int:
    """Take steps until nothing is left; return how many slots were rolled up."""
    done = 0
    for _ in range(1_000):
        step = services.roll_up(now_ms=now_ms)
        done += step.done
        if not step.more:
            return done
    raise AssertionError("there is always more")


def test_a_minute_keeps_mean_lowest_highest_and_newest() -> None:
    store_sample(START_MS, send_rate=10.0, lag=5).save()
    store_sample(START_MS + 5_000, send_rate=None, lag=9).save()
    store_sample(START_MS + 55_000, send_rate=4.0, lag=2).save()

    step = services.roll_up(now_ms=START_MS + 60_000 + SETTLED_MS)

    assert (step.done, step.more) == (1, False)
    row = StoreSample.objects.get(resolution_s=60)
    assert (ms_of(row.at), row.samples) == (START_MS, 3)
    assert (row.send_rate, row.send_rate_min, row.send_rate_max) == (7.0, 4.0, 10.0)
    assert row.send_rate_samples == 2
    assert (row.lag, row.lag_min, row.lag_max) == (2, 2, 9)
    assert ms_of(row.taken_at) == START_MS + 55_000


def test_what_no_sample_knows_stays_unknown() -> None:
    store_sample(START_MS, send_rate=None, lag=None).save()

    roll_up_all(now_ms=START_MS + 60_000 + SETTLED_MS)

    row = StoreSample.objects.get(resolution_s=60)
    assert (row.send_rate, row.send_rate_min, row.send_rate_samples) == (None, None, 0)
    assert (row.lag, row.lag_min, row.lag_max) == (None, None, None)


def test_the_newest_is_unknown_where_the_last_sample_did_not_know() -> None:
    store_sample(START_MS, lag=5).save()
    store_sample(START_MS + 5_000, lag=None).save()

    roll_up_all(now_ms=START_MS + 60_000 + SETTLED_MS)

    row = StoreSample.objects.get(resolution_s=60)
    assert (row.lag, row.lag_min, row.lag_max) == (None, 5, 5)


def test_an_hour_weighs_its_minutes_by_the_samples_that_know_the_rate() -> None:
    store_sample(START_MS, send_rate=10.0).save()
    for second in range(60, 120, 5):
        store_sample(START_MS + second * 1000, send_rate=1.0).save()

    roll_up_all(now_ms=START_MS + HOUR.ms + SETTLED_MS)

    row = StoreSample.objects.get(resolution_s=3600)
    assert (row.samples, row.send_rate_samples) == (13, 13)
    assert row.send_rate == pytest.approx((10 + 12) / 13)


def test_every_key_gets_a_row_of_its_own() -> None:
    for number, topic in enumerate(["a", "b"]):
        topic_sample(START_MS, topic, sent=number, send_rate=number).save()
        for group in ("g", "h"):
            group_sample(START_MS, group, topic, lag=number).save()
    store_sample(START_MS).save()

    roll_up_all(now_ms=START_MS + 60_000 + SETTLED_MS)

    minutes = TopicSample.objects.filter(resolution_s=60).order_by("topic")
    assert list(minutes.values_list("topic", "sent")) == [("a", 0), ("b", 1)]
    groups = GroupSample.objects.filter(resolution_s=60).order_by("group", "topic")
    assert list(groups.values_list("group", "topic", "lag")) == [
        ("g", "a", 0), ("g", "b", 1), ("h", "a", 0), ("h", "b", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("now_ms", [START_MS + 59_000, START_MS + 60_000 + SETTLED_MS - 1])
def test_a_minute_that_is_not_over_and_settled_is_not_rolled_up(now_ms: int) -> None:
    store_sample(START_MS).save()

    step = services.roll_up(now_ms=now_ms)

    assert (step.done, step.more) == (0, False)
    assert rows(StoreSample, MINUTE) == []


def test_an_hour_is_rolled_up_when_it_is_over() -> None:
    store_sample(START_MS).save()

    early = roll_up_all(now_ms=START_MS + HOUR.ms + SETTLED_MS - 1)
    assert rows(StoreSample, HOUR) == []
    late = roll_up_all(now_ms=START_MS + HOUR.ms + SETTLED_MS)

    assert (early, late) == (1, 1)
    assert len(rows(StoreSample, HOUR)) == 1


def test_a_minute_without_samples_has_no_row() -> None:
    store_sample(START_MS).save()
    store_sample(START_MS + 120_000).save()

    roll_up_all(now_ms=START_MS + 600_000)

    assert [ms_of(row["at"]) for row in rows(StoreSample, MINUTE)] == [START_MS, START_MS + 120_000]


def test_the_oldest_go_first_and_a_step_is_bounded() -> None:
    minute_count = services.MINUTES_PER_STEP + 2
    for number in reversed(range(minute_count)):
        store_sample(START_MS + number * 60_000).save()
    now_ms = START_MS + HOUR.ms + SETTLED_MS

    first = services.roll_up(now_ms=now_ms)
    rolled_up = [ms_of(row["at"]) for row in rows(StoreSample, MINUTE)]
    second = services.roll_up(now_ms=now_ms)
    third = services.roll_up(now_ms=now_ms)

    assert (first.done, first.more) == (services.MINUTES_PER_STEP, True)
    assert rolled_up == [START_MS + n * 60_000 for n in range(services.MINUTES_PER_STEP)]
    # The rest of the minutes and the hour they make.
    assert (second.done, second.more) == (3, False)
    assert (third.done, third.more) == (0, False)


def test_a_roll_up_done_twice_gives_the_same_rows() -> None:
    dice = random.Random(1)
    for number in range(12):
        store_sample(START_MS + number * 5_000, send_rate=dice.random(), lag=number).save()
        topic_sample(START_MS + number * 5_000, "a", send_rate=dice.random()).save()
    rollups.roll_up(FINE, MINUTE, START_MS)
    before = [rows(model, MINUTE) for model in MODELS]

    rollups.roll_up(FINE, MINUTE, START_MS)

    assert [rows(model, MINUTE) for model in MODELS] == before
    assert [len(found) for found in before] == [1, 0, 1]


def test_a_late_sample_is_rolled_up_into_its_minute_and_its_hour() -> None:
    now_ms = START_MS + HOUR.ms + SETTLED_MS
    store_sample(START_MS, send_rate=1.0).save()
    topic_sample(START_MS, "a", sent=1).save()
    roll_up_all(now_ms=now_ms)
    store_sample(START_MS + 30_000, send_rate=3.0).save()
    topic_sample(START_MS + 30_000, "a", sent=7).save()

    done = roll_up_all(now_ms=now_ms)

    assert done == 2
    for seconds in (60, 3600):
        store = StoreSample.objects.get(resolution_s=seconds)
        assert (store.samples, store.send_rate) == (2, 2.0)
        assert TopicSample.objects.get(resolution_s=seconds).sent == 7
    assert roll_up_all(now_ms=now_ms) == 0


def test_a_minute_whose_samples_are_partly_deleted_keeps_what_it_has() -> None:
    for number in range(3):
        store_sample(START_MS + number * 5_000, lag=number).save()
    roll_up_all(now_ms=START_MS + 60_000 + SETTLED_MS)
    before = rows(StoreSample, MINUTE)
    StoreSample.objects.filter(resolution_s=5, lag=2).delete()

    done = roll_up_all(now_ms=START_MS + 60_000 + SETTLED_MS)
    rollups.roll_up(FINE, MINUTE, START_MS)

    assert done == 0
    assert rows(StoreSample, MINUTE) == before


@pytest.mark.django_db(transaction=True)
def test_roll_ups_at_once_do_not_wait_in_a_circle_and_give_the_rows_of_one() -> None:
    names = [f"topic{number}" for number in range(200)]
    random.Random(2).shuffle(names)
    store_sample(START_MS, send_rate=1.0).save()
    TopicSample.objects.bulk_create(
        topic_sample(START_MS + second * 1000, name, sent=second)
        for second in (0, 5, 10)
        for name in names
    )
    GroupSample.objects.bulk_create(group_sample(START_MS, "g", name) for name in names)
    rollups.roll_up(FINE, MINUTE, START_MS)
    alone = [without_ids(rows(model, MINUTE)) for model in MODELS]

    for _ in range(10):
        for model in MODELS:
            model._default_manager.filter(resolution_s=60).delete()
        steps = at_once(lambda: services.roll_up(now_ms=START_MS + 100_000), threads=3)

        assert max(step.done for step in steps) == 1
        assert [without_ids(rows(model, MINUTE)) for model in MODELS] == alone


@pytest.mark.django_db(transaction=True)
def test_a_sample_that_comes_in_the_middle_of_a_roll_up_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store_sample(START_MS).save()
    topic_sample(START_MS, "a", sent=1).save()
    statement_of = rollups._statement
    asked: list[type[Sample]] = []

    def comes_late() -> None:
        store_sample(START_MS + 5_000).save()
        topic_sample(START_MS + 5_000, "a", sent=2).save()

    def statement_after_a_late_sample(model: type[Sample]) -> Any:
        asked.append(model)
        if len(asked) == 2:
            at_once(comes_late, threads=1)
        return statement_of(model)

    monkeypatch.setattr(rollups, "_statement", statement_after_a_late_sample)
    now_ms = START_MS + 60_000 + SETTLED_MS

    roll_up_all(now_ms=now_ms)
    done = roll_up_all(now_ms=now_ms)

    assert len(asked) == 6
    assert done == 1
    row = TopicSample.objects.get(resolution_s=60)
    assert (row.samples, row.sent) == (2, 2)


def without_ids(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in found:
        del row["id"]
    return sorted(found, key=lambda row: (row.get("group", ""), row.get("topic", "")))


# --- the slow model ------------------------------------------------------------------------------


class Recorded:
    """All samples of one key in one slot, as the slow model remembers them."""

    def __init__(self) -> None:
        self.by_time: dict[int, tuple[int | None, float | None]] = {}

    def add(self, at_ms: int, count: int | None, rate: float | None) -> None:
        self.by_time[at_ms] = (count, rate)

    def expected(self) -> tuple[Any, ...]:
        """Return what a row must say of samples, count and rate, with extremes and known rates."""
        samples = [self.by_time[at_ms] for at_ms in sorted(self.by_time)]
        counts = [count for count, _ in samples if count is not None]
        rates = [rate for _, rate in samples if rate is not None]
        return (
            len(samples),
            samples[-1][0],
            min(counts, default=None),
            max(counts, default=None),
            None if not rates else pytest.approx(sum(rates) / len(rates)),
            min(rates, default=None),
            max(rates, default=None),
            len(rates),
        )


def random_times(dice: random.Random) -> Iterator[int]:
    """Yield slots of 5 s over about two hours: dense stretches, lonely samples and gaps."""
    at_ms = START_MS
    while at_ms < START_MS + 2 * HOUR.ms - 60_000:
        yield at_ms
        at_ms += dice.choice((5, 5, 5, 5, 10, 60, 240, 900)) * 1000


def test_roll_ups_agree_with_a_slow_model_whatever_comes_when() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for _ in range(6):
        for model in MODELS:
            model._default_manager.all().delete()
        expected: dict[tuple[Any, ...], Recorded] = defaultdict(Recorded)
        times = list(random_times(dice))
        # Samples come out of order, and in between the roll-up runs and runs again.
        dice.shuffle(times)
        for at_ms in times:
            add_samples(at_ms, dice, expected)
            if dice.random() < 0.05:
                services.roll_up(now_ms=dice.choice(times) + dice.randrange(2 * HOUR.ms))

        roll_up_all(now_ms=START_MS + 3 * HOUR.ms)

        found = dict(found_rows())
        assert found.keys() == expected.keys()
        for key, recorded in expected.items():
            assert found[key] == recorded.expected(), key
        assert any(key[2] == HOUR.seconds for key in found)


def add_samples(at_ms: int, dice: random.Random, expected: dict[tuple[Any, ...], Recorded]) -> None:
    """Write one slot: the store always, topics sometimes, values sometimes unknown."""

    def record(*key: object, count: int | None, rate: float | None) -> None:
        for resolution in (MINUTE, HOUR):
            slot = (*key, resolution.seconds, resolution.slot_ms(at_ms))
            expected[slot].add(at_ms, count, rate)

    lag = dice.choice((None, dice.randrange(2**40)))
    rate = dice.choice((None, dice.random() * 1000))
    store_sample(at_ms, lag=lag, send_rate=rate).save()
    record("store", "", count=lag, rate=rate)
    for topic in ("a", "b"):
        if dice.random() < 0.7:
            sent = dice.randrange(2**60)
            rate = dice.choice((None, dice.random()))
            topic_sample(at_ms, topic, sent=sent, send_rate=rate).save()
            record("topic", topic, count=sent, rate=rate)
            committed = dice.randrange(2**60)
            group_sample(at_ms, "g", topic, committed=committed, consume_rate=rate).save()
            record("group", topic, count=committed, rate=rate)


def found_rows() -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    for kind, model, count, rate in (
        ("store", StoreSample, "lag", "send_rate"),
        ("topic", TopicSample, "sent", "send_rate"),
        ("group", GroupSample, "committed", "consume_rate"),
    ):
        for row in model._default_manager.filter(resolution_s__gt=5).values():
            key = (kind, row.get("topic", ""), row["resolution_s"], ms_of(row["at"]))
            names = (
                "samples", count, f"{count}_min", f"{count}_max",
                rate, f"{rate}_min", f"{rate}_max", f"{rate}_samples",
            )  # fmt: skip
            yield key, tuple(row[name] for name in names)


def test_the_model_sees_a_wrong_row() -> None:
    recorded = Recorded()
    recorded.add(START_MS, 1, 2.0)
    recorded.add(START_MS + 5_000, 3, None)

    assert recorded.expected() == (2, 3, 1, 3, 2.0, 2.0, 2.0, 1)
    assert recorded.expected() != (2, 1, 1, 3, 2.0, 2.0, 2.0, 1)
    assert recorded.expected() != (2, 3, 1, 3, 1.0, 2.0, 2.0, 1)
