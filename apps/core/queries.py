"""What a query string asks for, read strictly. Knows DRF's refusals, no model and no engine."""

from django.http import QueryDict
from django.utils.dateparse import parse_datetime
from rest_framework.exceptions import ValidationError

from apps.core.moments import moment, ms_of
from apps.engine import limits


def asked_name(query: QueryDict, kind: str) -> str | None:
    """Return the topic or group (`kind`) that is asked for; None where none is.

    Raises ValidationError for what cannot be a name.
    """
    name = query.get(kind)
    if name is not None and not limits.NAME_PATTERN.fullmatch(name):
        raise ValidationError({kind: [f"is not a {kind}'s name"]})
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
        raise ValidationError(
            {name: ["must be RFC 3339 with an offset, or milliseconds since 1970"]}
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
        raise ValidationError({name: [f"must be a whole number from {lowest} to {highest}"]})
    return int(text)
