"""What whoever asks may do with runs: one of named topics needs the right for each of them.

Knows who asks; changes nothing.
"""

from collections.abc import Sequence

from django.http import HttpRequest

from apps.access import asking
from apps.access.policy import CLUSTER, Action, topic
from apps.pipelines.models import PipelineRun
from apps.pipelines.selectors import runs


def require_topics(request: HttpRequest, topics: Sequence[str]) -> None:
    """Raise PermissionDenied unless whoever asks may run jobs over some topics; none means all.

    Raises Http404 for a topic that they may not even know of, whether it is there or not.
    """
    for name in topics:
        asking.require(request, Action.RUN, topic(name))
    if not topics:
        asking.require(request, Action.RUN, CLUSTER)


def run_to_change(request: HttpRequest, number: int) -> PipelineRun:
    """Return a run that whoever asks may call off or ask for again.

    Raises ProblemError `not_found` for one that is not shown to them, else what `require_topics`
    raises.
    """
    found = runs.run(number, asking.sight_of(request))
    require_topics(request, found.topics)
    return found
