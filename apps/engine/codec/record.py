"""One record: encode, decode. Knows one message's bytes; batches and frames are next door."""

import struct
from dataclasses import dataclass

from apps.engine.codec import layout
from apps.engine.codec.checksum import Buffer, body_crc
from apps.engine.codec.ids import offset_id
from apps.engine.codec.properties import UNIQ_KEY, decode_properties

_HEADER = struct.Struct(layout.RECORD_STRUCT)
_LENGTH = struct.Struct(">h")
_NO_HOST = bytes(8)

assert _HEADER.size == layout.RECORD_HEADER_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as read back."""

    topic: str
    queue: int
    queue_offset: int
    log_offset: int
    size_bytes: int
    flag: int
    sys_flag: int
    body: bytes
    body_crc: int
    properties: dict[str, str]
    born_time_ms: int
    born_host: bytes
    store_time_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_offset: int

    @property
    def message_id(self) -> str:
        """Return the producer's unique id, or the offset id where it gave none."""
        return self.properties.get(UNIQ_KEY) or offset_id(self.store_host, self.log_offset)

    @property
    def is_intact(self) -> bool:
        """Say whether the body has the checksum it was sent with."""
        return body_crc(self.body) == self.body_crc


def encode_record(
    *,
    topic: bytes,
    queue: int,
    body: bytes,
    properties: bytes = b"",
    born_time_ms: int = 0,
    born_host: bytes = _NO_HOST,
    sys_flag: int = 0,
    flag: int = 0,
    log_offset: int = 0,
    store_time_ms: int = 0,
) -> bytes:
    """Return one record; the broker's stamps are zero unless given (a frame header gives them)."""
    total = layout.RECORD_FIXED_BYTES + len(body) + len(topic) + len(properties)
    header = encode_record_header(
        total, body, queue, flag, log_offset, sys_flag, born_time_ms, born_host, store_time_ms
    )
    return b"".join(
        (header, body, bytes((len(topic),)), topic, _LENGTH.pack(len(properties)), properties)
    )


def encode_record_header(
    total_bytes: int,
    body: Buffer,
    queue: int,
    flag: int,
    log_offset: int,
    sys_flag: int,
    born_time_ms: int,
    born_host: bytes,
    store_time_ms: int,
) -> bytes:
    """Return what stands before the body of a record that is `total_bytes` long.

    By position: one is made for every write, and names would double what the call costs.
    """
    return _HEADER.pack(
        total_bytes,
        layout.RECORD_MAGIC,
        body_crc(body),
        queue,
        flag,
        0,
        log_offset,
        sys_flag,
        born_time_ms,
        born_host,
        store_time_ms,
        _NO_HOST,
        0,
        0,
        len(body),
    )


def decode_record(view: memoryview | bytes | bytearray, start: int = 0) -> Record:
    """Return the record at `start`; its lengths must have been checked before."""
    (
        total,
        _magic,
        crc,
        queue,
        flag,
        queue_offset,
        log_offset,
        sys_flag,
        born_time_ms,
        born_host,
        store_time_ms,
        store_host,
        reconsume_times,
        prepared_offset,
        body_bytes,
    ) = _HEADER.unpack_from(view, start)
    body_start = start + layout.RECORD_HEADER_BYTES
    topic_start = body_start + body_bytes + 1
    topic_end = topic_start + view[topic_start - 1]
    properties_start = topic_end + 2
    (properties_bytes,) = _LENGTH.unpack_from(view, topic_end)
    return Record(
        topic=bytes(view[topic_start:topic_end]).decode(),
        queue=queue,
        queue_offset=queue_offset,
        log_offset=log_offset,
        size_bytes=total,
        flag=flag,
        sys_flag=sys_flag,
        body=bytes(view[body_start : body_start + body_bytes]),
        body_crc=crc,
        properties=decode_properties(
            bytes(view[properties_start : properties_start + properties_bytes])
        ),
        born_time_ms=born_time_ms,
        born_host=born_host,
        store_time_ms=store_time_ms,
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_offset=prepared_offset,
    )
