"""Times as browsers' fields give them. Knows queries; no page."""

from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from apps.core.queries import asked_time_ms


def entered_time_ms(entered: QueryDict, name: str) -> int | None:
    """Return a time that was entered; a browser's field gives no offset, and means UTC here.

    Raises ValidationError for what is no time.
    """
    text = str(entered.get(name) or "")
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is not None and found.tzinfo is None:
        entered[name] = f"{text}Z"
    return asked_time_ms(entered, name)
