"""What an effect is known by. Knows messages only."""

from mqclient.errors import InvalidArgument
from mqclient.wire.records import Message

KEY_CHARACTERS_MAX = 255


def effect_key(message: Message) -> str:
    """Return what stays the same however often a message comes: its first key, else its id.

    The id is the producer's own, and so it is the same for what is stored twice, tried again, or
    sent again from the dead letters. A key is better still where the business has one: a program
    that was started twice sends the same order under two ids.
    """
    return message.keys[0] if message.keys else message.origin_message_id or message.message_id


def checked_key(key: str) -> str:
    """Return a key that fits the column; raise InvalidArgument for one that does not."""
    if not 0 < len(key) <= KEY_CHARACTERS_MAX or "\x00" in key:
        raise InvalidArgument(f"a key has 1 to {KEY_CHARACTERS_MAX} characters, not {key[:40]!r}")
    return key
