"""Entries of the audit log as a page shows them: rows, and what changed. No query, no request."""

import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from apps.audit import words
from apps.audit.models import AuditEntry, Result
from apps.console.state_words import state
from apps.console.stored_words import stored
from apps.core.moments import ms_of
from apps.core.pagination import rfc3339

_TEXT_CHARACTERS_MAX = 2_000
# What is said of a result in the page's own words; the look is chosen by the code.
_LOOKS = {Result.DONE: "done", Result.REFUSED: "refused", Result.FAILED: "failed"}


def entry_row(
    entry: AuditEntry, *, now_ms: int, outcome: AuditEntry | None = None
) -> dict[str, object]:
    """Return an entry as a list shows it; one that was asked has the result of its outcome."""
    shown = entry if outcome is None else outcome
    is_open = shown.result == Result.ASKED
    return {
        "number": entry.number,
        "at": rfc3339(entry.at),
        # A wall clock that was set back must not make anything lie ahead.
        "age_s": max(0, now_ms - ms_of(entry.at)) // 1000,
        "by": entry.by,
        "door": entry.door,
        "door_said": words.door(entry.door),
        "address": entry.address,
        "agent": entry.agent,
        "request_id": entry.request_id,
        "act": entry.act,
        "act_said": words.act(entry.act),
        "kind": entry.kind,
        "kind_said": words.kind(entry.kind),
        "name": entry.name,
        "reason": entry.reason,
        "result": _("outcome not known") if is_open else state(shown.result),
        "look": "open" if is_open else _LOOKS[Result(shown.result)],
        "code": shown.code,
        "detail": stored(shown.detail),
        "follows": entry.follows,
        "outcome": None if outcome is None else outcome.number,
        "count": entry.count,
        "hash": entry.hash,
        "previous_hash": entry.previous_hash,
    }


def difference(before: object, after: object) -> list[dict[str, object]]:
    """Return the values before and after side by side; nested ones are named by their path.

    What has changed comes first. `change` is `added`, `removed`, `changed` or empty. None on a
    side is nothing there.
    """
    old, new = _flat(before), _flat(after)
    rows: list[dict[str, object]] = []
    for name in old.keys() | new.keys():
        was, now = old.get(name), new.get(name)
        rows.append({"name": name, "before": was, "after": now, "change": _change(was, now)})
    return sorted(rows, key=lambda row: (not row["change"], str(row["name"])))


def _change(was: str | None, now: str | None) -> str:
    if was == now:
        return ""
    if was is None:
        return "added"
    return "removed" if now is None else "changed"


def _flat(found: object, path: str = "") -> dict[str, str]:
    if isinstance(found, Mapping) and found:
        flat: dict[str, str] = {}
        for name, below in found.items():
            flat.update(_flat(below, f"{path}.{name}" if path else str(name)))
        return flat
    if found is None and not path:
        return {}
    return {path: _text(found)}


def _text(value: Any) -> str:  # A value of JSON.
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _TEXT_CHARACTERS_MAX else f"{text[:_TEXT_CHARACTERS_MAX]}…"
