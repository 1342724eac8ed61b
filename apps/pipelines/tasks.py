"""The tasks of the pipelines. Each translates a tick to one service call."""

from datetime import timedelta

from django.conf import settings

from apps.clockwork.house import house_task
from apps.clockwork.steps import Step
from apps.engine.clock import SystemClock
from apps.pipelines import services


@house_task("pipelines.launch", lease_s=60)
def launch(**_unknown: object) -> Step:
    """Ask for the runs that are due; on demand, start a worker for those that wait."""
    return services.look(
        clock=SystemClock(),
        mode=settings.MQWEB.pipelines.spark,
        archive=settings.MQWEB.pipelines.archive,
    )


@house_task("pipelines.prune", lease_s=60)
def prune(**_unknown: object) -> Step:
    """Delete rows of runs and of what they found out that are old enough."""
    return services.forget(
        now_ms=SystemClock().wall_ms(),
        keep=timedelta(milliseconds=settings.MQWEB.pipelines.run_retention_ms),
    )
