"""A record written again elsewhere: another topic, queue and properties, the same message.

Knows one record's bytes. The body keeps the checksum it was sent with: a copy must not make a
damaged body look whole.
"""

import struct
from collections.abc import Mapping

from apps.engine.codec import layout
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import Record
from apps.engine.errors import MessageTooLarge
from apps.engine.limits import PROPERTIES_BYTES_MAX

_HEADER = struct.Struct(layout.RECORD_STRUCT)
_LENGTH = struct.Struct(">h")
_NO_HOST = bytes(8)


def copy_record(
    record: Record,
    *,
    topic: str,
    queue: int,
    properties: Mapping[str, str],
    reconsume_times: int | None = None,
) -> bytes:
    """Return the record for another place, unstamped; `reconsume_times` None keeps its own.

    Raises MessageTooLarge when the properties are longer than a record can say.
    """
    name, section = topic.encode(), encode_properties(properties)
    if len(section) > PROPERTIES_BYTES_MAX:
        raise MessageTooLarge(
            f"with what the engine adds, the properties are over {PROPERTIES_BYTES_MAX} bytes"
        )
    header = _HEADER.pack(
        layout.RECORD_FIXED_BYTES + len(record.body) + len(name) + len(section),
        layout.RECORD_MAGIC,
        record.body_crc,
        queue,
        record.flag,
        0,
        0,
        record.sys_flag,
        record.born_time_ms,
        record.born_host,
        0,
        _NO_HOST,
        record.reconsume_times if reconsume_times is None else reconsume_times,
        record.prepared_offset,
        len(record.body),
    )
    length = _LENGTH.pack(len(section))
    return b"".join((header, record.body, bytes((len(name),)), name, length, section))
