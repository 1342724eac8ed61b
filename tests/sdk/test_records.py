"""The client's own codec against the vectors of the format, and against damage."""

import os
import re
import struct

import pytest
from mqclient.errors import CorruptMessage, InvalidArgument, MessageTooLarge, ProtocolViolation
from mqclient.limits import BODY_BYTES_MAX
from mqclient.wire.checksums import BODY_CRC_MASK, crc32
from mqclient.wire.hashing import java_string_hash, queue_by_hash
from mqclient.wire.ids import IdMaker, local_address
from mqclient.wire.properties import pack_properties, unpack_properties, with_unique_key
from mqclient.wire.records import Lease, pack_record, topic_part, unpack_records

from tests.sdk.fake_broker import make_record

HOST = bytes((10, 0, 0, 1, 0, 0, 0, 9))


def packed(body: bytes = b"hello", properties: bytes = b"", queue: int = 3) -> bytes:
    return pack_record(topic_part("T"), queue, body, properties, 1_700_000_000_123, HOST)


def test_the_smallest_example_of_the_format_is_97_bytes_long() -> None:
    record = packed()

    assert len(record) == 97
    assert struct.unpack_from(">i", record)[0] == 97


def test_the_body_checksum_of_hello_is_the_published_one() -> None:
    record = packed()

    assert struct.unpack_from(">i", record, 8)[0] == 907_060_870


def test_every_field_lies_where_the_format_says() -> None:
    record = packed(b"ab", b"TAGS\x01x\x02", queue=7)

    assert record[4:8] == bytes.fromhex("DAA320A7")
    assert struct.unpack_from(">iiqqiq", record, 12) == (7, 0, 0, 0, 0, 1_700_000_000_123)
    assert record[48:56] == HOST
    assert record[56:84] == bytes(28)
    assert record[84:] == b"\0\0\0\2ab" + b"\1T" + b"\0\7TAGS\x01x\x02"


def test_a_body_checksum_never_shows_a_sign() -> None:
    body = next(
        data for data in (bytes((number,)) for number in range(256)) if crc32(data) >= 1 << 31
    )

    record = packed(body)

    assert struct.unpack_from(">i", record, 8)[0] == crc32(body) & BODY_CRC_MASK


