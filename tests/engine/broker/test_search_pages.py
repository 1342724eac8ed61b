"""A search that is asked page by page finds everything once, and conditions on properties hold."""

import dataclasses
import random

import pytest

from apps.engine.broker import search as search_module
from apps.engine.broker import searchplaces
from apps.engine.broker.core import Broker
from apps.engine.errors import InvalidArgument, InvalidFilter
from apps.engine.searchtypes import SearchRequest
from apps.engine.testing.manualclock import ManualClock
from apps.engine.testing.simdisk import SimulatedDisk
from tests.engine.broker.searching import ask, found, opened, places, publish, send, sync

Place = tuple[int, int]


@pytest.fixture
def broker() -> Broker:
    broker = opened(SimulatedDisk(), ManualClock())
    publish(broker, "t", "other")
    return broker


def all_pages(broker: Broker, request: SearchRequest) -> list[list[Place]]:
    """Ask until there is no next page."""
    pages = []
    while True:
        result = ask(broker, request)
        pages.append(places(result))
        if result.next_before is None:
            return pages
        assert request.before is None or result.next_before < request.before
        request = dataclasses.replace(request, before=result.next_before)


@pytest.mark.parametrize("wanted", [{}, {"key": "k"}, {"tag": "a"}, {"queue": 1}])
def test_pages_hold_every_message_once_in_order(broker: Broker, wanted: dict[str, object]) -> None:
    chance = random.Random(31)
    for _ in range(100):
        one = {"KEYS": chance.choice(["k", "other"]), "TAGS": chance.choice(["a", "b"])}
        send(broker, [one] * chance.randint(1, 3), queue=chance.randrange(3))
    sync(broker)
    request = SearchRequest(topic="t", **wanted)  # type: ignore[arg-type]
    whole = places(ask(broker, dataclasses.replace(request, messages_max=256)))

    pages = all_pages(broker, dataclasses.replace(request, messages_max=7))

    assert len(whole) > 40
    assert [place for page in pages for place in page] == whole
    assert {len(page) for page in pages[:-1]} == {7}


def test_a_search_that_got_tired_goes_on_where_it_was(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(40):
        send(broker, [{"TAGS": "wanted" if n % 17 == 0 else "other"}] * 5, queue=n % 3)
    sync(broker)
    request = SearchRequest(topic="t", tag="wanted", messages_max=256)
    whole = places(ask(broker, request))
    monkeypatch.setattr(searchplaces, "SCANNED_MAX", 40)

    first = ask(broker, request)
    pages = all_pages(broker, request)

    assert first.scan_incomplete
    assert len(whole) == 15
    assert len(pages) > 2
    assert [place for page in pages for place in page] == whole


def test_a_condition_that_few_messages_meet_is_looked_for_page_by_page(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(broker, [{"amount": str(n)} for n in range(50)])
    sync(broker)
    monkeypatch.setattr(search_module, "_RECORDS_MAX", 10)
    request = SearchRequest(topic="t", condition="amount < 3")

    pages = all_pages(broker, request)

    assert pages == [[], [], [], [], [(0, 2), (0, 1), (0, 0)]]


def test_a_condition_goes_with_all_else_that_is_asked_for(broker: Broker) -> None:
    send(broker, [{"KEYS": "k", "a": "1"}, {"KEYS": "k", "a": "2"}, {"KEYS": "other", "a": "2"}])
    sync(broker)

    by_key = ask(broker, SearchRequest(topic="t", key="k", condition="a = '2'"))

    assert [record.properties["a"] for record in found(by_key)] == ["2"]
    assert places(by_key) == [(0, 1)]


def test_a_condition_that_is_none_is_refused(broker: Broker) -> None:
    with pytest.raises(InvalidFilter):
        broker.search(SearchRequest(topic="t", condition="a ="))


def test_no_place_lies_before_the_log(broker: Broker) -> None:
    with pytest.raises(InvalidArgument):
        broker.search(SearchRequest(topic="t", before=-1))
