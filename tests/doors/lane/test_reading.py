"""What a connection receives becomes the same requests wherever the bytes are cut."""

import random

import pytest

from apps.doors.lane.frames import BadFrame, FrameReader, Request
from tests.doors.lane.frames import frame

KIB = 1024


def receive(reader: FrameReader, data: bytes, sizes: list[int]) -> list[Request]:
    """Give the reader the bytes in pieces of at most these sizes, over and over."""
    found: list[Request] = []
    at = turn = 0
    while at < len(data):
        room = reader.buffer()
        count = min(len(room), sizes[turn % len(sizes)], len(data) - at)
        room[:count] = data[at : at + count]
        room.release()
        found += reader.received(count)
        if reader.is_large_whole:
            found.append(reader.take_large())
        at += count
        turn += 1
    return found


@pytest.mark.parametrize("seed", range(8))
def test_frames_small_and_large_are_found_wherever_they_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    lengths = [rng.choice([0, 1, 100, 64 * KIB - 20, 64 * KIB, 200 * KIB]) for _ in range(12)]
    bodies = [rng.randbytes(length) for length in lengths]
    data = b"".join(frame(number, body) for number, body in enumerate(bodies))
    reader = FrameReader(bytes_max=1024 * KIB, admit=lambda _: None)

    found = receive(reader, data, [rng.randrange(1, 100 * KIB) for _ in range(5)])

    assert [(one.number, one.name, bytes(one.body)) for one in found] == [
        (number, b"orders", body) for number, body in enumerate(bodies)
    ]


def test_a_large_frame_without_room_is_dropped_and_the_next_is_read() -> None:
    refusal = RuntimeError("no room")
    reader = FrameReader(bytes_max=1024 * KIB, admit=lambda _: refusal)
    data = frame(1, bytes(300 * KIB), flags=2) + frame(2, b"small")

    large, small = receive(reader, data, [50 * KIB])

    assert (large.number, large.flags, large.body, large.refused) == (1, 2, b"", refusal)
    assert (small.number, small.body, small.refused) == (2, b"small", None)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (frame(7, bytes(2 * KIB)), "at most"),
        (b"\x00\x00\x00\x0b" + frame(7, b"")[4:], "shorter"),
        (b"\x00\x00\x00\x20" + frame(7, b"")[4:10] + b"\x00\xff" + bytes(24), "shorter"),
        (frame(7, b"", topic="t" * 999), "a name"),
    ],
    ids=["too long", "shorter than a head", "shorter than its name", "a long name"],
)
def test_a_frame_that_cannot_be_passed_over_is_told_by_its_number(bad: bytes, says: str) -> None:
    reader = FrameReader(bytes_max=KIB, admit=lambda _: None)

    with pytest.raises(BadFrame, match=says) as raised:
        receive(reader, bad, [64 * KIB])

    assert raised.value.number == 7
