"""The tag hash and what hangs on it, against RocketMQ's own vectors."""

import pytest

from apps.engine.codec.tags import filter_hashes, filter_tags, java_hash, queue_of_key


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


def test_a_key_goes_to_the_queue_of_its_hash_modulo_the_count() -> None:
    assert queue_of_key("order_123", 4) == 391307839 % 4


def test_the_key_whose_hash_has_no_absolute_value_goes_to_queue_zero() -> None:
    assert queue_of_key("polygenelubricants", 7) == 0


@pytest.mark.parametrize("expression", ["", " ", "*", " * "])
def test_a_subscription_to_everything_has_no_hashes(expression: str) -> None:
    assert filter_hashes(expression) is None


def test_a_subscription_lists_its_tags() -> None:
    assert filter_tags("TagA || TagB||") == ["TagA", "TagB"]
    assert filter_hashes("TagA || TagB") == [2598919, 2598920]
