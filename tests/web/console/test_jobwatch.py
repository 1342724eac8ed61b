"""Jobs of dead letters as viewers follow them: read for all at once, while somebody looks."""

from collections.abc import Collection, Sequence

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from apps.console.audience import audience
from apps.console.board import board
from apps.console.clockwork import ClockworkWatch
from apps.console.deathwatch import DeathWatch
from apps.console.feed import Feed
from apps.console.jobwatch import FOLLOWED_MS, OLD_AFTER_MS, JobsWatch
from apps.console.pipelines.watch import PipelinesWatch
from apps.console.sparklines import LastHour
from apps.deadletters.models import JobState, ResendJob
from apps.deadletters.selectors.jobs import going_on
from tests.web.console.fakes import POLYGLOT, FakeEngine, HandClock, Viewer
from tests.web.console.test_pages import parsed
from tests.web.console.test_sockets import beat
from tests.web.console.texts import worded


def job(number: int, state: JobState = JobState.RUNNING, **said: int) -> ResendJob:
    """Return a job that is no row."""
    return ResendJob(
        pk=number, group=POLYGLOT, criteria={}, state=state, total=9, created_by="ann",
        created_at=timezone.now(), **said,
    )  # fmt: skip


@pytest.fixture
def jobs(clock: HandClock) -> JobsWatch:
    return JobsWatch(clock=clock)


@pytest.fixture
def feed(clock: HandClock, jobs: JobsWatch) -> Feed:
    return Feed(
        clock=clock,
        clockwork=ClockworkWatch(clock=clock, worker_processes=2),
        last_hour=LastHour(),
        deaths=DeathWatch(clock=clock),
        pipelines=PipelinesWatch(clock=clock),
        jobs=jobs,
    )


async def test_viewers_are_pushed_how_far_a_job_is(
    jobs: JobsWatch, feed: Feed, engine: FakeEngine
) -> None:
    viewer = Viewer("job.7")
    await viewer.arrive()
    await beat(feed, engine)
    nothing = await viewer.frame()
    jobs.take(lambda _: [job(8), job(7, sent_count=3)])
    await beat(feed, engine)
    begun = await viewer.frame()
    jobs.take(lambda _: [job(7, JobState.DONE, sent_count=8, failed_count=1)])
    await beat(feed, engine)
    done = await viewer.frame()
    await viewer.leave()

    assert nothing["known"] == "still"
    assert (begun["known"], begun["done"], begun["group"]) == ("live", 3, POLYGLOT)
    assert (done["kind"], done["done"], done["state"]) == ("delta", 9, "done")
    assert done["revision"] != begun["revision"]


def test_a_job_that_has_ended_is_told_of_for_a_while(jobs: JobsWatch, clock: HandClock) -> None:
    asked: list[Collection[int]] = []

    def read(also: Collection[int]) -> Sequence[ResendJob]:
        asked.append(also)
        return [job(7)] if len(asked) == 1 else []

    jobs.take(read)
    jobs.take(read)
    clock.now_ms += FOLLOWED_MS + 1
    jobs.take(read)

    assert asked == [(), (7,), ()]


def test_figures_of_a_database_that_is_away_become_stale(jobs: JobsWatch, clock: HandClock) -> None:
    faults = []

    def fail(_: Collection[int]) -> Sequence[ResendJob]:
        faults.append(True)
        raise OperationalError("away")

    jobs.take(lambda _: [job(7)])
    clock.now_ms += OLD_AFTER_MS + 1
    with pytest.raises(OperationalError):
        jobs.take(fail)

    assert faults == [True]
    assert jobs.picture()["state"] == "stale"


def test_when_nobody_looks_nothing_old_is_kept(jobs: JobsWatch) -> None:
    jobs.take(lambda _: [job(7)])

    jobs.rest()

    assert worded(jobs.picture()) == {"state": "not known", "note": "not read yet", "jobs": []}
    assert not audience.watches("job")
    with audience.joined("job.7"):
        assert audience.watches("job")


@pytest.mark.django_db
def test_the_page_names_its_view_and_binds_its_figures(
    browser: Client, feed: Feed, engine: FakeEngine
) -> None:
    board.put(feed.sample(engine.api))
    row = ResendJob.objects.create(
        group="g", criteria={}, created_by="ann", created_at=timezone.now(), total=4, sent_count=1
    )
    ended = ResendJob.objects.create(
        group="g", criteria={}, created_by="ann", created_at=timezone.now(), state=JobState.DONE,
        ended_at=timezone.now(),
    )  # fmt: skip

    page = parsed(browser.get(f"/jobs/{row.pk}"))

    (main,) = page.all("main")
    assert (main["data-live"], main["data-name"]) == ("job", str(row.pk))
    assert main["data-revision"]
    bound = {attributes.get("data-value") for _, attributes in page.elements}
    assert {"done", "sent", "failed", "gone"} <= bound
    assert [found.pk for found in going_on()] == [row.pk]
    assert [found.pk for found in going_on(also=[ended.pk])] == [ended.pk, row.pk]
