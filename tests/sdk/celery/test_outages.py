"""An outage is told when it lasts too long, a refusal at once, a hiccup never."""

import logging

import pytest
from mqclient.celery.client import Client
from mqclient.celery.options import Options
from mqclient.celery.outages import Outage
from mqclient.errors import ConnectFailed, MqError, StoreFull, Unauthenticated
from mqclient.protocol.endpoint import Endpoint

from tests.sdk.celery.clocks import ManualClock

LIMIT_S = 30.0


class Case:
    """An outage with what it told."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.told: list[MqError] = []
        client = Client(Endpoint.of("http://nowhere"), Options(outage_s=LIMIT_S), clock=clock)
        self.outage = Outage(client, "receiving", on_failure=self.told.append)


@pytest.fixture
def case(clock: ManualClock) -> Case:
    """Return an outage that has not begun."""
    return Case(clock)


def test_a_short_outage_is_told_to_nobody(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mqclient")

    assert case.outage.has_failed(ConnectFailed("refused"))
    case.clock.advance(LIMIT_S - 1)
    assert case.outage.has_failed(StoreFull("full"))
    case.outage.is_over()

    assert case.told == []
    assert caplog.messages == [
        "receiving: refused; trying again",
        "receiving: the broker answers again after 29.0 s",
    ]


def test_a_long_outage_is_told_with_its_last_error(case: Case) -> None:
    case.outage.has_failed(ConnectFailed("refused"))
    case.clock.advance(LIMIT_S)
    last = ConnectFailed("still refused")

    assert case.outage.has_failed(last)

    assert case.told == [last]


def test_two_outages_are_not_one(case: Case) -> None:
    case.outage.has_failed(ConnectFailed("refused"))
    case.outage.is_over()
    case.clock.advance(LIMIT_S)

    case.outage.has_failed(ConnectFailed("refused again"))

    assert case.told == []


def test_a_refusal_is_told_at_once_and_not_tried_again(case: Case) -> None:
    error = Unauthenticated("no such token")

    assert not case.outage.has_failed(error)

    assert case.told == [error]


def test_who_gives_up_does_not_try_again(case: Case) -> None:
    case.outage.give_up()

    assert not case.outage.has_failed(ConnectFailed("refused"))
