"""Which jobs whoever asks may call off: those of groups whose dead letters they may send again."""

from django.http import HttpRequest

from apps.access import asking
from apps.access.policy import Action, group
from apps.access.policy.sight import ALL
from apps.core.exceptions import ProblemError
from apps.core.phrases import sentence
from apps.deadletters import selectors
from apps.deadletters.models import ResendJob


def job_to_cancel(request: HttpRequest, number: int) -> ResendJob:
    """Return a job that whoever asks may call off.

    Raises ProblemError `not_found` where there is none they may know of, and PermissionDenied for
    one they may only look at.
    """
    found = selectors.job(number, ALL)
    if not asking.permitted(request, Action.REDRIVE, group(found.group)):
        raise ProblemError("not_found", sentence("there is no job %(number)s", number=number))
    return found
