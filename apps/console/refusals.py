"""Why something was not done, for whoever asked on a page. Knows errors and their codes; no page.

Our own refusals have a phrase, which is read in the viewer's language. What the engine says is
English: elsewhere the title of its code goes before it.
"""

from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import get_language, gettext_lazy, pgettext_lazy
from django.utils.translation import gettext as _
from rest_framework.exceptions import ValidationError

from apps.core.exceptions import ProblemError
from apps.core.languages import DEFAULT
from apps.core.phrases import has_phrase, told
from apps.core.queries import RefusedValue
from apps.engine.errors import EngineError

TITLES: Final[Mapping[str, Promise]] = {
    "already_cancelled": gettext_lazy("Already cancelled"),
    "already_delivered": gettext_lazy("Already delivered"),
    "audit_unavailable": gettext_lazy("Audit unavailable"),
    "bad_host": gettext_lazy("Bad host"),
    "bad_json": gettext_lazy("Bad json"),
    "batch_too_large": gettext_lazy("Batch too large"),
    "busy": gettext_lazy("Busy"),
    "cannot_open": gettext_lazy("Cannot open"),
    "checksum_mismatch": gettext_lazy("Checksum mismatch"),
    "conflict": gettext_lazy("Conflict"),
    "damaged": gettext_lazy("Damaged"),
    "database_unavailable": gettext_lazy("Database unavailable"),
    "delay_too_long": gettext_lazy("Delay too long"),
    "engine_error": gettext_lazy("Engine error"),
    "flush_timeout": gettext_lazy("Flush timeout"),
    "forbidden": gettext_lazy("Forbidden"),
    "foreign_segment": gettext_lazy("Foreign segment"),
    "handle_expired": gettext_lazy("Handle expired"),
    "head_moved": gettext_lazy("Head moved"),
    "internal_error": gettext_lazy("Internal error"),
    "invalid_argument": gettext_lazy("Invalid argument"),
    "invalid_filter": gettext_lazy("Invalid filter"),
    "invalid_handle": gettext_lazy("Invalid handle"),
    "invalid_name": gettext_lazy("Invalid name"),
    "length_required": gettext_lazy("Length required"),
    "lite_subscriptions_exhausted": gettext_lazy("Lite subscriptions exhausted"),
    "lite_topic_illegal": gettext_lazy("Lite topic illegal"),
    "lite_topics_exhausted": gettext_lazy("Lite topics exhausted"),
    "lock_lost": gettext_lazy("Lock lost"),
    "malformed_batch": gettext_lazy("Malformed batch"),
    "malformed_request": gettext_lazy("Malformed request"),
    "message_illegal": gettext_lazy("Message illegal"),
    "message_too_large": gettext_lazy("Message too large"),
    "method_not_allowed": gettext_lazy("Method not allowed"),
    "not_acceptable": gettext_lazy("Not acceptable"),
    "not_found": gettext_lazy("Not found"),
    "not_ordered": gettext_lazy("Not ordered"),
    "not_permitted": gettext_lazy("Not permitted"),
    "offset_out_of_range": gettext_lazy("Offset out of range"),
    "offsets_moved": gettext_lazy("Offsets moved"),
    "out_of_means": gettext_lazy("Out of means"),
    "overloaded": gettext_lazy("Overloaded"),
    "queue_damaged": gettext_lazy("Queue damaged"),
    "refused": gettext_lazy("Refused"),
    "request_timeout": gettext_lazy("Request timeout"),
    "request_too_large": gettext_lazy("Request too large"),
    "sequence_too_old": gettext_lazy("Sequence too old"),
    "spark_unavailable": gettext_lazy("Spark unavailable"),
    "stale_generation": gettext_lazy("Stale generation"),
    "stopping": gettext_lazy("Stopping"),
    "store_damaged": gettext_lazy("Store damaged"),
    "store_full": gettext_lazy("Store full"),
    "store_locked": gettext_lazy("Store locked"),
    "sync_failed": gettext_lazy("Sync failed"),
    "sync_stuck": gettext_lazy("Sync stuck"),
    "too_many_requests": gettext_lazy("Too many requests"),
    "transaction_decided": gettext_lazy("Transaction decided"),
    "unauthenticated": gettext_lazy("Unauthenticated"),
    "unknown_format": gettext_lazy("Unknown format"),
    "unknown_group": gettext_lazy("Unknown group"),
    "unknown_handle": gettext_lazy("Unknown handle"),
    "unknown_queue": gettext_lazy("Unknown queue"),
    "unknown_topic": gettext_lazy("Unknown topic"),
    "unknown_transaction": gettext_lazy("Unknown transaction"),
    "unreachable": gettext_lazy("Unreachable"),
    "unsupported": gettext_lazy("Unsupported"),
    "unsupported_media_type": gettext_lazy("Unsupported media type"),
    "upgrade_required": gettext_lazy("Upgrade required"),
    "write_failed": gettext_lazy("Write failed"),
}

