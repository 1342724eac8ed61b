"""What is to come again to a group, as its page shows it: counts by failures, with bars. Pure."""

from typing import TypedDict

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.console.bars import bars
from apps.deadletters.selectors import Retries


class RetryRow(TypedDict):
    """Messages that have failed so often; `title` says it in words."""

    title: str
    in_topic: int
    delayed: int
    in_place: int
    total: int
    bar: str


class RetriesShown(TypedDict):
    """All of them; `note` says when there was more than was looked at."""

    rows: list[RetryRow]
    total: int
    failures_max: int | None
    note: str


def retries_shown(found: Retries) -> RetriesShown:
    """Put counts into rows."""
    totals = [one.in_topic + one.delayed + one.in_place for one in found.counts]
    rows: list[RetryRow] = [
        {
            "title": _title(one.failures),
            "in_topic": one.in_topic,
            "delayed": one.delayed,
            "in_place": one.in_place,
            "total": total,
            "bar": bar,
        }
        for one, total, bar in zip(found.counts, totals, bars(totals), strict=True)
    ]
    note = "" if found.is_complete else _("There was more than is looked at: these are the first.")
    return {
        "rows": rows,
        "total": sum(totals),
        "failures_max": found.failures_max,
        "note": note,
    }


def _title(failures: int) -> str:
    if failures == 0:
        return _("sent again by hand")
    if failures == 1:
        return _("once")
    return ngettext("%(count)s time", "%(count)s times", failures) % {"count": failures}
