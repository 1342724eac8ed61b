"""The task of the pipelines. Translates a tick to service calls."""

from django.conf import settings

from apps.clockwork.house import house_task
from apps.clockwork.steps import Step
from apps.core.moments import moment
from apps.engine.clock import SystemClock
from apps.pipelines import starting
from apps.pipelines.services import claims, launching


@house_task("pipelines.launch", lease_s=60)
def launch(**_unknown: object) -> Step:
    """Ask for the runs that are due; on demand, start a worker for those that wait."""
    environment = settings.MQWEB
    if environment.spark == "off":
        return Step(done=len(claims.expire()))
    now = moment(SystemClock().wall_ms())
    done = launching.launch(now=now, archive=environment.archive)
    if environment.spark == "demand":
        starting.start_worker_if_needed()
    return Step(done=done)
