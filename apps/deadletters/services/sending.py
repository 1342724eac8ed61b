"""The steps of resend jobs: take letters, have the engine send them, write down what came of it.

The engine sends a letter once, however often it is asked, and answers ALREADY after that. So a step
that ends between the engine and the database is repeated without harm: its letters are still the
job's, and the next step asks for them again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from apps.bridge import engine as bridge
from apps.clockwork.steps import Step
from apps.core.moments import moment
from apps.deadletters.models import DeadLetter, JobState, ResendJob, ResendTrouble, State
from apps.deadletters.models.jobs import ACTIVE
from apps.deadletters.models.letters import TEXT_CHARACTERS_MAX
from apps.deadletters.services.requests import end
from apps.engine.api import EngineControl, Later
from apps.engine.errors import Busy, Refused
from apps.engine.failuretypes import Resend, ResendResult
from apps.groups.models.fields import REASON_CHARACTERS_MAX

# The engine loads and stores so much at a time; a step is well within half of its task's lease.
LETTERS_PER_CALL = 500
BYTES_PER_CALL = 16 * 1024 * 1024
LETTERS_PER_STEP = 2_000
# A rate is made up for over so long, and not over the hours in which no step ran.
PACE_S_MAX = 5.0

_SENT = (Resend.SENT, Resend.ALREADY)
_FOREIGN = "it lies in the log of another store"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Portion:
    """Letters of one job that are sent together; `has_more` but for the rate."""

    job: ResendJob
    letters: Sequence[DeadLetter]
    has_more: bool


def send_some(*, now_ms: int) -> Step:
    """Send a portion of each job that is not done, and count the letters dealt with.

    At most 2,000 letters a step; jobs take turns. `more` says that something could be sent at once.
    Raises Busy while the engine cannot be asked: the jobs say so, and go on with the next step.
    """
    now = moment(now_ms)
    active = ResendJob.objects.filter(state__in=ACTIVE)
    numbers = list(
        active.order_by(F("paced_at").asc(nulls_first=True), "pk").values_list("pk", flat=True)
    )
    if not numbers:
        return Step()
    done, has_more = 0, False
    try:
        store_id = bridge.call(lambda engine: engine.status().store_id)
        for number in numbers:
            if done >= LETTERS_PER_STEP:
                return Step(done=done, more=True)
            portion = _take(number, now)
            if portion is not None:
                _record(portion, _sent(portion, store_id))
                done += len(portion.letters)
                has_more |= portion.has_more
    except Busy as error:
        active.update(error=str(error)[:REASON_CHARACTERS_MAX])
        raise
    return Step(done=done, more=has_more)


def allowed(job: ResendJob, now: datetime) -> tuple[int | None, datetime]:
    """Return how many letters a job may send now, and from when on the rate counts them.

    None is without limit. A clock that was set back makes it wait for its old time, at most the
    length that a rate is made up for.
    """
    if job.rate_per_s is None:
        return None, now
    oldest = now - timedelta(seconds=PACE_S_MAX)
    # The first step sends what belongs to one second.
    begin = now - timedelta(seconds=1) if job.paced_at is None else max(job.paced_at, oldest)
    if begin > now + timedelta(seconds=PACE_S_MAX):
        begin = now
    return max(0, int((now - begin).total_seconds() * job.rate_per_s)), begin


def _take(number: int, now: datetime) -> _Portion | None:
    with transaction.atomic():
        job = ResendJob.objects.select_for_update().get(pk=number)
        if not job.is_active:
            return None
        if job.cancel_requested:
            end(job, JobState.CANCELLED)
            return None
        count, begin = allowed(job, now)
        letters, has_more = _next_letters(job, count)
        if job.rate_per_s is None:
            job.paced_at = now
        else:
            job.paced_at = begin + timedelta(seconds=len(letters) / job.rate_per_s)
        job.state = JobState.RUNNING
        job.started_at = job.started_at or now
        job.save()
        if not letters and count != 0:
            end(job, JobState.DONE)
    return _Portion(job=job, letters=letters, has_more=has_more) if letters else None


def _next_letters(job: ResendJob, count: int | None) -> tuple[list[DeadLetter], bool]:
    most = LETTERS_PER_CALL if count is None else min(count, LETTERS_PER_CALL)
    found = list(job.letters.filter(state=State.RESENDING).order_by("pk")[: most + 1])
    sizes = accumulate(letter.size_bytes for letter in found[:most])
    fitting = sum(size <= BYTES_PER_CALL for size in sizes)
    letters = found[: max(fitting, min(1, most))]
    is_cut_by_rate = count is not None and len(letters) >= count
    return letters, len(found) > len(letters) and not is_cut_by_rate


def _sent(portion: _Portion, store_id: str) -> Sequence[ResendResult] | Refused:
    """Have the engine send the letters of its own store; others are gone."""
    job = portion.job
    ours = [letter.queue_offset for letter in portion.letters if letter.store_id == store_id]
    try:
        results = bridge.call(partial(_resend, job=job, queue_offsets=ours)) if ours else []
    except Refused as refusal:
        return refusal
    by_offset = {result.queue_offset: result for result in results}
    return [
        by_offset[letter.queue_offset]
        if letter.store_id == store_id
        else ResendResult(queue_offset=letter.queue_offset, outcome=Resend.GONE, detail=_FOREIGN)
        for letter in portion.letters
    ]


def _resend(
    engine: EngineControl, *, job: ResendJob, queue_offsets: Sequence[int]
) -> Later[list[ResendResult]]:
    return engine.resend(job.group, queue_offsets, topic=job.target or None, by=job.created_by)


def _record(portion: _Portion, results: Sequence[ResendResult] | Refused) -> None:
    with transaction.atomic():
        job = ResendJob.objects.select_for_update().get(pk=portion.job.pk)
        if isinstance(results, Refused):
            if job.is_active:
                job.error = str(results)[:REASON_CHARACTERS_MAX]
                end(job, JobState.FAILED)
            return
        _write(job, portion.letters, results)
        if job.is_active:
            job.error = ""
            job.save()
            if not job.letters.filter(state=State.RESENDING).exists():
                end(job, JobState.DONE)


def _write(job: ResendJob, letters: Sequence[DeadLetter], results: Sequence[ResendResult]) -> None:
    # One that a later step has given back was sent all the same: what the engine says wins.
    ours = (
        Q(state=State.RESENDING, job=job) | Q(state=State.WAITING) | Q(state=State.RESENT, job=job)
    )
    rows = {
        row.pk: row
        for row in DeadLetter.objects.select_for_update()
        .filter(ours, pk__in=[letter.pk for letter in letters])
        .order_by("pk")
    }
    now = timezone.now()
    troubles = []
    for letter, result in zip(letters, results, strict=True):
        row = rows.get(letter.pk)
        if row is None or (row.state == State.WAITING and result.outcome not in _SENT):
            continue
        if row.state == State.RESENT:
            if result.outcome is Resend.SENT and job.already_count:
                # A step that asked later wrote first, and was told less: this one has the place.
                job.already_count -= 1
                job.sent_count += 1
                _mark_sent(row, job, result, now)
            continue
        if row.state == State.RESENDING:
            _count(job, result.outcome)
        if result.outcome in _SENT:
            _mark_sent(row, job, result, now)
        else:
            row.state = State.GONE if result.outcome is Resend.GONE else State.WAITING
            row.job = None
            row.trouble = result.detail[:REASON_CHARACTERS_MAX]
            troubles.append(
                ResendTrouble(
                    job=job,
                    letter=row,
                    outcome=result.outcome.value,
                    detail=row.trouble,
                    at=now,
                )
            )
    DeadLetter.objects.bulk_update(
        rows.values(),
        ["state", "job", "trouble", "resent_at", "resent_topic", "resent_queue", "resent_offset"],
    )
    ResendTrouble.objects.bulk_create(troubles, ignore_conflicts=True)
    job.save()


def _count(job: ResendJob, outcome: Resend) -> None:
    column = f"{outcome.value}_count"
    setattr(job, column, getattr(job, column) + 1)


def _mark_sent(row: DeadLetter, job: ResendJob, result: ResendResult, now: datetime) -> None:
    row.state = State.RESENT
    row.job = job
    row.trouble = ""
    row.resent_at = now
    row.resent_topic = result.topic[:TEXT_CHARACTERS_MAX]
    row.resent_queue = result.queue
    row.resent_offset = result.sent_offset
