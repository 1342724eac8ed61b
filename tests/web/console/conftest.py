"""A board, an engine and a clock for the console's tests; the board is left empty."""

from collections.abc import Iterator

import pytest
from django.test import Client

from apps.console.board import board
from apps.console.feed import Feed
from tests.web.console.fakes import FakeEngine, HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def feed(clock: HandClock) -> Feed:
    return Feed(clock=clock)


@pytest.fixture(autouse=True)
def empty_board() -> Iterator[None]:
    board.clear()
    yield
    board.clear()


@pytest.fixture
def browser() -> Client:
    return Client()
