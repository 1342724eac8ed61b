"""The page of one lock and its queue: who had it when, and what an operator may do about it.

One address an act; each is confirmed on a page that shows the message at the head.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from apps.access.asking import access_of, sight_of
from apps.access.policy import Action, Kind, Resource, topic
from apps.console import engine_words
from apps.console.board import Posted
from apps.console.deadletters import body_row
from apps.console.pages.common import Page, Told, asking_page, console_action
from apps.console.refusals import refusal_text, why
from apps.console.timeline import Line, Spell, timeline_of
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.core.moments import moment, ms_of
from apps.core.pagination import rfc3339
from apps.deadletters.selectors import Body
from apps.engine.caretypes import CareAct, CareResult
from apps.engine.clock import SystemClock
from apps.engine.codec.record import Record
from apps.engine.errors import EngineError
from apps.engine.grouptypes import LockChange, QueuePlace
from apps.groups import selectors, services
from apps.groups.blocked import hushed
from apps.groups.fences import fence_text
from apps.groups.models import LockTransition
from apps.groups.models.fields import REASON_CHARACTERS_MAX
from apps.groups.selectors import QueueSeen, RefusedSpell

HOURS = (1, 6, 24, 168)
HOURS_DEFAULT = 1
LINES_MAX = 2_000
LINES_SHOWN = 100
REFUSALS_SHOWN = 50
# So many spells of refusals are told apart on a line, whatever time it spans.
SPELLS = 120


def drawn(
    request: HttpRequest, group: str, place: tuple[str, int] | None = None
) -> dict[str, object]:
    """Return the owners of a group's locks, or of one, over the hours that the address says."""
    text = request.GET.get("hours", "")
    hours = int(text) if text in set(map(str, HOURS)) else HOURS_DEFAULT
    now_ms = SystemClock().wall_ms()
    since = moment(now_ms) - timedelta(hours=hours)
    rows = selectors.group_transitions(group, since=since, lines_max=LINES_MAX, place=place)
    length = timedelta(minutes=max(1, hours * 60 // SPELLS))
    refused = [
        _spell(one)
        for one in selectors.group_refusals(
            group, since=since, length=length, lines_max=LINES_MAX, place=place
        )
    ]
    timeline = timeline_of(
        [_line(row) for row in rows], refused, from_ms=ms_of(since), to_ms=now_ms
    )
    newest = [row for row in rows if row.at >= since][-LINES_SHOWN:]
    return {
        "hours": hours,
        "hours_offered": HOURS,
        "timeline": timeline,
        "from_at": rfc3339(since),
        "to_at": rfc3339(moment(now_ms)),
        "lines": [_line_row(row) for row in reversed(newest)],
        "refusals": [_refused_row(one) for one in refused[:REFUSALS_SHOWN]],
        "refused_count": sum(one.count for one in refused),
        "lines_max": LINES_SHOWN,
        "refusals_max": REFUSALS_SHOWN,
        "timeline_max": LINES_MAX,
        "is_timeline_cut": max(len(rows), len(refused)) >= LINES_MAX,
        "spell_minutes": length // timedelta(minutes=1),
    }


@asking_page
def lock(posted: Posted, request: HttpRequest, *, lock: str) -> Page:
    """Show one queue of a group: its lock, how it went from hand to hand, and its head."""
    found = _named(lock)
    if found is None:
        return _no_lock(lock)
    group, place = found
    seen, trouble = _seen(group, place)
    values = {
        "lock_id": lock,
        "name": group,
        "place": place,
        "seen": _seen_row(seen, posted.snapshot["sampled_at_ms"], peeks=_peeks(request, group)),
        "trouble": trouble,
        **_head(request, place, seen),
        "reason_characters_max": REASON_CHARACTERS_MAX,
        **drawn(request, group, (place.topic, place.queue)),
    }
    return Page(template="console/care/lock.html", values=values)


@asking_page
def confirm(posted: Posted, request: HttpRequest, *, lock: str) -> Page:
    """Show what an act would do, with the message at the head, and ask for the reason."""
    found = _named(lock)
    wanted = request.GET.get("act", "")
    if found is None or wanted not in set(CareAct):
        return _no_lock(lock)
    group, place = found
    seen, trouble = _seen(group, place)
    values = {
        "lock_id": lock,
        "name": group,
        "place": place,
        "act": wanted,
        "seen": _seen_row(seen, posted.snapshot["sampled_at_ms"], peeks=_peeks(request, group)),
        "trouble": trouble,
        **_head(request, place, seen),
        "reason_characters_max": REASON_CHARACTERS_MAX,
    }
    return Page(template="console/care/confirm.html", values=values)


@console_action
def suspend(request: HttpRequest, *, lock: str) -> Told:
    """Have the queue give the group nothing."""
    return _acted(request, lock, services.suspend_queue, needs_head=False)


@console_action
def resume(request: HttpRequest, *, lock: str) -> Told:
    """Let the queue give its messages again."""
    return _acted(request, lock, services.resume_queue, needs_head=False)


@console_action
def skip(request: HttpRequest, *, lock: str) -> Told:
    """Settle the message at the head."""
    return _acted(request, lock, services.skip_head, needs_head=True)


@console_action
def park(request: HttpRequest, *, lock: str) -> Told:
    """Make a dead letter of the message at the head."""
    return _acted(request, lock, services.park_head, needs_head=True)


@console_action
def release(request: HttpRequest, *, lock: str) -> Told:
    """Take the lock from whoever has it, if that is who was expected."""
    back = f"/locks/{lock}/"
    found = _named(lock)
    if found is None:
        return Told(text=_("There is no such lock."), back="/locks", is_good=False)
    group, place = found
    expected = request.POST.get("expected_owner", "")
    try:
        released = services.release_lock(
            group=group,
            place=place,
            reason=request.POST.get("reason", ""),
            expected_owner=expected or None,
            by=actor_of(request),
        )
    except EngineError as error:
        return Told(text=refusal_text(error), back=back, is_good=False)
    if released is None:
        return Told(text=_("Nobody had the lock."), back=back)
    text = _("The lock was taken from %(owner)s.") % {"owner": released.previous_owner}
    return Told(text=text, back=back)


def _acted(
    request: HttpRequest, lock: str, act: Callable[..., CareResult], *, needs_head: bool
) -> Told:
    back = f"/locks/{lock}/"
    found = _named(lock)
    if found is None:
        return Told(text=_("There is no such lock."), back="/locks", is_good=False)
    group, place = found
    offset = request.POST.get("expected_offset", "")
    is_offset = offset.isascii() and offset.isdigit() and len(offset) <= 19
    if needs_head and not is_offset:
        text = _("Nothing was done: the page did not say which message is meant.")
        return Told(text=text, back=back, is_good=False)
    more = {"expected_offset": int(offset)} if is_offset and needs_head else {}
    try:
        result = act(
            group=group,
            place=place,
            by=actor_of(request),
            reason=request.POST.get("reason", ""),
            **more,
        )
    except EngineError as error:
        return Told(text=refusal_text(error), back=back, is_good=False)
    return Told(text=_said(result, offset), back=back)


def _said(result: CareResult, offset: str) -> str:
    texts = {
        CareAct.SUSPEND: _("Suspended: the queue gives the group nothing until it is resumed."),
        CareAct.RESUME: _("Resumed: the queue gives its messages again."),
        CareAct.SKIP: _("Skipped message %(offset)s; the head is %(head)s now."),
        CareAct.PARK: _("Parked message %(offset)s as a dead letter; the head is %(head)s now."),
    }
    said = texts[result.act] % {"offset": offset, "head": result.head}
    return _("It had been done before. %(said)s") % {"said": said} if result.is_repeat else said


def _named(lock: str) -> tuple[str, QueuePlace] | None:
    try:
        return selectors.lock_place(lock)
    except ProblemError:
        return None


def _no_lock(lock: str) -> Page:
    return Page(template="console/care/no_lock.html", values={"lock_id": lock}, status=404)


def _seen(group: str, place: QueuePlace) -> tuple[QueueSeen | None, str]:
    try:
        return selectors.queue_seen(group, place, now_ms=SystemClock().wall_ms()), ""
    except EngineError as error:
        return None, why(error)


def _peeks(request: HttpRequest, group: str) -> bool:
    return sight_of(request).peeks(Resource(Kind.GROUP, group))


def _seen_row(seen: QueueSeen | None, now_ms: int, *, peeks: bool) -> Mapping[str, Any]:
    row = None if seen is None else seen.row
    held = None if seen is None else seen.lock
    blocked = None if seen is None else seen.blocked
    suspension = None if row is None else row.suspension
    if blocked is not None and not peeks:
        blocked = hushed(blocked)
    return {
        "is_known": row is not None,
        "head": None if row is None else row.committed,
        "lag": None if row is None else row.max_offset - row.committed,
        "attempts": None if row is None else row.head_attempts,
        "oldest_age_s": _seconds(None if row is None else row.oldest_age_ms),
        "stalled_s": _seconds(None if row is None else row.stalled_ms),
        "assigned": None if row is None else row.owner,
        "owner": None if held is None else held.owner,
        "epoch": None if held is None else fence_text(held.epoch),
        "held_s": None if held is None else max(0, now_ms - held.acquired_ms) // 1000,
        "expires_in_s": None if held is None else int(held.expires_in_ms / 1000),
        "is_expired": held is not None and held.expires_in_ms <= 0,
        "blocked": blocked is not None and suspension is None,
        "detail": "" if blocked is None or suspension is not None else blocked.detail,
        "suspended_at": None if suspension is None else rfc3339(moment(suspension.at_ms)),
        "suspended_by": "" if suspension is None else suspension.by,
        "suspended_for": "" if suspension is None else suspension.reason,
    }


def _head(request: HttpRequest, place: QueuePlace, seen: QueueSeen | None) -> Mapping[str, object]:
    """Return the message at the head; it is not even read for those who may not read messages."""
    peek = access_of(request).may(Action.PEEK, topic(place.topic))
    return {"peek": peek, "head": _head_row(place, seen) if peek.is_allowed else None}


def _head_row(place: QueuePlace, seen: QueueSeen | None) -> Mapping[str, Any] | None:
    """Return the message at the head; None where there is none, or it cannot be read here."""
    if seen is None or seen.row is None or seen.row.committed >= seen.row.max_offset:
        return None
    record = selectors.head_record(place, seen.row.committed)
    return None if record is None else _record_row(record)


def _record_row(record: Record) -> Mapping[str, Any]:
    body = Body(body=record.body, properties=record.properties, born_time_ms=record.born_time_ms)
    return {
        "offset": record.queue_offset,
        "message_id": record.message_id,
        "keys": record.properties.get("KEYS", ""),
        "tag": record.properties.get("TAGS", ""),
        "stored_at": rfc3339(moment(record.store_time_ms)),
        "body": body_row(body),
    }


def _seconds(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds // 1000


def _line(row: LockTransition) -> Line:
    return Line(
        at_ms=ms_of(row.at),
        place=(row.topic, row.queue),
        change=LockChange(row.change),
        owner=row.owner,
        previous_owner=row.previous_owner,
        reason=row.reason,
    )


def _spell(found: RefusedSpell) -> Spell:
    return Spell(
        at_ms=ms_of(found.at),
        length_ms=found.length // timedelta(milliseconds=1),
        place=(found.topic, found.queue),
        owner=found.owner,
        count=found.count,
        clients=found.clients,
        client_id=found.client_id,
    )


def _refused_row(spell: Spell) -> Mapping[str, object]:
    topic, queue = spell.place
    return {
        "at": rfc3339(moment(spell.at_ms)),
        "topic": topic,
        "queue": queue,
        "owner": spell.owner,
        "client_id": spell.client_id,
        "clients": spell.clients,
        "others": spell.clients - 1,
        "count": spell.count,
    }


def _changes() -> Mapping[LockChange, str]:
    return {
        LockChange.ACQUIRED: _("taken"),
        LockChange.TAKEN_OVER: _("taken over"),
        LockChange.EXPIRED: _("lease over"),
        LockChange.RELEASED: _("given back"),
        LockChange.FORCED: _("taken away"),
    }


def _line_row(row: LockTransition) -> Mapping[str, object]:
    return {
        "at": rfc3339(row.at),
        "topic": row.topic,
        "queue": row.queue,
        "change": _changes()[LockChange(row.change)],
        "owner": row.owner,
        "previous_owner": row.previous_owner,
        "epoch": fence_text(row.epoch),
        "reason": engine_words.reason(row.reason),
    }
