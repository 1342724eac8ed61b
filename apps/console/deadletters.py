"""Dead letters and their jobs as pages show them. Pure: rows to plain values, ages in seconds."""

from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from apps.console.refusals import field
from apps.console.stored_words import stored
from apps.core.moments import ms_of
from apps.core.pagination import rfc3339, rfc3339_or_none
from apps.deadletters.filters import without_contents
from apps.deadletters.models import DeadLetter, JobState, ResendJob, ResendTrouble
from apps.deadletters.records import retry_topic_of
from apps.deadletters.selectors import Body, GroupLetters

# A page shows the begin of a body; the export has all of it.
BODY_CHARACTERS_SHOWN = 16_384

Row = dict[str, object]

# A job's state in a word whose look the stylesheet knows.
_LOOKS = {JobState.RUNNING: "running", JobState.QUEUED: "waiting", JobState.FAILED: "failed"}


def group_row(found: GroupLetters, *, now_ms: int) -> Row:
    """Return a group with the counts of its letters."""
    return {
        "group": found.group,
        "waiting": found.waiting,
        "resending": found.resending,
        "resent": found.resent,
        "discarded": found.discarded,
        "gone": found.gone,
        "died_today": found.died_today,
        "oldest_s": age_s(found.oldest_at, now_ms),
        "newest_s": age_s(found.newest_at, now_ms),
    }


def letter_row(letter: DeadLetter, *, now_ms: int, peeks: bool = True) -> Row:
    """Return a letter as a line of a table; keys and reason are None for who may not peek."""
    return {
        "id": letter.pk,
        "offset": letter.queue_offset,
        "state": letter.state,
        "can_be_sent": letter.state == "waiting",
        "origin_topic": letter.origin_topic,
        "origin_queue": letter.origin_queue,
        "origin_offset": letter.origin_offset,
        "message_id": letter.message_id,
        "keys": letter.keys if peeks else None,
        "tag": letter.tag,
        "attempts": letter.attempts,
        "reason": letter.reason if peeks else None,
        "trouble": letter.trouble,
        "size_bytes": letter.size_bytes,
        "dead_at": rfc3339(letter.dead_at),
        "dead_s": age_s(letter.dead_at, now_ms),
        "first_failed_at": rfc3339_or_none(letter.first_failed_at),
        "job_id": letter.job_id,
        "resent_at": rfc3339_or_none(letter.resent_at),
        "resent_topic": letter.resent_topic,
        "resent_queue": letter.resent_queue,
        "resent_offset": letter.resent_offset,
        "discarded_at": rfc3339_or_none(letter.discarded_at),
        "discarded_by": letter.discarded_by,
        "discard_reason": letter.discard_reason,
    }


def body_row(body: Body) -> Row:
    """Return the begin of a body, as text or in base64."""
    text = body.text
    shown = body.base64 if text is None else text
    return {
        "is_text": text is not None,
        "shown": shown[:BODY_CHARACTERS_SHOWN],
        "is_cut": len(shown) > BODY_CHARACTERS_SHOWN,
        "size_bytes": len(body.body),
        "properties": sorted(body.properties.items()),
    }


def job_row(job: ResendJob, *, now_ms: int) -> Row:
    """Return a job with its counts."""
    return {
        "id": job.pk,
        "group": job.group,
        "target": job.target,
        "is_group_only": job.target == retry_topic_of(job.group),
        "rate_per_s": job.rate_per_s,
        "dry_run": job.dry_run,
        "plan": job.plan,
        "state": job.state,
        "look": _LOOKS.get(JobState(job.state), job.state),
        "is_active": job.is_active,
        "can_be_cancelled": job.is_active and not job.cancel_requested,
        "cancel_requested": job.cancel_requested,
        "cancelled_by": job.cancelled_by,
        "total": job.total,
        "done": job.done_count,
        "sent": job.sent_count,
        "already": job.already_count,
        "gone": job.gone_count,
        "failed": job.failed_count,
        "returned": job.returned_count,
        "error": job.error,
        "created_by": job.created_by,
        "created_at": rfc3339(job.created_at),
        "created_s": age_s(job.created_at, now_ms),
        "started_at": rfc3339_or_none(job.started_at),
        "ended_at": rfc3339_or_none(job.ended_at),
    }


def criteria_text(job: ResendJob, *, peeks: bool = True) -> str:
    """Return in words which letters somebody chose; for who may not peek, no key and no reason."""
    asked = job.criteria if peeks else without_contents(job.criteria)
    if "ids" in asked:
        count = len(asked["ids"])
        return ngettext("one of them", "%(count)s one by one", count) % {"count": count}
    if "admin" in asked:
        return _("the list of the admin: %(query)s") % {"query": asked["admin"] or _("all of it")}
    conditions = [
        f"{field(name)} {_('(hidden)') if text is None else text}"
        for name, text in asked.get("filter", {}).items()
    ]
    return ", ".join(conditions) or pgettext("letters", "all")


def trouble_row(trouble: ResendTrouble) -> Row:
    """Return a letter that a job could not send."""
    return {
        "letter_id": trouble.letter_id,
        "offset": trouble.letter.queue_offset,
        "message_id": trouble.letter.message_id,
        "outcome": trouble.outcome,
        "detail": stored(trouble.detail),
    }


def age_s(at: datetime | None, now_ms: int) -> int | None:
    """Return how long ago a moment was; never less than 0, whatever the clocks say."""
    return None if at is None else max(0, now_ms - ms_of(at)) // 1000
