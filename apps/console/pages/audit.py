"""The pages of the audit log: the list that is searched, and one entry with what it changed.

Knows selectors of the audit log. They need the database alone, and answer without an engine.
"""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from rest_framework.exceptions import ValidationError

from apps.audit import selectors
from apps.audit.acts import ACTS
from apps.audit.asked import FIELDS, OBJECTS, asked_filter
from apps.audit.models import AuditEntry, Result
from apps.audit.words import act, door
from apps.console import audit as shown
from apps.console.pages.searching import given, refusal_of
from apps.console.pages.times import entered_time_ms
from apps.core.exceptions import ProblemError
from apps.core.origins import Door
from apps.core.pagination import ROW_MAX
from apps.core.queries import asked_number
from apps.engine.clock import SystemClock

ENTRIES_SHOWN = 50


@require_safe
@never_cache
def audit(request: HttpRequest) -> HttpResponse:
    """Show who did what, the newest first."""
    query = given(request.GET)
    found: list[AuditEntry] | None = None
    outcomes: dict[int, AuditEntry] = {}
    trouble = ""
    try:
        before = asked_number(query, "before", lowest=1, highest=ROW_MAX)
        for name in ("from", "to"):
            entered_time_ms(query, name)
        wanted = asked_filter(query)
        found = list(selectors.page(wanted, before=before, entries_max=ENTRIES_SHOWN + 1))
        outcomes = selectors.outcomes(found)
    except ValidationError as refusal:
        trouble = refusal_of(refusal)
    # What was asked and has an outcome is one line, at the place where it was asked.
    told = {entry.number for entry in outcomes.values()}
    entered = [(name, str(query[name])) for name in FIELDS if name in query]
    rows = (found or [])[:ENTRIES_SHOWN]
    has_more = found is not None and len(found) > ENTRIES_SHOWN
    now_ms = SystemClock().wall_ms()
    values = {
        "entered": dict(entered),
        "search": urlencode(entered),
        "acts": [(name, act(name)) for name in (*OBJECTS, *sorted(ACTS))],
        "results": Result.values,
        "doors": [(found.value, door(found.value)) for found in Door],
        "trouble": trouble,
        "found": None
        if found is None
        else [
            shown.entry_row(entry, now_ms=now_ms, outcome=outcomes.get(entry.number))
            for entry in rows
            if entry.number not in told
        ],
        "next_query": urlencode([*entered, ("before", rows[-1].number)]) if has_more else "",
    }
    return render(request, "console/audit/entries.html", values)


@require_safe
@never_cache
def audit_entry(request: HttpRequest, *, number: int) -> HttpResponse:
    """Show one entry: who, from where, and what was before and after it."""
    try:
        found = selectors.entry(min(number, ROW_MAX))
    except ProblemError:
        return render(request, "console/audit/no_entry.html", {"number": number}, status=404)
    asked, outcome = found, selectors.outcome_of(found)
    if found.follows is not None:
        asked, outcome = selectors.entry(found.follows), found
    last = found if outcome is None else outcome
    now_ms = SystemClock().wall_ms()
    has_values = last.before is not None or last.after is not None
    values = {
        "entry": shown.entry_row(asked, now_ms=now_ms, outcome=outcome),
        "difference": shown.difference(last.before, last.after) if has_values else [],
        "is_new": last.before is None,
        "is_gone": last.after is None,
        "chain": [
            shown.entry_row(one, now_ms=now_ms)
            for one in ([found] if outcome is None else [asked, outcome])
        ],
        "title": _("Entry %(number)s") % {"number": asked.number},
    }
    return render(request, "console/audit/entry.html", values)
