"""Topics of Celery's names: always allowed, never the same for two names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mqclient.celery.names import Names
from mqclient.names import checked_name


def test_the_default_virtual_host_is_not_named() -> None:
    names = Names()

    assert names.lane("celery") == "celery-q-celery"
    assert names.broadcasts("celeryev") == "celery-x-celeryev"
    assert names.bindings == "celery-bindings"


def test_another_virtual_host_is_part_of_every_name() -> None:
    names = Names("team-a")

    assert names.lane("mail") == "celery-v-team%2Da-q-mail"
    assert names.broadcasts("news") == "celery-v-team%2Da-x-news"
    assert names.bindings == "celery-v-team%2Da-bindings"


@pytest.mark.parametrize(
    ("queue", "escaped"),
    [
        ("a.b", "a%2Eb"),
        ("worker@host.celery.pidbox", "worker%40host%2Ecelery%2Epidbox"),
        ("naïve ~", "na%C3%AFve%20%7E"),
        ("a%2Eb", "a%252Eb"),
        ("a_b-c", "a_b-c"),
    ],
)
def test_what_a_topic_cannot_be_called_is_escaped(queue: str, escaped: str) -> None:
    assert Names().lane(queue) == f"celery-q-{escaped}"


def test_a_long_name_is_cut_and_stays_different_from_one_that_ends_otherwise() -> None:
    first, second = Names().lane("x" * 200 + "1"), Names().lane("x" * 200 + "2")

    assert len(first) == len(second) == 127
    assert first != second


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
_HOST = st.one_of(st.just("/"), _TEXT)


@given(_HOST, _TEXT, _HOST, _TEXT)
def test_two_names_have_two_topics(host: str, queue: str, other_host: str, other: str) -> None:
    first, second = Names(host).lane(queue), Names(other_host).lane(other)

    assert checked_name(first, "topic") == first
    assert (first == second) == ((host, queue) == (other_host, other))


@given(_HOST, _TEXT, _HOST, _TEXT)
def test_a_lane_is_never_a_topic_of_broadcasts(
    host: str, queue: str, other_host: str, exchange: str
) -> None:
    lane = Names(host).lane(queue)

    assert lane != Names(other_host).broadcasts(exchange)
    assert lane != Names(other_host).bindings
