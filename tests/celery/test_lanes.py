"""Lanes as operators see them: how long they are, and how they are emptied."""

import pytest

from tests.celery.application import LANE
from tests.celery.conftest import Site
from tests.celery.effects import wait_for

pytestmark = pytest.mark.process


def _fill(site: Site, lane: str, count: int) -> None:
    for _ in range(count):
        site.task("record").apply_async(kwargs={"key": lane}, queue=lane)


def test_a_lane_tells_its_length(site: Site, key: str) -> None:
    _fill(site, key, 12)

    assert site.ready(key) == 12


def test_a_purge_empties_a_lane_and_says_how_much_it_threw_away(site: Site, key: str) -> None:
    _fill(site, key, 12)

    with site.app.connection_for_write() as connection, connection.channel() as channel:
        purged = channel.queue_purge(key)

    assert purged == 12
    assert site.broker.held(key) == 0


def test_a_purge_leaves_what_a_worker_holds(site: Site, key: str) -> None:
    site.pair()
    wait_for(lambda: site.broker.held(LANE) == 0, "earlier tasks are done")
    site.task("hold_late").delay(key=key)
    site.effects.wait_for(key, "begun")

    with site.app.connection_for_write() as connection, connection.channel() as channel:
        purged = channel.queue_purge(LANE)

    assert purged == 0
    assert site.broker.held(LANE) == 1
    site.effects.gate(key).touch()
    site.effects.wait_for(key)
    wait_for(lambda: site.broker.held(LANE) == 0, "the end is acknowledged")
