"""The failed attempts of a dead letter, as they are shown everywhere. Knows no request, no page."""

from apps.core.moments import moment
from apps.core.pagination import rfc3339
from apps.deadletters.models import DeadLetter


def attempts_of(letter: DeadLetter, *, peeks: bool = True) -> list[dict[str, object]]:
    """Return the failed attempts of a letter, in order: number, at, reason and client_id.

    The reason is what a consumer said, and None for who may not peek.
    """
    return [
        {
            "number": number,
            "at": rfc3339(moment(at_ms)),
            "reason": reason if peeks else None,
            "client_id": client_id,
        }
        for number, at_ms, reason, client_id in letter.history
    ]
