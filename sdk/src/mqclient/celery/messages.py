"""kombu's messages as bodies of ours, and back. Knows documents; no topics, sockets or leases.

A body is one JSON object: `body` (text, or base64 where `body_encoding` says so), `content-type`,
`content-encoding`, `headers`, `properties` and `delivery_info`.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kombu.message import Message as KombuMessage
from kombu.utils.json import JSONEncoder, loads

# Bytes 1 and 2 separate properties in a record; a lone surrogate has no bytes at all. Blanks
# separate keys, and bars the tags of a subscription.
_KEY = re.compile(r"[^\x01\x02\ud800-\udfff\s]{1,255}")
_TAG = re.compile(r"[^\x01\x02\ud800-\udfff|]{1,255}")
_BASE64 = "base64"
# Made once: kombu's own `dumps` makes an encoder for every document.
_as_json = JSONEncoder(separators=(",", ":")).encode

# kombu gives and takes values of any type, as JSON holds them.
Document = dict[str, Any]


class Unreadable(ValueError):
    """A stored message is none of ours."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What is stored: the body, and a key and a tag by which operators find the task."""

    body: bytes
    key: str | None
    tag: str | None


def prepared(
    body: str | bytes,
    *,
    priority: int | None,
    content_type: str | None,
    content_encoding: str | None,
    headers: Mapping[str, Any] | None,
    properties: Mapping[str, Any] | None,
) -> Document:
    """Return the message kombu hands to `basic_publish` next."""
    kept = dict(properties or {})
    if priority is not None:
        kept.setdefault("priority", priority)
    return {
        "body": body,
        "content-type": content_type,
        "content-encoding": content_encoding,
        "headers": dict(headers or {}),
        "properties": kept,
    }


def packed(message: Mapping[str, Any], exchange: str, routing_key: str) -> Packed:
    """Return what to store of a prepared message; raise TypeError for what JSON cannot say."""
    document = dict(message)
    body = document["body"]
    if isinstance(body, (bytes, bytearray, memoryview)):
        document["body"] = base64.b64encode(body).decode("ascii")
        document["body_encoding"] = _BASE64
    document["delivery_info"] = {"exchange": exchange, "routing_key": routing_key}
    key = message["properties"].get("correlation_id")
    tag = message["headers"].get("task")
    return Packed(
        body=_as_json(document).encode(),
        key=key if _is_key(key) else None,
        tag=tag if _is_tag(tag) else None,
    )


def unpacked(body: bytes) -> Document:
    """Return the stored document; raise Unreadable when it has another shape."""
    try:
        document = loads(body)
        if document.get("body_encoding") == _BASE64:
            document["body"] = base64.b64decode(document["body"], validate=True)
        is_whole = (
            isinstance(document["body"], (str, bytes))
            and isinstance(document["headers"], dict)
            and isinstance(document["properties"], dict)
            and isinstance(document["delivery_info"]["exchange"], str)
            and isinstance(document["delivery_info"]["routing_key"], str)
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Unreadable(f"it is no message of a Celery transport: {error!r}") from error
    if not is_whole:
        raise Unreadable("it is no message of a Celery transport")
    found: Document = document
    return found


class Message(KombuMessage):
    """A delivered message, as kombu's consumers see it."""

    def __init__(
        self, document: Document, channel: Any, delivery_tag: int, *, is_redelivered: bool
    ) -> None:
        """Belong to a kombu channel until it is settled by its tag."""
        super().__init__(
            body=document["body"],
            channel=channel,
            delivery_tag=delivery_tag,  # type: ignore[arg-type]  # AMQP's own is a number too.
            content_type=document.get("content-type"),
            content_encoding=document.get("content-encoding"),
            headers=document["headers"],
            properties=document["properties"],
            delivery_info={**document["delivery_info"], "redelivered": is_redelivered},
            postencode="utf-8",
        )


def _is_key(value: object) -> bool:
    return isinstance(value, str) and _KEY.fullmatch(value) is not None


def _is_tag(value: object) -> bool:
    return (
        isinstance(value, str)
        and _TAG.fullmatch(value) is not None
        and value == value.strip()
        and value != "*"
    )
