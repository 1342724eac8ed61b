"""Jobs that send dead letters again, asked for and called off. Knows rows; asks no engine.

A letter belongs to at most one job: it is claimed in the transaction that makes the job, and a
letter that another request is claiming at this moment is passed over, not waited for.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet
from django.utils import timezone

from apps.audit.services import recorded
from apps.core.exceptions import ProblemError
from apps.core.phrases import sentence
from apps.deadletters.models import DeadLetter, JobState, ResendJob, State
from apps.deadletters.models.jobs import RATE_MAX
from apps.deadletters.records import retry_topic_of
from apps.engine.codec.litenames import lite_parts
from apps.engine.errors import InvalidArgument, NotPermitted, UnknownTopic
from apps.engine.types import PERM_READ, PERM_WRITE, TopicType
from apps.topics.models import Topic

# Destinations a job tells apart; what is beyond them is told together.
PLAN_LINES_MAX = 100
_WRITABLE = (PERM_WRITE, PERM_WRITE | PERM_READ)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How letters are to be sent: to `target`, None for each one's own topic.

    The group's own retry topic as the target gives them to this group only. `rate_per_s` None is
    as fast as it goes. A `dry_run` counts, and changes nothing.
    """

    target: str | None = None
    rate_per_s: int | None = None
    dry_run: bool = False


def request_resend(
    *,
    group: str,
    letters: QuerySet[DeadLetter],
    criteria: Mapping[str, Any],  # Values of JSON.
    wish: Wish,
    by: str,
) -> ResendJob:
    """Make a job of those among `letters` of the group that wait, and claim them for it.

    A dry run is done when this returns; any other job is carried out by the clockwork. Raises
    UnknownTopic, NotPermitted or InvalidArgument for a wish nobody can carry out, and a `conflict`
    when none of the letters waits: they are discarded, sent, or another job's.
    """
    with recorded(by=by, act="deadletters.resend", kind="dead letters", name=group) as entry:
        job = _requested(group, letters, criteria, wish, by=by)
        entry.after = {
            "job": job.pk,
            "target": job.target or "origin",
            "rate_per_s": job.rate_per_s,
            "dry_run": job.dry_run,
            "total": job.total,
            "chosen_by": job.criteria,
        }
    return job


def _requested(
    group: str,
    letters: QuerySet[DeadLetter],
    criteria: Mapping[str, Any],
    wish: Wish,
    *,
    by: str,
) -> ResendJob:
    _check(group, wish)
    waiting = letters.filter(group=group, state=State.WAITING)
    job = ResendJob(
        group=group,
        target=wish.target or "",
        criteria=dict(criteria),
        rate_per_s=wish.rate_per_s,
        dry_run=wish.dry_run,
        created_by=by,
        created_at=timezone.now(),
    )
    if wish.dry_run:
        return _counted(job, waiting)
    job.save()
    free = waiting.order_by().select_for_update(skip_locked=True)
    job.total = DeadLetter.objects.filter(pk__in=free.values("pk")).update(
        state=State.RESENDING, job=job, trouble=""
    )
    if not job.total:
        raise ProblemError(
            "conflict", sentence("none of these dead letters waits to be sent again")
        )
    job.plan = plan_of(job.letters.all(), group=group, target=job.target)
    job.save()
    return job


def cancel(*, job_id: int, by: str) -> ResendJob:
    """Call a job off: what it has not sent waits again, at once or within a step of it.

    Asked again it changes nothing. Raises `not_found`, and `conflict` for a job that has ended.
    """
    with recorded(by=by, act="job.cancel", kind="job", name=str(job_id)) as entry:
        job = ResendJob.objects.select_for_update().filter(pk=job_id).first()
        if job is None:
            raise ProblemError("not_found", sentence("there is no job %(job_id)s", job_id=job_id))
        if job.cancel_requested:
            entry.forget()
            return job
        entry.before = {"group": job.group, "state": job.state, "done": job.done_count}
        if not job.is_active:
            raise ProblemError(
                "conflict",
                sentence(
                    "job %(job_id)s has ended: it is %(state)s", job_id=job_id, state=job.state
                ),
            )
        job.cancel_requested = True
        job.cancelled_by = by
        job.save()
        # A job that runs may be asking the engine just now: its next step knows what came of it.
        if job.state == JobState.QUEUED:
            end(job, JobState.CANCELLED)
        entry.after = {
            "group": job.group,
            "state": job.state,
            "done": job.done_count,
            "cancel_requested": True,
        }
    return job


def end(job: ResendJob, state: JobState) -> None:
    """End a job whose row is locked; the letters it still has wait again."""
    job.returned_count += job.letters.filter(state=State.RESENDING).update(
        state=State.WAITING, job=None
    )
    job.state = state
    job.ended_at = timezone.now()
    job.save()


def plan_of(letters: QuerySet[DeadLetter], *, group: str, target: str) -> list[dict[str, Any]]:
    """Return how many letters go where, and what is in the way: rows of JSON, most first."""
    if target:
        counts = {target: letters.count()}
    else:
        found = letters.order_by().values_list("origin_topic").annotate(count=Count("pk"))
        counts = dict(found.order_by("-count", "origin_topic"))
    writable = _writable(counts)
    writable.add(retry_topic_of(group))
    lines = [
        {
            "topic": topic,
            "count": count,
            "trouble": "" if topic in writable else "takes no messages, or is not there",
        }
        for topic, count in counts.items()
        if count
    ]
    rest = lines[PLAN_LINES_MAX:]
    if rest:
        others = sum(int(str(line["count"])) for line in rest)
        lines[PLAN_LINES_MAX:] = [
            {"topic": "", "count": others, "trouble": f"to {len(rest)} more topics"}
        ]
    return lines


def _writable(names: Collection[str]) -> set[str]:
    """Return which topics of these take messages; of one that has lite topics only those do."""
    of = {name: (lite_parts(name) or (name,))[0] for name in names}
    rows = Topic.objects.filter(name__in=set(of.values()), perm__in=_WRITABLE)
    types = dict(rows.values_list("name", "type"))
    return {
        name
        for name, parent in of.items()
        if parent in types and (types[parent] == TopicType.LITE) == (parent != name)
    }


def _counted(job: ResendJob, waiting: QuerySet[DeadLetter]) -> ResendJob:
    job.plan = plan_of(waiting, group=job.group, target=job.target)
    job.total = sum(line["count"] for line in job.plan)
    job.state = JobState.DONE
    job.ended_at = job.created_at
    job.save()
    return job


def _check(group: str, wish: Wish) -> None:
    if wish.rate_per_s is not None and not 1 <= wish.rate_per_s <= RATE_MAX:
        raise InvalidArgument(
            sentence("rate_per_s must be from 1 to %(rate_max)s", rate_max=RATE_MAX)
        )
    if wish.target is None or wish.target == retry_topic_of(group):
        return
    parent = (lite_parts(wish.target) or (wish.target,))[0]
    if not Topic.objects.filter(name=parent).exists():
        raise UnknownTopic(sentence("there is no topic %(target)s", target=repr(wish.target)))
    if wish.target not in _writable([wish.target]):
        raise NotPermitted(sentence("topic %(target)s takes no messages", target=repr(wish.target)))
