"""Messages as read: searches, one message with all about it, its life, and their store."""

from apps.messages.selectors.finding import Found, Wanted, find
from apps.messages.selectors.living import life_of
from apps.messages.selectors.spans import Span, spans_of
from apps.messages.selectors.store import Marks, Setting, Store, store
from apps.messages.selectors.viewing import Reader, Surroundings, message_at, range_of, surroundings

__all__ = [
    "Found",
    "Marks",
    "Reader",
    "Setting",
    "Span",
    "Store",
    "Surroundings",
    "Wanted",
    "find",
    "life_of",
    "message_at",
    "range_of",
    "spans_of",
    "store",
    "surroundings",
]