# As they are in addresses; what is not here is called by its name.
_FIELDS: Final[Mapping[str, Promise]] = {
    "act": pgettext_lazy("field", "act"),
    "after": pgettext_lazy("field", "after"),
    "before": pgettext_lazy("field", "before"),
    "cursor": pgettext_lazy("field", "cursor"),
    "days": pgettext_lazy("field", "days"),
    "filter": pgettext_lazy("field", "filter"),
    "from": pgettext_lazy("field", "from"),
    "group": pgettext_lazy("field", "group"),
    "id": pgettext_lazy("field", "id"),
    "job": pgettext_lazy("field", "job"),
    "key": pgettext_lazy("field", "key"),
    "keys": pgettext_lazy("field", "keys"),
    "kind": pgettext_lazy("field", "kind"),
    "level": pgettext_lazy("field", "level"),
    "members": pgettext_lazy("field", "members"),
    "name": pgettext_lazy("field", "name"),
    "other topic": pgettext_lazy("field", "other topic"),
    "producer group": pgettext_lazy("field", "producer group"),
    "q": pgettext_lazy("field", "q"),
    "queue": pgettext_lazy("field", "queue"),
    "rate per s": pgettext_lazy("field", "rate per s"),
    "reason": pgettext_lazy("field", "reason"),
    "source": pgettext_lazy("field", "source"),
    "span": pgettext_lazy("field", "span"),
    "state": pgettext_lazy("field", "state"),
    "strategy": pgettext_lazy("field", "strategy"),
    "table": pgettext_lazy("field", "table"),
    "tag": pgettext_lazy("field", "tag"),
    "target": pgettext_lazy("field", "target"),
    "text": pgettext_lazy("field", "text"),
    "to": pgettext_lazy("field", "to"),
    "topic": pgettext_lazy("field", "topic"),
    "topics": pgettext_lazy("field", "topics"),
    "typed": pgettext_lazy("field", "typed"),
    "who": pgettext_lazy("field", "who"),
    "client id": pgettext_lazy("field", "client id"),
}


def why(error: Exception) -> str:
    """Return what an error says, without a full stop, as part of a sentence."""
    text = told(error).rstrip(".")
    if has_phrase(error) or get_language() == DEFAULT.value:
        return text
    title = TITLES.get(code_of(error))
    return text if title is None else f"{title} ({text})"


def code_of(error: Exception) -> str:
    """Return the code of an error of ours; empty for another one."""
    if isinstance(error, EngineError):
        return error.code
    return error.kind.code if isinstance(error, ProblemError) else ""


def sentence_of(error: Exception) -> str:
    """Return what an error says as a sentence."""
    return ended(why(error))


def ended(text: str) -> str:
    """Return a text as a sentence: with a capital letter and a full stop."""
    text = text.rstrip(".")
    return _("%(text)s.") % {"text": f"{text[:1].upper()}{text[1:]}"}


def not_done(error: Exception) -> str:
    """Return a sentence that nothing was done, and why."""
    return _("Nothing was done: %(why)s.") % {"why": why(error)}


def refusal_text(error: EngineError) -> str:
    """Return what to tell whoever pressed a button that the engine did not carry out."""
    said = sentence_of(error)
    if error.retriable:
        return _("%(said)s It may have been done or not; to ask for the same again is safe.") % {
            "said": said
        }
    return said


def value_refused(refusal: ValidationError) -> tuple[str, str]:
    """Return the name of the first value that is refused, and why."""
    if isinstance(refusal, RefusedValue):
        return refusal.name, refusal.why
    detail = refusal.detail
    assert isinstance(detail, dict)
    name, texts = next(iter(detail.items()))
    return str(name), str(texts[0] if isinstance(texts, list) else texts)


def field(name: str) -> str:
    """Return what a field of a form or of an address is called in a sentence."""
    text = name.replace("_", " ")
    return str(_FIELDS.get(text, text))
