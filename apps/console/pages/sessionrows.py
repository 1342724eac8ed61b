"""A session as pages show it. Pure: knows rows; a session's key is compared, and never shown."""

from apps.access.models import AccountSession
from apps.core.pagination import rfc3339


def session_row(row: AccountSession, key: str | None) -> dict[str, object]:
    """Return a session's row; `is_this` marks the one with the key `key`."""
    return {
        "number": row.pk,
        "begun_at": rfc3339(row.begun_at),
        "seen_at": rfc3339(row.seen_at),
        "address": row.address,
        "agent": row.agent,
        "is_this": row.session_key == key,
    }
