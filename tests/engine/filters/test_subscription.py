"""Filters as the engine uses them: by entries first, then by properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine.codec.tags import java_hash
from apps.engine.errors import InvalidFilter
from apps.engine.filters.subscription import compile_filter
from apps.engine.limits import FILTER_CHARACTERS_MAX
from apps.engine.types import FilterType

TAG, SQL92 = FilterType.TAG, FilterType.SQL92


@pytest.mark.parametrize("text", ["", " ", "*", " * "])
def test_everything_is_taken_without_looking(text: str) -> None:
    found = compile_filter(text, TAG)

    assert found.hashes is None
    assert not found.reads_properties
    assert found.matches({})
    assert found.matches({"TAGS": "A"})


def test_tags_are_taken_by_their_text() -> None:
    found = compile_filter(" paid||shipped ", TAG)

    taken = [tag for tag in ("paid", "shipped", "created", "") if found.matches({"TAGS": tag})]
    assert taken == ["paid", "shipped"]
    assert not found.matches({})
    assert not found.reads_properties


def test_two_tags_of_one_hash_are_told_apart_by_their_text() -> None:
    found = compile_filter("Aa", TAG)

    assert java_hash("Aa") == java_hash("BB")
    assert found.hashes == {java_hash("BB")}
    assert not found.matches({"TAGS": "BB"})


def test_tags_of_one_hash_are_one_hash() -> None:
    assert compile_filter("Aa || BB", TAG).hashes == {java_hash("Aa")}


@pytest.mark.parametrize(
    ("text", "at"), [("||", 1), ("A||", 4), ("||A", 1), ("A || || B", 5), ("A |||| B", 5)]
)
def test_an_empty_tag_is_refused(text: str, at: int) -> None:
    with pytest.raises(InvalidFilter, match=f"at character {at}: expected a tag"):
        compile_filter(text, TAG)


@pytest.mark.parametrize("kind", list(FilterType))
def test_a_filter_that_is_too_long_is_refused(kind: FilterType) -> None:
    compile_filter("a" * FILTER_CHARACTERS_MAX, kind)

    with pytest.raises(InvalidFilter, match="at most 4096 characters"):
        compile_filter("a" * (FILTER_CHARACTERS_MAX + 1), kind)


@pytest.mark.parametrize("text", ["", "*", "paid || shipped"])
def test_a_tag_filter_is_no_condition(text: str) -> None:
    with pytest.raises(InvalidFilter, match="at character"):
        compile_filter(text, SQL92)


def test_a_condition_that_is_unknown_takes_nothing() -> None:
    found = compile_filter("amount > 5", SQL92)

    assert found.reads_properties
    assert found.hashes is None
    amounts = [{"amount": "6"}, {"amount": "5"}, {"amount": "much"}, {}]
    assert [found.matches(properties) for properties in amounts] == [True, False, False, False]


def test_a_filter_is_compiled_once() -> None:
    assert compile_filter("a = 'x'", SQL92) is compile_filter("a = 'x'", SQL92)
    # The same text means something else as a tag.
    assert compile_filter("a = 'x'", TAG).tags == frozenset({"a = 'x'"})


def test_only_so_many_filters_are_kept() -> None:
    for number in range(1000):
        compile_filter(f"a = {number}", SQL92)

    info = compile_filter.cache_info()
    assert info.currsize == info.maxsize == 256


@given(st.lists(st.text(st.characters(exclude_characters="|"), max_size=8), min_size=1, max_size=5))
def test_a_tag_passes_by_its_hash_whenever_its_text_is_wanted(tags: list[str]) -> None:
    text = "||".join(tags)
    try:
        found = compile_filter(text, TAG)
    except InvalidFilter:
        assert any(not tag.strip() for tag in tags)
        return

    for tag in found.tags or ():
        assert found.matches({"TAGS": tag})
        assert java_hash(tag) in (found.hashes or ())
