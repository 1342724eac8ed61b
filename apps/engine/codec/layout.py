"""Every on-disk record and entry: dtypes, magics, sizes. Knows numbers only.

The format is RocketMQ 4.9's (V1 records, 20-byte consume-queue entries); docs/FORMAT.md draws it.
Fields are big-endian and unaligned, so a dtype is a window, never a working array.
"""

import numpy as np

RECORD_MAGIC = -626843481  # 0xDAA320A7
FILLER_MAGIC = -875286124  # 0xCBD43194
FILLER_BYTES = 8

# The part of a V1 record with IPv4 hosts before its body.
RECORD_HEADER = np.dtype(
    [
        ("total_bytes", ">i4"),
        ("magic", ">i4"),
        ("body_crc", ">i4"),
        ("queue", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("log_offset", ">i8"),
        ("sys_flag", ">i4"),
        ("born_time_ms", ">i8"),
        ("born_host", "u1", 8),
        ("store_time_ms", ">i8"),
        ("store_host", "u1", 8),
        ("reconsume_times", ">i4"),
        ("prepared_offset", ">i8"),
        ("body_bytes", ">i4"),
    ]
)
RECORD_HEADER_BYTES = 88
# Header, topic length (one byte) and properties length (two bytes).
RECORD_FIXED_BYTES = 91

# struct's notation of the same header.
RECORD_STRUCT = ">iiiiiqqiq8sq8siqi"

# Where the broker's stamps lie: queue offset and log offset side by side, then time and host.
STAMP_OFFSETS = slice(20, 36)
STAMP_STORE = slice(56, 72)

SYS_FLAG_BORN_IPV6 = 1 << 4
SYS_FLAG_STORE_IPV6 = 1 << 5

QUEUE_ENTRY = np.dtype([("log_offset", ">i8"), ("size_bytes", ">i4"), ("tag_hash", ">i8")])
QUEUE_ENTRY_BYTES = 20

FRAME_TOPIC = b"rmq_sys_frame"
JOURNAL_TOPIC = "rmq_sys_consumer_state"
# Messages with a delay of their own, many to a record (docs/FORMAT.md).
TIMER_TOPIC = "rmq_sys_wheel_timer"
# RocketMQ's: a queue for each delay level; half messages, decisions on them, and those given up.
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
# What consumers tell of their work (docs/FORMAT.md); the one topic of ours that clients write to.
TRACE_TOPIC = "rmq_sys_trace"
TRACE_VERSION = 1
# The result of a delayed message that was taken back before its time.
TRACE_RECALLED = "recalled"
RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
# A lite topic: the prefix, its parent, a bar and its name. Records name it in the property.
LITE_PREFIX = "%LITE%"
LITE_PROPERTY = "__LITE_TOPIC"
# Topics no client may create or delete, nor, but for the traces, write to.
SYSTEM_PREFIX = "rmq_sys_"

# RocketMQ clears the sign bit of every body checksum.
BODY_CRC_MASK = 0x7FFFFFFF

assert RECORD_HEADER.itemsize == RECORD_HEADER_BYTES
assert QUEUE_ENTRY.itemsize == QUEUE_ENTRY_BYTES
assert RECORD_HEADER.fields is not None
assert RECORD_HEADER.fields["queue_offset"][1] == STAMP_OFFSETS.start
assert RECORD_HEADER.fields["store_time_ms"][1] == STAMP_STORE.start
