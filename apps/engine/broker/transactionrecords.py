"""The records of a transaction: half message, message, decision, and what is given up.

Knows records and RocketMQ's properties; not when each is written.
"""

from dataclasses import replace

import numpy as np

from apps.engine.broker.produce import CheckedBatch
from apps.engine.broker.readback import batch_of
from apps.engine.codec.batch import stamp, starts_of
from apps.engine.codec.copies import copy_record
from apps.engine.codec.layout import GIVEN_UP_TOPIC, HALF_OP_TOPIC, HALF_TOPIC
from apps.engine.codec.properties import (
    DELAY,
    PGROUP,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRAN_MSG,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    encode_properties,
)
from apps.engine.codec.record import Record, encode_record
from apps.engine.codec.tags import tag_hash
from apps.engine.limits import PROPERTIES_BYTES_MAX
from apps.engine.types import MessageBlock

# RocketMQ's system flag says in two bits what a record is to a transaction.
SYS_FLAG_TRANSACTION = 0b1100
SYS_FLAG_COMMITTED = 0b1000
# The tag of a decision, RocketMQ's for "the half message is done".
_DONE = "d"
# A half message waits for its decision, so RocketMQ takes no other delay of it.
_IGNORED = (DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
# What a half message has besides, and the message that it becomes has not.
_OF_HALF = frozenset({REAL_TOPIC, REAL_QID, TRANSACTION_CHECK_TIMES})
_DONE_PROPERTIES = encode_properties({TAGS: _DONE})


def half_batch(record: Record, *, producer_group: str, transaction_id: str) -> CheckedBatch:
    """Return a producer's message as a half message. Raises MessageTooLarge."""
    properties = {
        name: value for name, value in record.properties.items() if name not in _IGNORED
    } | {
        REAL_TOPIC: record.topic,
        REAL_QID: str(record.queue),
        PGROUP: producer_group,
        TRAN_MSG: "true",
        TRANSACTION_ID: transaction_id,
    }
    plain = replace(record, sys_flag=record.sys_flag & ~SYS_FLAG_TRANSACTION, prepared_offset=0)
    return _batch(plain, HALF_TOPIC, 0, properties)


def real_batch(half: Record, *, topic: str, queue: int) -> CheckedBatch:
    """Return a half message as the message it is once it is committed."""
    sys_flag = half.sys_flag & ~SYS_FLAG_TRANSACTION | SYS_FLAG_COMMITTED
    committed = replace(half, sys_flag=sys_flag, prepared_offset=half.log_offset)
    return _batch(committed, topic, queue, _real_properties(half))


def given_up_batch(half: Record, *, checks: int) -> CheckedBatch:
    """Return a half message as a message of those that nobody decided about.

    How often its producers were asked goes with it, as in RocketMQ; not where it has no room.
    """
    properties = {**half.properties, TRANSACTION_CHECK_TIMES: str(checks)}
    if len(encode_properties(properties)) > PROPERTIES_BYTES_MAX:
        properties = dict(half.properties)
    return _batch(half, GIVEN_UP_TOPIC, 0, properties)


def decision_batch(half_offset: int, *, now_ms: int) -> CheckedBatch:
    """Return the op record that says that a half message is decided."""
    record = encode_record(
        topic=HALF_OP_TOPIC.encode(),
        queue=0,
        body=str(half_offset).encode(),
        properties=_DONE_PROPERTIES,
        born_time_ms=now_ms,
    )
    return batch_of(HALF_OP_TOPIC, 0, [record], [tag_hash(_DONE)])


def check_block(half: Record) -> MessageBlock:
    """Return a half message as its producer knows it: its topic and queue, and the half's stamps.

    The queue offset is that among half messages.
    """
    topic, queue = half.properties[REAL_TOPIC], int(half.properties[REAL_QID])
    payload = bytearray(
        copy_record(half, topic=topic, queue=queue, properties=_real_properties(half))
    )
    sizes = np.array([len(payload)], dtype=np.int32)
    stamp(
        payload,
        starts_of(sizes),
        queue_offset=half.queue_offset,
        log_offset=half.log_offset,
        store_time_ms=half.store_time_ms,
        store_host=half.store_host,
    )
    return MessageBlock(topic=topic, queue=queue, payload=payload, sizes=sizes)


def _real_properties(half: Record) -> dict[str, str]:
    return {name: value for name, value in half.properties.items() if name not in _OF_HALF}


def _batch(record: Record, topic: str, queue: int, properties: dict[str, str]) -> CheckedBatch:
    copy = copy_record(record, topic=topic, queue=queue, properties=properties)
    return batch_of(topic, queue, [copy], [tag_hash(properties.get(TAGS, ""))])
