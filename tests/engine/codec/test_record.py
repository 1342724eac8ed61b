"""One record there and back, and its bytes pinned."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from apps.engine.codec import layout
from apps.engine.codec.checksum import body_crc
from apps.engine.codec.ids import MessageIds, host_bytes, offset_id
from apps.engine.codec.properties import decode_properties, encode_properties
from apps.engine.codec.record import decode_record, encode_record
from apps.engine.errors import MalformedBatch

_TEXT = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"))


def test_the_smallest_example_has_the_published_length_and_checksum() -> None:
    record = encode_record(topic=b"T", queue=0, body=b"hello")

    assert len(record) == 97
    assert body_crc(b"hello") == 907060870
    assert record[:8].hex() == "00000061daa320a7"
    assert record[84:].hex() == "0000000568656c6c6f01540000"


@given(
    body=st.binary(max_size=300),
    properties=st.dictionaries(_TEXT.filter(bool), _TEXT, max_size=5),
    queue=st.integers(0, 1023),
    born=st.integers(0, 1 << 45),
)
def test_a_record_reads_back_as_written(
    body: bytes, properties: dict[str, str], queue: int, born: int
) -> None:
    encoded = encode_record(
        topic=b"orders",
        queue=queue,
        body=body,
        properties=encode_properties(properties),
        born_time_ms=born,
    )

    record = decode_record(b"..." + encoded, 3)

    assert (record.topic, record.queue, record.body) == ("orders", queue, body)
    assert record.properties == properties
    assert record.born_time_ms == born
    assert record.size_bytes == len(encoded)
    assert record.is_intact


def test_the_tag_stands_first_whatever_the_order_was() -> None:
    assert encode_properties({"a": "1", "TAGS": "t"}) == b"TAGS\x01t\x02a\x011\x02"


@pytest.mark.parametrize("properties", [{"": "x"}, {"a\x01": "x"}, {"a": "x\x02y"}])
def test_properties_that_could_not_be_read_back_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(MalformedBatch):
        encode_properties(properties)


@pytest.mark.parametrize("data", [b"name", b"\x01value\x02", b"a\x01\xff\x02", b"a\x01b\x02\x02"])
def test_properties_without_a_name_or_text_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedBatch):
        decode_properties(data)


def test_a_missing_last_separator_is_tolerated() -> None:
    assert decode_properties(b"a\x01b\x02c\x01d") == {"a": "b", "c": "d"}


def test_a_record_without_a_unique_key_is_named_by_its_place() -> None:
    record = decode_record(encode_record(topic=b"T", queue=0, body=b"", log_offset=97))

    assert record.message_id == offset_id(bytes(8), 97)
    assert offset_id(host_bytes("127.0.0.1", 8000), 97) == "7F00000100001F400000000000000061"


def test_ids_are_rocketmqs_length_and_differ() -> None:
    ids = MessageIds()

    made = {ids.new(wall_ms=1_700_000_000_000) for _ in range(1000)}

    assert len(made) == 1000
    assert {len(text) for text in made} == {32}


def test_the_header_is_88_bytes() -> None:
    assert layout.RECORD_HEADER.itemsize == 88
