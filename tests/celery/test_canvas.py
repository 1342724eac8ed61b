"""Tasks that belong together: chains, groups and chords, with results through the database."""

import pytest
from celery import chain, chord, group

from tests.celery.conftest import Site
from tests.celery.effects import DEADLINE_S

pytestmark = pytest.mark.process


def test_a_chain_hands_each_result_on(site: Site) -> None:
    site.pair()
    add = site.task("add")

    result = chain(add.s(1, 2), add.s(10), add.s(100)).apply_async()

    assert result.get(DEADLINE_S) == 113


def test_a_group_returns_results_in_order(site: Site) -> None:
    site.pair()
    add = site.task("add")

    result = group(add.s(number, 0) for number in range(20)).apply_async()

    assert result.get(DEADLINE_S) == list(range(20))


def test_a_chord_begins_when_its_whole_group_has_ended(site: Site) -> None:
    site.pair()
    add, total = site.task("add"), site.task("total")

    result = chord((add.s(number, 1) for number in range(10)), total.s(), app=site.app)()

    assert result.get(DEADLINE_S) == 55
