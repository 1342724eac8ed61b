"""What an operator enters to send messages, and what that means. Knows forms and drafts only."""

import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from apps.core.moments import ms_of
from apps.core.zones import by_the_clock
from apps.engine.codec import properties as names
from apps.engine.limits import BATCH_MESSAGES_MAX, KIB, QUEUE_COUNT_MAX
from apps.messages.seen import Seen
from apps.messages.services import Draft

# What a page takes in one request, its fields together; more is sent by the API.
FORM_BYTES_MAX = 900 * KIB
# A longer body is not put into a field, but taken from the log as it is.
_FIELD_BYTES_MAX = 128 * KIB

# A number that a client gives each message once; a copy would be taken for a repeat.
_NUMBERS = frozenset({"SEQ_PRODUCER", "SEQ_NUMBER", "SEQ_EPOCH"})

TEXT, BASE64, ORIGINAL = "text", "base64", "original"
LINES, ONE = "lines", "one"
NOW, LEVEL, AFTER, AT = "now", "level", "after", "at"
SEND, LEAVE, COMMIT, ROLL_BACK = "send", "leave", "commit", "roll_back"


class ProduceForm(forms.Form):
    """Messages to be sent: one, the same one many times, or one a line."""

    body = forms.CharField(required=False, strip=False)
    encoding = forms.ChoiceField(
        choices=[(TEXT, _("text")), (BASE64, _("base64")), (ORIGINAL, _("as in the original"))],
        initial=TEXT,
        required=False,
    )
    many = forms.ChoiceField(
        choices=[(ONE, _("one message")), (LINES, _("one message a line"))],
        initial=ONE,
        required=False,
    )
    file = forms.FileField(required=False, allow_empty_file=True)
    count = forms.IntegerField(min_value=1, max_value=BATCH_MESSAGES_MAX, required=False)
    keys = forms.CharField(required=False)
    tag = forms.CharField(required=False)
    properties = forms.CharField(required=False)
    sharding_key = forms.CharField(required=False)
    queue = forms.IntegerField(min_value=0, max_value=QUEUE_COUNT_MAX - 1, required=False)
    delay = forms.ChoiceField(
        choices=[
            (NOW, _("at once")),
            (LEVEL, _("by a delay level")),
            (AFTER, _("after milliseconds")),
            (AT, _("at a time")),
        ],
        initial=NOW,
        required=False,
    )
    delay_value = forms.CharField(required=False)
    transaction = forms.ChoiceField(
        choices=[
            (SEND, _("none: send it")),
            (LEAVE, _("half message, to be decided on its page")),
            (COMMIT, _("half message, committed at once")),
            (ROLL_BACK, _("half message, rolled back at once")),
        ],
        initial=SEND,
        required=False,
    )

    original: bytes | None = None
    """The body of the message that the form was filled in from."""

    def clean_properties(self) -> dict[str, str]:
        """Return the properties, a line each; refuse a line without `=` and a name said twice."""
        found: dict[str, str] = {}
        for number, line in enumerate(self.cleaned_data["properties"].splitlines(), start=1):
            if not line.strip():
                continue
            name, separator, value = line.partition("=")
            if not separator or not name.strip():
                raise ValidationError(
                    _("line %(number)d is not name=value"), params={"number": number}
                )
            if name.strip() in found:
                raise ValidationError(_("%(name)s is there twice"), params={"name": name.strip()})
            found[name.strip()] = value
        return found

    def clean(self) -> dict[str, Any]:
        """Return all values with `drafts`; refuse what goes together with nothing else."""
        cleaned = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        if cleaned["transaction"] not in ("", SEND):
            if cleaned["delay"] not in ("", NOW):
                raise ValidationError(_("a half message has no delay"))
            if (cleaned["count"] or 1) > 1 or cleaned["many"] == LINES:
                raise ValidationError(_("a transaction has one message"))
        cleaned["drafts"] = self._drafts(cleaned)
        return cleaned

    def _drafts(self, cleaned: Mapping[str, Any]) -> list[Draft]:
        bodies = list(self._bodies(cleaned))
        count = cleaned["count"] or 1
        if not bodies:
            raise ValidationError({"body": _("there is no line that is not empty")})
        if len(bodies) * count > BATCH_MESSAGES_MAX:
            raise ValidationError(
                ngettext(
                    "at most %(count)d message can be sent at once",
                    "at most %(count)d messages can be sent at once",
                    BATCH_MESSAGES_MAX,
                ),
                params={"count": BATCH_MESSAGES_MAX},
            )
        shared = {
            "tag": cleaned["tag"] or None,
            "keys": tuple(cleaned["keys"].split()),
            "properties": cleaned["properties"],
            "sharding_key": cleaned["sharding_key"] or None,
            "queue": cleaned["queue"],
            **_delay(cleaned["delay"], cleaned["delay_value"].strip()),
        }
        return [Draft(body=body, **shared) for _again in range(count) for body in bodies]

    def _bodies(self, cleaned: Mapping[str, Any]) -> Iterator[bytes]:
        file = cleaned["file"]
        if file:
            content: bytes = file.read()
        elif cleaned["encoding"] == ORIGINAL:
            if self.original is None:
                raise ValidationError({"encoding": _("the original is not in the log any more")})
            content = self.original
        elif cleaned["encoding"] == BASE64:
            try:
                content = binascii.a2b_base64("".join(cleaned["body"].split()), strict_mode=True)
            except ValueError as error:
                raise ValidationError({"body": _("is not base64")}) from error
        else:
            # A browser writes every line end as two characters.
            content = cleaned["body"].replace("\r\n", "\n").encode(errors="surrogatepass")
        if cleaned["many"] == LINES:
            yield from (line for line in content.splitlines() if line)
        else:
            yield content


def _delay(kind: str, text: str) -> dict[str, int]:
    """Return the delay a draft is to have; none for NOW. Raises ValidationError."""
    if kind in ("", NOW):
        if text:
            raise ValidationError({"delay": _("say how the delay is meant")})
        return {}
    if kind == AT:
        return {"deliver_at_ms": _time(text)}
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise ValidationError({"delay_value": _("must be a whole number")})
    return {"delay_level" if kind == LEVEL else "delay_ms": int(text)}


def _time(text: str) -> int:
    try:
        found = parse_datetime(text)
        if found is None:
            raise ValueError(text)
        return ms_of(by_the_clock(found) if found.tzinfo is None else found)
    except (ValueError, OverflowError) as error:
        raise ValidationError({"delay_value": _("must be a time, as 2026-01-31T23:59")}) from error


def filled_in(seen: Seen) -> dict[str, object]:
    """Return a form's values for a message like another; its own properties are left out."""
    body = seen.record.body
    try:
        text, encoding = body.decode(), TEXT
        # A field would change its line ends, or lose what it cannot hold.
        if "\r" in text or "\0" in text:
            encoding = ORIGINAL
    except UnicodeDecodeError:
        text, encoding = binascii.b2a_base64(body, newline=False).decode(), BASE64
    if len(body) > _FIELD_BYTES_MAX:
        encoding = ORIGINAL
    own = {
        name: value
        for name, value in seen.properties.items()
        if name not in names.RESERVED | _NUMBERS and "\n" not in value and "\r" not in value
    }
    return {
        "body": "" if encoding == ORIGINAL else text,
        "encoding": encoding,
        "keys": " ".join(seen.keys),
        "tag": seen.tag,
        "properties": "\n".join(f"{name}={value}" for name, value in sorted(own.items())),
        "sharding_key": seen.properties.get(names.SHARDING_KEY, ""),
    }
