"""What a recall handle says of its message, for people to read. Pure: knows text only.

The engine alone says whether a handle is one of its own. Its last part, which makes a handle out of
what it says, is left out: who reads the audit log must not be able to take messages back.
"""

import base64
import binascii
from dataclasses import dataclass

from apps.core.moments import moment
from apps.core.pagination import rfc3339

_CHARACTERS_MAX = 4_096
_PARTS_BEHIND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The message that a handle names; `due_at` as RFC 3339."""

    topic: str
    message_id: str
    due_at: str


def named_by(handle: str) -> Named | None:
    """Return what a handle says; None for a text that says nothing of a message."""
    if len(handle) > _CHARACTERS_MAX:
        return None
    try:
        padded = handle.encode("ascii") + b"=" * (-len(handle) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
        # A message id is a client's text and may have blanks.
        front, *_ = text.rsplit(" ", _PARTS_BEHIND)
        _, topic, _, due_ms, message_id = front.split(" ", 4)
        return Named(topic=topic, message_id=message_id, due_at=rfc3339(moment(int(due_ms))))
    except (ValueError, OverflowError, binascii.Error):
        return None
