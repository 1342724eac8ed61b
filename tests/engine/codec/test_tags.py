"""The tag hash and what hangs on it, against RocketMQ's own vectors."""

import pytest

from apps.engine.codec.tags import filter_tags, java_hash, queue_of_key, tag_hash
from apps.engine.errors import InvalidFilter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("order_123", -391307839),
        ("TopicTest#KEY1", -1656969516),
        ("polygenelubricants", -2147483648),
        ("中文", 646394),
        ("😀", 1772899),
    ],
)
def test_the_hash_is_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@pytest.mark.parametrize("tag", ["", "TagA", "中😀", "t" * 64, "t" * 65])
def test_a_remembered_hash_is_the_same(tag: str) -> None:
    assert [tag_hash(tag), tag_hash(tag)] == [java_hash(tag)] * 2


def test_a_key_goes_to_the_queue_of_its_hash_modulo_the_count() -> None:
    assert queue_of_key("order_123", 4) == 391307839 % 4


def test_the_key_whose_hash_has_no_absolute_value_goes_to_queue_zero() -> None:
    assert queue_of_key("polygenelubricants", 7) == 0


@pytest.mark.parametrize("expression", ["", " ", "*", " * "])
def test_a_subscription_to_everything_names_no_tags(expression: str) -> None:
    assert filter_tags(expression) is None


def test_a_subscription_lists_its_tags() -> None:
    assert filter_tags(" TagA || TagB||*") == ["TagA", "TagB", "*"]


def test_a_subscription_has_no_empty_tag() -> None:
    with pytest.raises(InvalidFilter, match="at character 7: expected a tag"):
        filter_tags("TagA||")
