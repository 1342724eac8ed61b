"""What a query string asks for, read strictly. Knows DRF's refusals, no model and no engine."""

from django.http import QueryDict
from django.utils.dateparse import parse_datetime
from rest_framework.exceptions import ValidationError

from apps.core.moments import moment, ms_of
from apps.core.phrases import Sentence, read, sentence
from apps.engine import limits

_NO_NAME = {
    "topic": sentence("is not a topic's name"),
    "group": sentence("is not a group's name"),
    "producer_group": sentence("is not a producer_group's name"),
}


class RefusedValue(ValidationError):
    """A value of a query that is refused: English for programs, the viewer's language on pages."""

    def __init__(self, name: str, text: Sentence) -> None:
        """Keep the name of the value and the sentence, of which DRF keeps the English alone."""
        super().__init__({name: [text]})
        self.name = name
        self._text = text

    @property
    def why(self) -> str:
        """Why it is refused, in the active language."""
        return read(self._text)


def asked_name(query: QueryDict, kind: str) -> str | None:
    """Return the topic or group (`kind`) that is asked for; None where none is.

    Raises ValidationError for what cannot be a name.
    """
    name = query.get(kind)
    if name is not None and not limits.NAME_PATTERN.fullmatch(name):
        raise RefusedValue(kind, _NO_NAME.get(kind, sentence("is not a name")))
    return name


def asked_time_ms(query: QueryDict, name: str) -> int | None:
    """Return a time in milliseconds since 1970; None where none is given.

    Raises ValidationError for what is neither RFC 3339 with an offset nor such a number.
    """
    text = query.get(name)
    if text is None:
        return None
    try:
        # Longer digit strings are refused before int() would have to read them.
        if text.isascii() and text.isdigit() and len(text) <= 15:
            return ms_of(moment(int(text)))
        found = parse_datetime(text)
    except (ValueError, OverflowError):
        found = None
    if found is None or found.tzinfo is None:
        raise RefusedValue(
            name, sentence("must be RFC 3339 with an offset, or milliseconds since 1970")
        )
    return ms_of(found)


def asked_number(query: QueryDict, name: str, *, lowest: int, highest: int) -> int | None:
    """Return a whole number from `lowest`, which is not negative, to `highest`; None for none.

    Raises ValidationError for anything else.
    """
    text = query.get(name)
    if text is None:
        return None
    # Longer digit strings are refused before int() would have to read them.
    is_number = text.isascii() and text.isdigit() and len(text) <= 18
    if not is_number or not lowest <= int(text) <= highest:
        text = sentence(
            "must be a whole number from %(lowest)s to %(highest)s", lowest=lowest, highest=highest
        )
        raise RefusedValue(name, text)
    return int(text)


def asked_text(query: QueryDict, name: str, *, characters_max: int) -> str:
    """Return a text, empty where none is given; raise ValidationError for one that is too long."""
    text = query.get(name, "")
    if len(text) > characters_max or "\0" in text:
        raise ValidationError({name: [f"must have {characters_max} characters at most"]})
    return text


def asked_truth(query: QueryDict, name: str) -> bool:
    """Return whether `true` is asked for, and not where nothing is; raise ValidationError else."""
    text = query.get(name, "false")
    if text not in ("true", "false"):
        raise ValidationError({name: ["must be true or false"]})
    return text == "true"
