"""The frame header: every bit of it is protected."""

import numpy as np
import pytest

from apps.engine.codec.frame import (
    BadFrame,
    FrameHeader,
    decode_frame_header,
    encode_frame_header,
)


def _header(sizes: list[int]) -> FrameHeader:
    return FrameHeader(
        epoch=3,
        log_offset=1000,
        synced_log_offset=900,
        store_time_ms=1_700_000_000_000,
        store_id=bytes(range(16)),
        sizes=np.array(sizes, dtype=np.int32),
        payload_bytes=sum(sizes),
        payload_crc=0xDEADBEEF,
    )


def test_a_header_reads_back_as_written() -> None:
    header = _header([100, 200])

    found = decode_frame_header(memoryview(encode_frame_header(header)), log_offset=1000)

    assert found.sizes.tolist() == [100, 200]
    assert (found.epoch, found.synced_log_offset, found.payload_crc) == (3, 900, 0xDEADBEEF)
    assert found.header_bytes == 168 + 8
    assert found.end == 1000 + 176 + 300


def test_every_flipped_bit_is_noticed() -> None:
    encoded = encode_frame_header(_header([100, 200]))

    for bit in range(8 * len(encoded)):
        damaged = bytearray(encoded)
        damaged[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(BadFrame):
            decode_frame_header(memoryview(damaged), log_offset=1000)


def test_every_shortened_header_is_noticed() -> None:
    encoded = encode_frame_header(_header([100, 200]))

    for length in range(len(encoded)):
        with pytest.raises(BadFrame):
            decode_frame_header(memoryview(encoded[:length]), log_offset=1000)


def test_a_header_at_another_place_is_refused() -> None:
    with pytest.raises(BadFrame):
        decode_frame_header(memoryview(encode_frame_header(_header([100]))), log_offset=1001)


def test_zeros_are_not_a_header() -> None:
    with pytest.raises(BadFrame):
        decode_frame_header(memoryview(bytes(4096)), log_offset=0)
