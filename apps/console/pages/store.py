"""The page of the store and its broker. Knows one selector; draws the disk on the server."""

from django.http import HttpRequest
from django.utils.translation import gettext as _

from apps.console import messages as shown
from apps.console.board import Posted
from apps.console.pages.common import Page, asking_page
from apps.console.refusals import why
from apps.engine.errors import EngineError
from apps.messages import selectors
from apps.messages.selectors import Store


@asking_page
def store(posted: Posted, _request: HttpRequest) -> Page:
    """Show the log, the disk with its marks, what keeps the log, damage, clients and settings."""
    try:
        found = selectors.store()
    except EngineError as error:
        trouble = _("The broker cannot be asked: %(why)s.") % {"why": why(error)}
        return Page(template="console/messages/store.html", values={"trouble": trouble}, status=503)
    now_ms = posted.snapshot["sampled_at_ms"]
    status = found.status
    return Page(
        template="console/messages/store.html",
        values={
            "store": found,
            "status": status,
            "behind": found.behind,
            "up_s": max(0, now_ms - status.opened_ms) // 1000 if status.opened_ms else None,
            "opened_at": shown.stamp(status.opened_ms),
            "oldest_at": shown.stamp(status.retention.oldest_ms) if status.retention else None,
            "gauge": _gauge(found),
            "blocks": [
                {
                    "holder": block.holder,
                    "log_offset": block.log_offset,
                    "size_bytes": block.size_bytes,
                    "since": shown.stamp(block.since_ms),
                }
                for block in (status.retention.blocked_by if status.retention else ())
            ],
            "damage": [
                {
                    "log_offset": place.log_offset,
                    "length_bytes": place.length_bytes,
                    "reason": place.reason,
                    "found_at": shown.stamp(place.found_ms),
                    "message_count": sum(len(lost) for lost in place.lost),
                    "is_complete": place.is_complete,
                }
                for place in status.quarantine
            ],
            "clients": [
                {
                    "group": client.group,
                    "client_id": client.client_id,
                    "topics": client.topics,
                    "seen_s": max(0, now_ms - client.last_seen_ms) // 1000,
                    "is_waiting": client.is_waiting,
                    "software": client.software,
                    "address": client.address,
                }
                for client in found.clients
            ],
            "trouble": "",
        },
    )


def _gauge(found: Store) -> shown.Row | None:
    """Return the disk as a bar of a hundred, with the marks in it; None where it is not known."""
    used = found.used_percent
    if used is None:
        return None
    marks = found.marks
    if used >= marks.refuse_percent:
        level = "bad"
    else:
        level = "warn" if used >= marks.delete_percent else ""
    texts = [
        (marks.delete_percent, _("old segments go at any hour")),
        (marks.force_percent, _("the oldest go whatever their age")),
        (marks.refuse_percent, _("sends are refused")),
    ]
    return {
        "used": f"{min(100.0, used):.2f}",
        "used_percent": f"{used:.1f}",
        "level": level,
        # A mark above the whole disk is one that is switched off.
        "marks": [(percent, text) for percent, text in texts if 0 < percent < 100],
    }
