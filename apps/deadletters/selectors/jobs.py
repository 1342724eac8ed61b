"""Resend jobs and what went wrong in them, as rows have them."""

from collections.abc import Collection, Sequence

from django.db.models import Q

from apps.access.policy import Sight
from apps.core.exceptions import ProblemError
from apps.core.phrases import sentence
from apps.deadletters.models import ResendJob, ResendTrouble
from apps.deadletters.models.jobs import ACTIVE

TROUBLES_SHOWN = 100
_NUMBER_MAX = 2**63 - 1


def job(number: int, sight: Sight) -> ResendJob:
    """Return one job that a sight shows; refuse any other number as `not_found`."""
    found = ResendJob.objects.filter(pk=number).first() if number <= _NUMBER_MAX else None
    if found is None or not sight.group(found.group):
        raise ProblemError("not_found", sentence("there is no job %(number)s", number=number))
    return found


def jobs(
    *, sight: Sight, group: str | None = None, before: int | None = None, lines_max: int
) -> Sequence[ResendJob]:
    """Return jobs of a group or of all that a sight shows, the newest first, from one on."""
    found = ResendJob.objects.order_by("-pk")
    if not sight.sees_everything:
        names = ResendJob.objects.order_by().values_list("group", flat=True).distinct()
        found = found.filter(group__in=[name for name in names if sight.group(name)])
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
