"""Tag filters, compared by the tag itself. Knows text and messages only."""

from mqclient.errors import InvalidFilter
from mqclient.wire.records import Message

EVERYTHING = "*"


def wanted_tags(text: str) -> frozenset[str] | None:
    """Return the tags a filter names, None for all; raise InvalidFilter for an empty tag."""
    if text.strip() in {"", EVERYTHING}:
        return None
    tags = frozenset(tag.strip() for tag in text.split("||"))
    if "" in tags:
        raise InvalidFilter(f"filter {text!r} has an empty tag")
    return tags


def matching(messages: list[Message], tags: frozenset[str] | None) -> list[Message]:
    """Return the messages whose tag is wanted.

    The broker compares hashes only, and two tags can share one.
    """
    if tags is None:
        return messages
    return [message for message in messages if message.tag in tags]
