"""Records to JSON messages: what a record from outside may lack or have besides."""

import msgspec
import pytest

from apps.doors.http.messages import TagFilter, message_of
from apps.doors.http.times import rfc3339
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import Record, decode_record, encode_record
from apps.engine.types import FilterType


def record(properties: dict[str, str], *, born_time_ms: int = 1_700_000_000_123) -> Record:
    data = encode_record(
        topic=b"single",
        queue=0,
        body=b"x",
        properties=encode_properties(properties),
        born_time_ms=born_time_ms,
        log_offset=0x1F,
        store_time_ms=1_700_000_000_124,
    )
    return decode_record(data, 0)


def shown(found: Record) -> dict[str, object]:
    return dict(msgspec.to_builtins(message_of(found)))


def test_a_record_without_an_id_is_named_by_where_it_lies() -> None:
    message = shown(record({}))

    assert message["message_id"] == "0" * 16 + "000000000000001F"


def test_a_living_message_has_no_origin() -> None:
    message = shown(record({"TAGS": "TagA"}))

    assert "origin_topic" not in message
    assert "origin_message_id" not in message


@pytest.mark.parametrize(
    ("properties", "topic", "message_id"),
    [
        ({"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "A1"}, "orders", "A1"),
        (
            {
                "RETRY_TOPIC": "orders",
                "ORIGIN_MESSAGE_ID": "A1",
                "DLQ_ORIGIN_TOPIC": "first",
                "DLQ_ORIGIN_MESSAGE_ID": "B2",
            },
            "first",
            "B2",
        ),
    ],
)
def test_a_retried_or_dead_message_tells_where_it_came_from(
    properties: dict[str, str], topic: str, message_id: str
) -> None:
    message = shown(record(properties))

    assert (message["origin_topic"], message["origin_message_id"]) == (topic, message_id)


@pytest.mark.parametrize("born_time_ms", [0, -1, 2**63 - 1, 253_402_300_800_000])
def test_a_born_time_that_is_no_time_is_unknown(born_time_ms: int) -> None:
    assert shown(record({}, born_time_ms=born_time_ms))["born_time"] is None


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_utc_with_milliseconds(time_ms: int, text: str) -> None:
    assert rfc3339(time_ms) == text


@pytest.mark.parametrize(
    ("expression", "tag", "expected"),
    [
        ("Aa", "BB", True),
        ("Aa", "Aa", False),
        ("Aa || BB", "BB", False),
        ("*", "BB", False),
        ("", "BB", False),
        # Handed out for another reason than its hash: not the door's to drop.
        ("Aa", "TagA", False),
    ],
)
def test_only_another_tag_with_the_same_hash_is_a_collision(
    expression: str, tag: str, expected: bool
) -> None:
    tag_filter = TagFilter(expression, FilterType.TAG)

    assert tag_filter.is_collision(record({"TAGS": tag})) is expected


def test_a_condition_has_no_collisions() -> None:
    tag_filter = TagFilter("Aa = 'x'", FilterType.SQL92)

    assert not tag_filter.is_collision(record({"TAGS": "BB"}))
