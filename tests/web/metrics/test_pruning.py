"""Deletion of old rows: what is old, what waits, and how much a step takes."""

import pytest

from apps.core.moments import ms_of
from apps.metrics import services
from apps.metrics.models import GroupSample, StoreSample, TopicSample
from apps.metrics.resolutions import FINE, HOUR, MINUTE, RESOLUTIONS, Resolution
from tests.web.metrics.conftest import at_once
from tests.web.metrics.fakes import START_MS, group_sample, store_sample, topic_sample

pytestmark = pytest.mark.django_db


def times(resolution: Resolution) -> list[int]:
    rows = StoreSample.objects.filter(resolution_s=resolution.seconds).order_by("at")
    return [ms_of(at) for at in rows.values_list("at", flat=True)]


@pytest.mark.parametrize("resolution", RESOLUTIONS, ids=lambda found: f"{found.seconds} s")
def test_rows_are_kept_as_long_as_their_resolution_says(resolution: Resolution) -> None:
    now_ms = START_MS + 500 * 24 * HOUR.ms
    last_ms = resolution.kept_from_ms(now_ms)
    for at_ms in (last_ms - resolution.ms, last_ms):
        store_sample(at_ms, resolution_s=resolution.seconds).save()
        topic_sample(at_ms, "a", resolution_s=resolution.seconds).save()
        group_sample(at_ms, "g", "a", resolution_s=resolution.seconds).save()
    while services.roll_up(now_ms=now_ms).more:
        pass

    step = services.prune(now_ms=now_ms)

    assert (step.done, step.more) == (3, False)
    assert times(resolution) == [last_ms]
    for model in (TopicSample, GroupSample):
        (row,) = model.objects.filter(resolution_s=resolution.seconds)
        assert ms_of(row.at) == last_ms


def test_a_step_deletes_so_many_rows_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "DELETED_PER_STEP", 10)
    now_ms = START_MS + 401 * 24 * HOUR.ms
    TopicSample.objects.bulk_create(
        topic_sample(START_MS, f"topic{number}", resolution_s=3600) for number in range(7)
    )
    GroupSample.objects.bulk_create(
        group_sample(START_MS, f"g{number}", "a", resolution_s=3600) for number in range(8)
    )

    steps = [services.prune(now_ms=now_ms) for _ in range(3)]

    assert [(step.done, step.more) for step in steps] == [(10, True), (5, False), (0, False)]
    assert TopicSample.objects.count() == GroupSample.objects.count() == 0


def test_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "DELETED_PER_STEP", 1)
    for hours in (2, 0, 1):
        store_sample(START_MS + hours * HOUR.ms, resolution_s=3600).save()

    services.prune(now_ms=START_MS + 410 * 24 * HOUR.ms)

    assert times(HOUR) == [START_MS + HOUR.ms, START_MS + 2 * HOUR.ms]


def test_samples_wait_for_their_roll_up() -> None:
    now_ms = START_MS + 3 * HOUR.ms
    store_sample(START_MS - 60_000).save()
    services.roll_up(now_ms=now_ms)
    store_sample(START_MS).save()

    before = services.prune(now_ms=now_ms)
    assert times(FINE) == [START_MS]
    services.roll_up(now_ms=now_ms)
    after = services.prune(now_ms=now_ms)

    assert (before.done, after.done) == (1, 1)
    assert times(FINE) == []
    assert times(MINUTE) == [START_MS - 60_000, START_MS]


def test_samples_do_not_wait_for_ever() -> None:
    store_sample(START_MS).save()
    end_ms = START_MS + FINE.kept_s * 1000 + services.WAIT_MS_MAX

    services.prune(now_ms=end_ms)
    assert times(FINE) == [START_MS]
    services.prune(now_ms=end_ms + 1)

    assert times(FINE) == []


@pytest.mark.django_db(transaction=True)
def test_two_runs_at_once_share_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "DELETED_PER_STEP", 100)
    now_ms = START_MS + 401 * 24 * HOUR.ms
    row_count = 1_000
    TopicSample.objects.bulk_create(
        topic_sample(START_MS, f"topic{number}", resolution_s=3600) for number in range(row_count)
    )

    def prune_all() -> int:
        done = 0
        while (step := services.prune(now_ms=now_ms)).more:
            done += step.done
        return done + step.done

    done = at_once(prune_all)

    # Each row is deleted by one of the two.
    assert sum(done) == row_count
    assert TopicSample.objects.count() == 0
