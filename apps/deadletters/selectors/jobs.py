"""Resend jobs and what went wrong in them, as rows have them."""

from collections.abc import Collection, Sequence

from django.db.models import Q

from apps.core.exceptions import ProblemError
from apps.deadletters.models import ResendJob, ResendTrouble
from apps.deadletters.models.jobs import ACTIVE

TROUBLES_SHOWN = 100
_NUMBER_MAX = 2**63 - 1


def job(number: int) -> ResendJob:
    """Return one job; refuse any other number as `not_found`."""
    found = ResendJob.objects.filter(pk=number).first() if number <= _NUMBER_MAX else None
    if found is None:
        raise ProblemError("not_found", f"there is no job {number}")
    return found


def jobs(
    *, group: str | None = None, before: int | None = None, lines_max: int
) -> Sequence[ResendJob]:
    """Return jobs of a group or of all, the newest first, from the one before `before` on."""
    found = ResendJob.objects.order_by("-pk")
    if group is not None:
        found = found.filter(group=group)
    if before is not None:
        found = found.filter(pk__lt=before)
    return list(found[:lines_max])


def going_on(*, also: Collection[int] = (), lines_max: int = 100) -> Sequence[ResendJob]:
    """Return jobs that are not done, and those with these numbers; the newest first."""
    wanted = ResendJob.objects.filter(Q(state__in=ACTIVE) | Q(pk__in=also))
    return list(wanted.order_by("-pk")[:lines_max])


def troubles(found: ResendJob) -> Sequence[ResendTrouble]:
    """Return the first letters that a job could not send, at most 100, with their rows."""
    return list(found.troubles.select_related("letter").order_by("pk")[:TROUBLES_SHOWN])
