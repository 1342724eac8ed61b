"""The property section of a record: `name 0x01 value 0x02`, repeated. Knows bytes and text only."""

from collections.abc import Mapping, Sequence

from mqclient.errors import InvalidArgument, MessageTooLarge
from mqclient.limits import PROPERTIES_BYTES_MAX

TAG = "TAGS"
KEYS = "KEYS"
UNIQUE_KEY = "UNIQ_KEY"
SHARDING_KEY = "__SHARDINGKEY"
PRODUCER_ID = "PRODUCER_ID"
PRODUCER_SEQUENCE = "PRODUCER_SEQ"
DELAY_LEVEL = "DELAY"
DELAY_MS = "TIMER_DELAY_MS"
DELIVER_AT_MS = "TIMER_DELIVER_MS"
DUE_MS = "TIMER_OUT_MS"
PRIORITY = "_SYS_MSG_PRIORITY_"
DELAYED_BY_LEVEL = "TIMER_DELAY_LEVEL"
ORIGIN_TOPIC = "RETRY_TOPIC"
ORIGIN_QUEUE = "ORIGIN_QUEUE"
ORIGIN_OFFSET = "ORIGIN_OFFSET"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RETRY_HISTORY = "RETRY_HISTORY"
# What the broker takes for its own; RocketMQ has more such names, which it refuses by itself.
RESERVED = frozenset(
    {
        TAG, KEYS, UNIQUE_KEY, SHARDING_KEY, PRODUCER_ID, PRODUCER_SEQUENCE, DELAY_LEVEL, DELAY_MS,
        DELIVER_AT_MS, ORIGIN_TOPIC, ORIGIN_MESSAGE_ID, RETRY_HISTORY, "TIMER_DELAY_SEC",
        DUE_MS, DELAYED_BY_LEVEL, "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "PGROUP",
        "__transactionId__", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID", ORIGIN_QUEUE,
        ORIGIN_OFFSET, PRIORITY,
    }
)  # fmt: skip

UNIQUE_KEY_START = b"UNIQ_KEY\x01"


def _checked(text: str, what: str) -> str:
    if "\x01" in text or "\x02" in text:
        raise InvalidArgument(f"{what} {text!r} holds a byte 1 or 2, which separate properties")
    return text


def _checked_tag(tag: str) -> str:
    if not tag or "||" in tag or tag != tag.strip():
        raise InvalidArgument(f"tag {tag!r} is empty, has blanks around it or holds ||")
    return _checked(tag, "tag")


def _checked_key(key: str) -> str:
    if key.split() != [key]:
        raise InvalidArgument(f"key {key!r} is empty or holds a blank, which separates keys")
    return _checked(key, "key")


def pack_properties(
    *,
    tag: str | None = None,
    keys: Sequence[str] = (),
    sharding_key: str | None = None,
    properties: Mapping[str, str] | None = None,
    system: Mapping[str, str] | None = None,
) -> bytes:
    """Return what all messages of this description share; the tag comes first.

    `system` are properties of reserved names, such as delays.

    Raise InvalidArgument for text that cannot be carried or a reserved name.
    """
    parts = []
    if tag is not None:
        parts.append(f"{TAG}\x01{_checked_tag(tag)}\x02")
    if keys:
        parts.append(f"{KEYS}\x01{' '.join(map(_checked_key, keys))}\x02")
    if sharding_key is not None:
        parts.append(f"{SHARDING_KEY}\x01{_checked(sharding_key, 'sharding key')}\x02")
    for name, value in (properties or {}).items():
        if not name or name in RESERVED:
            raise InvalidArgument(f"property name {name!r} is empty or reserved")
        parts.append(f"{_checked(name, 'property name')}\x01{_checked(value, 'property')}\x02")
    parts += [f"{name}\x01{value}\x02" for name, value in (system or {}).items()]
    try:
        return "".join(parts).encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"a property is not valid text: {error}") from error


def with_unique_key(shared: bytes, unique_key: bytes, *, room_bytes: int = 0) -> bytes:
    """Return the section with the message's id added.

    Raise MessageTooLarge over the limit, to which `room_bytes` are still to be added.
    """
    section = b"%b%b%b\x02" % (shared, UNIQUE_KEY_START, unique_key)
    if len(section) + room_bytes > PROPERTIES_BYTES_MAX:
        raise MessageTooLarge(
            f"properties are {len(section)} bytes, at most {PROPERTIES_BYTES_MAX} allowed"
        )
    return section


def unpack_properties(section: bytes) -> dict[str, str]:
    """Return the properties; a missing final separator and bytes that are no UTF-8 are borne."""
    found = {}
    for item in section.decode("utf-8", "replace").split("\x02"):
        name, separator, value = item.partition("\x01")
        if separator:
            found[name] = value
    return found
