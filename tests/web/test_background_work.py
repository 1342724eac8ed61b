"""What runs beside the doors: catalog at the start, offsets, with and without a database."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TypeVar

import pytest
from django.conf import settings
from django.db import OperationalError, connection

from apps.bridge import engine as bridge
from apps.clockwork import selectors
from apps.console import feed
from apps.console.clockwork import ClockworkWatch
from apps.engine.clock import SystemClock
from apps.engine.grouptypes import LockTransition as LockLine
from apps.groups.models import ConsumerGroup, ConsumerOffset, LockTransition, QueueLock
from apps.topics import services, snapshot
from mqweb.background import Background
from tests.web.fake_engine import FakeEngine, names, progress
from tests.web.group_values import left_to_do, lock, transition

Answer = TypeVar("Answer")

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def engine(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeEngine]:
    """Install a fake engine on the test's loop, and let the console's feed sleep."""

    async def sleep_for_ever(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(feed, "run", sleep_for_ever)
    fake = FakeEngine()
    bridge.install(fake, asyncio.get_running_loop())  # type: ignore[arg-type]
    yield fake
    bridge.remove()


async def in_thread(work: Callable[[], Answer]) -> Answer:
    """Carry out database work off the loop, and keep no connection for it."""

    def carried_out() -> Answer:
        try:
            return work()
        finally:
            connection.close()

    return await asyncio.to_thread(carried_out)


async def test_a_start_publishes_the_catalog_and_a_stop_projects_the_offsets(
    engine: FakeEngine,
) -> None:
    await in_thread(partial(services.create_or_change_topic, name="orders"))
    engine.published.clear()
    engine.catalog = type(engine.catalog)()
    background = Background(engine)  # type: ignore[arg-type]

    await background.start()
    published = names(engine.published)
    engine.progress = [progress("g", "orders", 0, committed=2, delivered=3)]
    await background.stop()

    assert published == [["orders"]]
    row = await in_thread(ConsumerOffset.objects.get)
    assert (row.group, row.committed, row.delivered) == ("g", 2, 3)


async def test_an_outage_is_logged_once_and_its_end_is_logged(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    background = Background(engine)  # type: ignore[arg-type]
    asked: list[int] = []

    def refuse() -> None:
        asked.append(1)
        raise OperationalError("away")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "keep", refuse)
        await background._keep_catalog()
        await background._keep_catalog()
    await background._keep_catalog()

    assert asked == [1, 1]
    events = [record.getMessage() for record in caplog.records if record.name == "mqweb.broker"]
    assert events == ["database_away", "database_back"]


async def test_a_start_without_a_database_still_starts(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = Background(engine)  # type: ignore[arg-type]
    asked: list[int] = []

    def refuse() -> None:
        asked.append(1)
        raise OperationalError("away")

    monkeypatch.setattr(snapshot, "keep", refuse)

    await background.start()
    await background.stop()

    assert asked
    assert engine.published == []


async def test_the_clockwork_is_read_from_the_start_on(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_read = asyncio.Event()
    loop, take = asyncio.get_running_loop(), ClockworkWatch.take

    def taking(watch: ClockworkWatch, read: Callable[[], selectors.Clockwork]) -> None:
        take(watch, read)
        loop.call_soon_threadsafe(was_read.set)

    monkeypatch.setattr(ClockworkWatch, "take", taking)
    background = Background(engine)  # type: ignore[arg-type]

    await background.start()
    await asyncio.wait_for(was_read.wait(), 30)
    picture = background._watch.picture()
    await background.stop()

    assert picture["task_count"] == len(settings.CLOCKWORK_SCHEDULE)


async def test_a_clockwork_that_cannot_be_read_is_logged_and_stays_unknown(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    background = Background(engine)  # type: ignore[arg-type]

    def refuse() -> None:
        raise OperationalError("away")

    monkeypatch.setattr(selectors, "clockwork", refuse)

    await background._read_clockwork()
    await background._read_clockwork()

    assert background._watch.picture()["tasks"] is None
    assert [record.getMessage() for record in caplog.records] == ["database_away"]


def a_transition(number: int) -> LockLine:
    """Build a line of history of this moment: older ones than rows are kept are left out."""
    return transition(number, "g", "orders", 0, at_ms=SystemClock().wall_ms())


async def test_members_and_locks_become_rows_within_seconds_and_once_more_at_the_stop(
    engine: FakeEngine,
) -> None:
    engine.locks = [lock("g", "orders", 0, "a")]
    engine.transitions = [a_transition(1)]
    background = Background(engine)  # type: ignore[arg-type]

    await background._project_groups()
    first = await in_thread(lambda: (LockTransition.objects.count(), QueueLock.objects.count()))
    await background.start()
    engine.transitions.append(a_transition(2))
    await background.stop()

    assert first == (1, 1)
    assert await in_thread(LockTransition.objects.count) == 2


async def test_what_happened_while_the_database_was_away_is_written_afterwards(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    background = Background(engine)  # type: ignore[arg-type]
    asked: list[int] = []

    def refuse(*_: object) -> None:
        asked.append(1)
        raise OperationalError("away")

    with monkeypatch.context() as patch:
        patch.setattr("apps.groups.projection.groups.write_reading", refuse)
        for number in range(1, 4):
            engine.transitions.append(a_transition(number))
            await background._project_groups()
    in_between = await in_thread(LockTransition.objects.count)
    await background._project_groups()

    assert asked == [1, 1, 1]
    assert in_between == 0
    assert await in_thread(LockTransition.objects.count) == 3
    events = [record.getMessage() for record in caplog.records if record.name == "mqweb.broker"]
    assert events == ["database_away", "database_back"]


async def test_groups_that_have_progress_get_a_row_to_be_edited(engine: FakeEngine) -> None:
    engine.progress = [progress("seen", "orders", 0, committed=0, delivered=0)]
    background = Background(engine)  # type: ignore[arg-type]

    await background._project_offsets()

    row = await in_thread(ConsumerGroup.objects.get)
    assert (row.name, row.decided_at) == ("seen", None)


async def test_blocked_queues_are_told_while_the_database_is_away(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine.left_to_do = [left_to_do("g", "orders", 0, max_offset=9, head_attempts=3)]
    background = Background(engine)  # type: ignore[arg-type]
    # Who asked for the database would fail on it.
    monkeypatch.setattr(background, "_in_database", None)

    await background._watch_backlog()

    assert [record.getMessage() for record in caplog.records] == ["queue_blocked"]
