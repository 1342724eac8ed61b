"""Counts of refusals on their way into rows: a row a minute and client, grown and never doubled."""

from dataclasses import replace

import pytest

from apps.core.moments import moment
from apps.engine.grouptypes import LockRefused
from apps.groups.models import LockRefusal
from apps.groups.projection.groups import READ_EVERY_MS
from apps.groups.projection.refusals import KEEP, write_refusals
from apps.groups.selectors import group_refusals
from apps.groups.services import prune_history
from tests.web.fake_engine import FakeEngine
from tests.web.group_values import NOW_MS
from tests.web.test_group_projection import Projection

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE_MS = 60_000
BEGIN_MS = NOW_MS - NOW_MS % MINUTE_MS
MINUTE = moment(MINUTE_MS) - moment(0)


def refused(count: int, *, minute: int = 0, client_id: str = "b", owner: str = "a") -> LockRefused:
    return LockRefused(
        group="g",
        topic="orders",
        queue=0,
        owner=owner,
        client_id=client_id,
        minute_ms=BEGIN_MS + minute * MINUTE_MS,
        count=count,
        last_ms=BEGIN_MS + minute * MINUTE_MS + 5,
    )


def counts() -> list[tuple[str, int]]:
    return list(LockRefusal.objects.order_by("at", "client_id").values_list("client_id", "count"))


@pytest.fixture
def projection() -> Projection:
    """Return a projector over an engine with nothing but refusals."""
    return Projection(FakeEngine())


def test_a_count_that_grows_stays_one_row(projection: Projection) -> None:
    projection.engine.refused = [refused(3)]
    projection.step()

    projection.engine.refused = [refused(5_000)]
    projection.step(after_ms=READ_EVERY_MS)

    assert counts() == [("b", 5_000)]


def test_what_has_not_grown_is_not_written_again(projection: Projection) -> None:
    projection.engine.refused = [refused(3)]
    projection.step()

    assert projection.step(after_ms=READ_EVERY_MS) is None


def test_the_last_refusals_of_a_minute_that_is_over_are_not_lost(projection: Projection) -> None:
    projection.engine.refused = [refused(3)]
    projection.step()

    projection.engine.refused = [refused(4), refused(1, minute=1)]
    projection.step(after_ms=READ_EVERY_MS)

    assert counts() == [("b", 4), ("b", 1)]


def test_after_a_restart_of_the_broker_the_same_minute_is_counted_beside_the_old_one() -> None:
    write_refusals([refused(7)], store_id="s", epoch=1)
    write_refusals([refused(2)], store_id="s", epoch=2)

    assert counts() == [("b", 7), ("b", 2)]
    (spell,) = group_refusals("g", since=moment(BEGIN_MS), length=MINUTE, lines_max=10)
    assert spell.count == 9


def test_a_drawing_gathers_minutes_by_owner_and_counts_its_clients() -> None:
    begin = BEGIN_MS - BEGIN_MS % (10 * MINUTE_MS)
    found = [
        refused(1, client_id="b"), refused(2, client_id="c", minute=1),
        refused(4, client_id="b", owner="z", minute=2), refused(8, minute=30),
    ]  # fmt: skip
    moved = [replace(one, minute_ms=one.minute_ms - BEGIN_MS + begin) for one in found]
    write_refusals(moved, store_id="s", epoch=1)

    spells = group_refusals("g", since=moment(begin), length=10 * MINUTE, lines_max=10)

    assert [(one.owner, one.count, one.clients) for one in spells] == [
        ("a", 8, 1), ("a", 3, 2), ("z", 4, 1),
    ]  # fmt: skip
    assert [one.at for one in spells] == [moment(begin + 30 * MINUTE_MS), *[moment(begin)] * 2]


def test_rows_of_refusals_go_after_seven_days(engine: FakeEngine) -> None:
    del engine
    write_refusals([refused(1), refused(1, minute=60)], store_id="s", epoch=1)
    week_ms = int(KEEP.total_seconds() * 1000)

    step = prune_history(now_ms=BEGIN_MS + week_ms + MINUTE_MS)

    assert step.done == 1
    assert LockRefusal.objects.count() == 1
