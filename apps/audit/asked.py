"""What callers ask of the audit log, read from query strings. Refuses what makes no sense."""

from django.http import QueryDict

from apps.audit.acts import ACTS
from apps.audit.models import NAME_CHARACTERS_MAX, Result
from apps.audit.selectors import EntryFilter
from apps.core.moments import moment
from apps.core.origins import Door
from apps.core.phrases import sentence
from apps.core.queries import RefusedValue, asked_time_ms

FIELDS = ("by", "act", "kind", "name", "result", "door", "from", "to")
# What an act is about: `topic` in `topic.delete`.
OBJECTS = tuple(sorted({name.partition(".")[0] for name in ACTS}))


def asked_filter(query: QueryDict) -> EntryFilter:
    """Read the fields of a search; raise ValidationError for a value that cannot be read.

    An act that the list does not have is looked for all the same: entries outlive the list.
    """
    first_ms, end_ms = asked_time_ms(query, "from"), asked_time_ms(query, "to")
    if first_ms is not None and end_ms is not None and first_ms >= end_ms:
        raise RefusedValue("from", sentence("must be before `to`"))
    result = _one_of(query, "result", Result.values)
    door = _one_of(query, "door", [door.value for door in Door])
    return EntryFilter(
        by=_text(query, "by"),
        act=_text(query, "act"),
        kind=_text(query, "kind"),
        name=_text(query, "name"),
        result=None if result is None else Result(result),
        door=None if door is None else Door(door),
        first_at=None if first_ms is None else moment(first_ms),
        end_at=None if end_ms is None else moment(end_ms),
    )


def number_of(text: str) -> int:
    """Return the number in an address; one that no entry has for any other text."""
    is_number = text.isascii() and text.isdigit() and len(text) <= 18
    return int(text) if is_number else 0


def _one_of(query: QueryDict, name: str, known: list[str]) -> str | None:
    value = query.get(name)
    if value is not None and value not in known:
        raise RefusedValue(name, sentence("must be one of %(known)s", known=", ".join(known)))
    return value


def _text(query: QueryDict, name: str) -> str | None:
    text = query.get(name)
    if text is not None and (not 1 <= len(text) <= NAME_CHARACTERS_MAX or "\0" in text):
        raise RefusedValue(
            name,
            sentence(
                "has 1 to %(highest)s characters, none of them 0", highest=NAME_CHARACTERS_MAX
            ),
        )
    return text
