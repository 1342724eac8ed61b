"""Entries as they are answered and exported. Unknown is null; numbers travel as strings."""

from apps.audit.models import AuditEntry
from apps.core.pagination import rfc3339


def rendered_entry(entry: AuditEntry) -> dict[str, object]:
    """Build the JSON shape of an entry."""
    return {
        "number": str(entry.number),
        "at": rfc3339(entry.at),
        "by": entry.by,
        "door": entry.door,
        "address": entry.address or None,
        "agent": entry.agent or None,
        "request_id": entry.request_id or None,
        "act": entry.act,
        "kind": entry.kind,
        "name": entry.name,
        "reason": entry.reason or None,
        "before": entry.before,
        "after": entry.after,
        "result": entry.result,
        "code": entry.code or None,
        "detail": entry.detail or None,
        "follows": None if entry.follows is None else str(entry.follows),
        "count": entry.count,
        "previous_hash": entry.previous_hash,
        "hash": entry.hash,
    }
