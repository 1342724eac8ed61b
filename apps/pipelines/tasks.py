"""The task of the pipelines. Translates a tick to one service call."""

from django.conf import settings

from apps.clockwork.house import house_task
from apps.clockwork.steps import Step
from apps.engine.clock import SystemClock
from apps.pipelines import services


@house_task("pipelines.launch", lease_s=60)
def launch(**_unknown: object) -> Step:
    """Ask for the runs that are due; on demand, start a worker for those that wait."""
    return services.look(
        clock=SystemClock(), mode=settings.MQWEB.spark, archive=settings.MQWEB.archive
    )
