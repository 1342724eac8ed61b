"""The binary media type against bytes written out by hand from docs/FORMAT.md section 7."""

import struct
import zlib

import numpy as np
import pytest

from apps.engine.codec import wire
from apps.engine.errors import BatchTooLarge, ChecksumMismatch, EngineError, MalformedBatch
from apps.engine.types import (
    Appended,
    Lease,
    MessageBlock,
    PullResult,
    PullStatus,
    ReceiveResult,
)


def batch_by_hand(payload: bytes, sizes: list[int], *, magic: bytes = b"MQB1") -> bytes:
    rest = struct.pack(f">{len(sizes)}i", *sizes) + payload
    return struct.pack(">4sIII", magic, len(sizes), len(payload), zlib.crc32(rest)) + rest


def block(
    payload: bytes, sizes: list[int], *, topic: str = "orders", queue: int = 2
) -> MessageBlock:
    return MessageBlock(
        topic=topic, queue=queue, payload=payload, sizes=np.array(sizes, dtype=np.int32)
    )


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_a_batch_is_split_into_payload_and_sizes(kind: type) -> None:
    data = kind(batch_by_hand(b"firstsecond", [5, 6]))

    payload, sizes = wire.parse_batch(data)

    assert payload == b"firstsecond"
    assert isinstance(payload, bytearray)
    assert sizes.dtype == np.int32
    assert sizes.tolist() == [5, 6]


def test_a_bytearray_becomes_the_payload_without_a_copy() -> None:
    data = bytearray(batch_by_hand(b"firstsecond", [5, 6]))

    payload, _ = wire.parse_batch(data)

    assert payload is data


def test_bytes_are_left_as_they_were() -> None:
    data = batch_by_hand(b"one", [3])

    payload, _ = wire.parse_batch(data)
    payload[:] = b"two"

    assert data == batch_by_hand(b"one", [3])


def test_a_batch_without_records_is_well_formed() -> None:
    payload, sizes = wire.parse_batch(batch_by_hand(b"", []))

    assert payload == b""
    assert sizes.tolist() == []


GOOD = batch_by_hand(b"firstsecond", [5, 6])


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(b"", MalformedBatch, id="nothing"),
        pytest.param(GOOD[:15], MalformedBatch, id="half a header"),
        pytest.param(GOOD[:-1], MalformedBatch, id="one byte short"),
        pytest.param(GOOD + b"x", MalformedBatch, id="one byte long"),
        pytest.param(batch_by_hand(b"ab", [2], magic=b"MQB2"), MalformedBatch, id="magic"),
        pytest.param(batch_by_hand(b"ab", [3]), MalformedBatch, id="sizes above the payload"),
        pytest.param(batch_by_hand(b"ab", [1]), MalformedBatch, id="sizes below the payload"),
        pytest.param(batch_by_hand(b"ab", [3, -1]), MalformedBatch, id="a negative size"),
        pytest.param(batch_by_hand(b"ab", [2, 0]), MalformedBatch, id="a size of zero"),
        pytest.param(
            batch_by_hand(b"", [2**31 - 1] * 2 + [2]), MalformedBatch, id="a sum beyond 32 bits"
        ),
        pytest.param(
            struct.pack(">4sIII", b"MQB1", 65_537, 0, 0), BatchTooLarge, id="too many records"
        ),
        pytest.param(struct.pack(">4sIII", b"MQB1", 65_536, 0, 0), MalformedBatch, id="no table"),
    ],
)
def test_a_batch_that_does_not_agree_with_itself_is_refused(
    data: bytes, error: type[EngineError]
) -> None:
    with pytest.raises(error):
        wire.parse_batch(data)


@pytest.mark.parametrize("bit", range(8 * len(GOOD)))
def test_every_flipped_bit_is_noticed(bit: int) -> None:
    data = bytearray(GOOD)
    data[bit // 8] ^= 1 << bit % 8

    with pytest.raises((MalformedBatch, ChecksumMismatch, BatchTooLarge)):
        wire.parse_batch(data)


def test_a_refused_bytearray_is_left_as_it_was() -> None:
    data = bytearray(GOOD)
    data[-1] ^= 1

    with pytest.raises(ChecksumMismatch):
        wire.parse_batch(data)

    assert len(data) == len(GOOD)


def test_a_built_batch_has_the_documented_bytes() -> None:
    built = wire.build_batch(bytearray(b"firstsecond"), np.array([5, 6], dtype=np.int32))

    assert built == GOOD


def test_an_append_answer_has_the_documented_bytes() -> None:
    appended = Appended(
        topic="orders",
        queue=2,
        queue_offset=2**40,
        count=3,
        log_offset=99,
        store_time_ms=1_700_000_000_123,
    )

    built = wire.build_appended(appended)

    assert built == b"MQA1" + struct.pack(">Iqq", 3, 2**40, 1_700_000_000_123)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (PullStatus.FOUND, 0),
        (PullStatus.NO_NEW_MSG, 1),
        (PullStatus.NO_MATCHED_MSG, 2),
        (PullStatus.OFFSET_ILLEGAL, 3),
    ],
)
def test_a_pull_answer_has_the_documented_bytes(status: PullStatus, code: int) -> None:
    result = PullResult(
        status=status, block=block(b"abc", [1, 2]), next_offset=7, min_offset=5, max_offset=2**40
    )

    built = b"".join(wire.build_pull(result))

    head = b"MQP1" + struct.pack(">Iqqq", code, 7, 5, 2**40)
    assert built == head + batch_by_hand(b"abc", [1, 2])


def test_a_receive_answer_has_the_documented_bytes() -> None:
    lease = Lease(
        token="1f-0badcafe",
        attempt=2,
        invisible_until_ms=1_700_000_000_123,
        block=block(b"abc", [1, 2], topic="%RETRY%g", queue=3),
    )
    result = ReceiveResult(leases=(lease,), blocked=(("orders", 9),))

    built = b"".join(wire.build_receive(result))

    assert built == (
        b"MQR1"
        + struct.pack(">II", 1, 1)
        + struct.pack(">H", 11)
        + b"1f-0badcafe"
        + struct.pack(">H", 8)
        + b"%RETRY%g"
        + struct.pack(">IIq", 3, 2, 1_700_000_000_123)
        + batch_by_hand(b"abc", [1, 2])
        + struct.pack(">H", 6)
        + b"orders"
        + struct.pack(">I", 9)
    )


def test_a_receive_answer_without_messages_has_twelve_bytes() -> None:
    assert b"".join(wire.build_receive(ReceiveResult(leases=()))) == b"MQR1" + bytes(8)
