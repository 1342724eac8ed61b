"""What callers ask of dead letters, read from query strings. Refuses what makes no sense."""

from django.core.exceptions import PermissionDenied
from django.http import QueryDict

from apps.core.moments import moment
from apps.core.phrases import sentence
from apps.core.queries import RefusedValue, asked_time_ms
from apps.deadletters.filters import CONTENTS, LetterFilter
from apps.deadletters.models import State

TEXT_CHARACTERS_MAX = 1_000


def asked_filter(query: QueryDict) -> LetterFilter:
    """Read `state`, `origin_topic`, `key`, `message_id`, `from`, `to` and `reason`.

    Raises ValidationError for a value that cannot be read.
    """
    state = query.get("state")
    if state is not None and state not in State.values:
        raise RefusedValue(
            "state", sentence("must be one of %(known)s", known=", ".join(State.values))
        )
    first_ms, end_ms = asked_time_ms(query, "from"), asked_time_ms(query, "to")
    return LetterFilter(
        state=None if state is None else State(state),
        origin_topic=_text(query, "origin_topic"),
        key=_text(query, "key"),
        message_id=_text(query, "message_id"),
        first_at=None if first_ms is None else moment(first_ms),
        end_at=None if end_ms is None else moment(end_ms),
        reason=_text(query, "reason"),
    )


def check_contents(query: QueryDict, *, peeks: bool) -> None:
    """Raise PermissionDenied where who may not peek searches by what messages say.

    Whether something is found would tell them.
    """
    asked = [name for name in CONTENTS if query.get(name)]
    if asked and not peeks:
        raise PermissionDenied(f"to search by {' or '.join(asked)} needs the right to peek")


def number_of(text: str) -> int:
    """Return the number in an address; one that no row has for any other text."""
    is_number = text.isascii() and text.isdigit() and len(text) <= 19
    return int(text) if is_number else 0


def _text(query: QueryDict, name: str) -> str | None:
    text = query.get(name)
    if text is not None and (not 1 <= len(text) <= TEXT_CHARACTERS_MAX or "\0" in text):
        raise RefusedValue(
            name,
            sentence(
                "has 1 to %(highest)s characters, none of them 0", highest=TEXT_CHARACTERS_MAX
            ),
        )
    return text
