"""AMQP's routing rules, against the rules said once more in the simplest words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mqclient.celery.routing import DIRECT, FANOUT, TOPIC, ExchangeKind, is_match


@pytest.mark.parametrize(
    ("pattern", "routing_key", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("#", "", True),
        ("#", "a.b", True),
        ("*", "", True),
        ("#.z", "z", True),
        ("#.z", "a.b.z", True),
        ("#.z", "a.b.y", False),
        ("a.#.z", "a.z", True),
        ("a.#.*", "a", False),
        ("worker.#", "worker.heartbeat", True),
        ("worker.#", "task.sent", False),
    ],
)
def test_a_pattern_matches_by_words(pattern: str, routing_key: str, expected: bool) -> None:
    assert is_match(pattern, routing_key) is expected


def matches(pattern: list[str], words: list[str]) -> bool:
    """Say the rule by its cases."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(matches(pattern[1:], words[skipped:]) for skipped in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and matches(pattern[1:], words[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6),
)
def test_any_pattern_matches_as_its_cases_say(pattern: list[str], words: list[str]) -> None:
    assert is_match(".".join(pattern), ".".join(words)) is matches(pattern, words)


def test_many_wildcards_cost_no_more_than_one() -> None:
    assert is_match(".".join(["#"] * 200 + ["z"]), ".".join(["a"] * 200)) is False


def test_a_direct_exchange_compares_and_a_fanout_does_not_look() -> None:
    assert ExchangeKind(DIRECT).routes("a.*", "a.b") is False
    assert ExchangeKind(DIRECT).routes("a.b", "a.b") is True
    assert ExchangeKind(TOPIC).routes("a.*", "a.b") is True
    assert ExchangeKind(FANOUT).routes("anything", "else") is True