def test_a_body_over_the_limit_is_refused() -> None:
    with pytest.raises(MessageTooLarge):
        packed(bytes(BODY_BYTES_MAX + 1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("TagA", 2_598_919),
        ("TagB", 2_598_920),
        ("order_123", -391_307_839),
        ("TopicTest#KEY1", -1_656_969_516),
        ("polygenelubricants", -2_147_483_648),
        ("中文", 646_394),
    ],
)
def test_text_hashes_as_in_java(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_a_character_outside_the_basic_plane_hashes_as_two_units() -> None:
    assert java_string_hash("😀") == 31 * 0xD83D + 0xDE00


def test_the_key_with_the_smallest_hash_goes_to_queue_0() -> None:
    assert queue_by_hash("polygenelubricants", 7) == 0


def test_a_negative_hash_chooses_by_its_absolute_value() -> None:
    assert queue_by_hash("order_123", 4) == 391_307_839 % 4


def test_a_record_reads_back_as_it_was_packed() -> None:
    shared = pack_properties(
        tag="TagA", keys=["k1", "k2"], sharding_key="user 7", properties={"colour": "rot"}
    )
    record = packed("grüße".encode(), with_unique_key(shared, b"A" * 32))

    (message,) = unpack_records(record, 0, [len(record)])

    assert message.topic == "T"
    assert message.queue == 3
    assert message.body == "grüße".encode()
    assert message.tag == "TagA"
    assert message.keys == ("k1", "k2")
    assert message.sharding_key == "user 7"
    assert message.properties["colour"] == "rot"
    assert message.message_id == "A" * 32
    assert message.born_time_ms == 1_700_000_000_123
    assert message.receipt_handle is None


def test_the_tag_comes_first_whatever_else_there_is() -> None:
    section = pack_properties(tag="x", keys=["k"], sharding_key="s", properties={"a": "b"})

    assert section.startswith(b"TAGS\x01x\x02")


def test_a_message_without_a_producers_id_is_named_by_its_place_in_the_log() -> None:
    record = bytearray(make_record("T", 0, b"x"))
    record[28:36] = struct.pack(">q", 0xABCDEF)
    record[64:72] = bytes((127, 0, 0, 1)) + struct.pack(">i", 8000)

    (message,) = unpack_records(bytes(record), 0, [len(record)])

    assert message.message_id == "7F00000100001F400000000000ABCDEF"
    assert message.log_offset == 0xABCDEF


def test_a_handle_is_the_token_and_the_queue_offset() -> None:
    record = make_record("T", 0, b"x")

    (message,) = unpack_records(record, 0, [len(record)], Lease("7-aa", 2, 99))

    assert message.receipt_handle == "7-aa:0"
    assert message.delivery_attempt == 2
    assert message.invisible_until_ms == 99


@pytest.mark.parametrize("position", [88, 90, 92])
def test_a_flipped_bit_in_a_body_is_found(position: int) -> None:
    record = bytearray(packed())
    record[position] ^= 4

    with pytest.raises(CorruptMessage) as raised:
        unpack_records(bytes(record), 0, [len(record)])

    assert raised.value.queue == 3


@pytest.mark.parametrize("position", [0, 4, 84])
def test_a_record_with_a_damaged_frame_is_no_record(position: int) -> None:
    record = bytearray(packed())
    record[position] ^= 0x40

    with pytest.raises(ProtocolViolation):
        unpack_records(bytes(record), 0, [len(record)])


def test_properties_without_a_final_separator_are_read() -> None:
    assert unpack_properties(b"a\x01b\x02c\x01d") == {"a": "b", "c": "d"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"tag": ""},
        {"tag": "a||b"},
        {"tag": "a\x01"},
        {"keys": ["a b"]},
        {"keys": [""]},
        {"properties": {"TAGS": "x"}},
        {"properties": {"UNIQ_KEY": "x"}},
        {"properties": {"": "x"}},
        {"properties": {"a": "\x02"}},
        {"properties": {"a": "\ud800"}},
    ],
)
def test_a_property_that_cannot_travel_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        pack_properties(**wrong)  # type: ignore[arg-type]  # Wrong on purpose.


def test_properties_over_the_limit_are_refused() -> None:
    shared = pack_properties(properties={"a": "x" * 32_760})

    with pytest.raises(MessageTooLarge):
        with_unique_key(shared, b"A" * 32)


def test_an_id_tells_address_process_and_time_of_the_month() -> None:
    moment_ms = 1_709_251_200_000 - 1  # The last of February 2024, a leap year.

    made = IdMaker().next(moment_ms).decode()

    assert re.fullmatch("[0-9A-F]{32}", made)
    assert made[:8] == local_address().hex().upper()
    assert int(made[8:12], 16) == os.getpid() & 0xFFFF
    assert int(made[20:28], 16) == 29 * 86_400_000 - 1


def test_the_time_in_an_id_starts_anew_with_the_month() -> None:
    maker = IdMaker()
    maker.next(1_709_251_200_000 - 1)

    made = maker.next(1_709_251_200_000)

    assert int(made[20:28], 16) == 0


def test_ids_of_one_millisecond_differ() -> None:
    maker = IdMaker()

    made = {maker.next(1_700_000_000_000) for _ in range(1 << 16)}

    assert len(made) == 1 << 16


def test_a_forked_child_makes_other_ids_than_its_parent() -> None:
    from mqclient.wire.ids import IDS

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, IDS.next(1_700_000_000_000))
        os._exit(0)
    os.waitpid(child, 0)
    of_child = os.read(reading, 32)
    os.close(reading)
    os.close(writing)

    of_parent = IDS.next(1_700_000_000_000)

    assert of_child[12:20] != of_parent[12:20]
