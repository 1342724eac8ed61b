"""Message properties: mapping to bytes and back. `name 0x01 value 0x02`, as in RocketMQ."""

from collections.abc import Iterable, Mapping

from apps.engine.errors import MalformedBatch

TAGS = "TAGS"
KEYS = "KEYS"
UNIQ_KEY = "UNIQ_KEY"
SHARDING_KEY = "__SHARDINGKEY"
PRODUCER_ID = "PRODUCER_ID"
PRODUCER_SEQ = "PRODUCER_SEQ"
DELAY = "DELAY"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL"
REAL_TOPIC = "REAL_TOPIC"
REAL_QID = "REAL_QID"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"
TRAN_MSG = "TRAN_MSG"
PGROUP = "PGROUP"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PRIORITY = "_SYS_MSG_PRIORITY_"
TRACE_CONTEXT = "TRACE_CONTEXT"
BORN_HOST = "__BORNHOST"

# This product's own: where a failed message lay, each of its attempts, how many properties had no
# room beside them, and who sent it again.
LOST_PROPERTIES = "LOST_PROPERTIES"
ORIGIN_QUEUE = "ORIGIN_QUEUE"
ORIGIN_OFFSET = "ORIGIN_OFFSET"
RETRY_HISTORY = "RETRY_HISTORY"
RESENT_BY = "RESENT_BY"
RESENT_AT_MS = "RESENT_AT_MS"
# Which client sent a half message, so that it is the first to be asked about it.
PRODUCER_CLIENT = "PRODUCER_CLIENT"

# Names of RocketMQ's own properties: a user may not set them under `properties`.
RESERVED = frozenset(
    """
    KEYS TAGS WAIT DELAY TIMER_DELAY_SEC TIMER_DELAY_MS TIMER_DELIVER_MS __SHARDINGKEY
    _SYS_MSG_PRIORITY_ __LITE_TOPIC BUYER_ID INSTANCE_ID UNIQ_KEY EXTEND_UNIQ_INFO
    ORIGIN_MESSAGE_ID CLUSTER MSG_REGION TRACE_ON __BORNHOST BORN_TIMESTAMP PGROUP RETRY_TOPIC
    RECONSUME_TIME MAX_RECONSUME_TIMES CONSUME_START_TIME DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID
    REAL_TOPIC REAL_QID MIN_OFFSET MAX_OFFSET TRAN_MSG __transactionId__ TRANSACTION_CHECK_TIMES
    CHECK_IMMUNITY_TIME_IN_SECONDS TRAN_PREPARED_QUEUE_OFFSET CORRELATION_ID REPLY_TO_CLIENT TTL
    ARRIVE_TIME PUSH_REPLY_TIME MSG_TYPE POP_CK POP_CK_OFFSET 1ST_POP_TIME TIMER_OUT_MS
    TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL
    INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET INNER_NUM INNER_BASE DUP_INFO TRACE_CONTEXT
    PROPERTY_FORWARD_QUEUE_ID REDIRECT TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG __CRC32#
    PRODUCER_ID PRODUCER_SEQ ORIGIN_QUEUE ORIGIN_OFFSET RETRY_HISTORY RESENT_BY RESENT_AT_MS
    LOST_PROPERTIES PRODUCER_CLIENT
    """.split()
)


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Return the bytes of a mapping, `TAGS` first.

    Raises MalformedBatch when a name is empty or a name or value holds 0x01 or 0x02.
    """
    items: Iterable[tuple[str, str]] = properties.items()
    if TAGS in properties:
        items = sorted(items, key=_tags_first)
    text = "\x02".join(["\x01".join(item) for item in items])
    count = len(properties)
    if text.count("\x01") != count or text.count("\x02") != max(count - 1, 0) or "" in properties:
        raise MalformedBatch("a property name is empty, or a name or value holds 0x01 or 0x02")
    try:
        return (text + "\x02").encode() if count else b""
    except UnicodeEncodeError as error:
        raise MalformedBatch("a property is not Unicode text") from error


def _tags_first(item: tuple[str, str]) -> bool:
    return item[0] != TAGS


def decode_properties(data: bytes) -> dict[str, str]:
    """Return the mapping of the bytes; a missing last 0x02 is tolerated, as RocketMQ does.

    Raises MalformedBatch when an item has no 0x01 or the bytes are not UTF-8.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedBatch("properties are not UTF-8") from error
    properties = {}
    for item in text.removesuffix("\x02").split("\x02") if text else ():
        name, separator, value = item.partition("\x01")
        if not separator or not name:
            raise MalformedBatch("a property has no name or no value")
        properties[name] = value
    return properties
