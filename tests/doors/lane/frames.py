"""A client's side of the lane for the door's tests, by `struct` alone."""

import struct
from typing import Any, NamedTuple

import numpy as np

from apps.engine.codec import wire
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record

ACKS = {"": 0, "sync": 1, "async": 2, "oneway": 3}


class Answer(NamedTuple):
    """One answer's frame, taken apart."""

    number: int
    status: int
    kind: int
    retry_after_s: int
    body: bytes


def batch(*bodies: bytes, topic: str = "orders", queue: int = 0, **properties: str) -> bytes:
    """Return an MQB1 batch of one record a body."""
    records = [
        encode_record(
            topic=topic.encode(),
            queue=queue,
            body=body,
            properties=encode_properties(properties),
            born_time_ms=1,
            born_host=bytes(8),
        )
        for body in bodies
    ]
    sizes = np.array([len(record) for record in records], dtype=np.int32)
    return wire.build_batch(b"".join(records), sizes)


def frame(
    number: int,
    body: bytes,
    *,
    topic: str = "orders",
    queue: int = 0,
    flags: int = 0,
    verb: int = 1,
) -> bytes:
    name = topic.encode()
    head = struct.pack(">IIBBHI", 12 + len(name) + len(body), number, verb, flags, len(name), queue)
    return head + name + body


def answers(data: bytes) -> list[Answer]:
    """Return all answers of what was written; there must be nothing else."""
    found: list[Answer] = []
    while data:
        length, *head = struct.unpack_from(">IIHBB", data)
        assert len(data) >= 4 + length
        found.append(Answer(*head, data[12 : 4 + length]))
        data = data[4 + length :]
    return found


def appended(answer: Answer) -> tuple[Any, ...]:
    """Return count and first offset of an MQA1 body."""
    magic, count, offset, _ = struct.unpack(">4sIqq", answer.body)
    assert magic == b"MQA1"
    return count, offset
