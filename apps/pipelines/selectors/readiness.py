"""Whether pipelines can run, who runs them, and what a run's driver wrote. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from apps.core.phrases import sentence
from apps.pipelines import conf, requirements, runlogs
from apps.pipelines.models import PipelineRun, PipelineWorker, RunState
from apps.pipelines.requirements import Requirements
from apps.pipelines.services import presence

LOG_TAIL_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What can be said of the pipelines.

    `mode` is MQWEB_SPARK. `is_ready`: what is asked for will be carried out, at once or once a
    worker has started. `missing` says in sentences what stands in the way, and what to do.
    """

    mode: str
    is_ready: bool
    here: Requirements
    workers: Sequence[PipelineWorker]
    waiting_count: int
    missing: Sequence[str]


def readiness() -> Readiness:
    """Return whether runs that are asked for now will be carried out, and by whom.

    A worker of another machine that is there is enough, whatever this one has.
    """
    mode: str = settings.MQWEB.pipelines.spark
    here = requirements.found_here()
    workers = list(presence.workers_there())
    missing: list[str] = []
    if not workers:
        if mode == "off":
            missing.append(
                sentence(
                    "Pipelines are switched off: set MQWEB_SPARK=on, or start "
                    "`manage.py spark_worker`."
                )
            )
        missing += [sentence("%(what)s.", what=what) for what in here.missing]
        if mode == "on" and not missing:
            missing.append(
                sentence("No worker is there: it is starting, or was given up; see the log.")
            )
    is_coming = mode == "demand" and not missing
    return Readiness(
        mode=mode,
        is_ready=bool(workers) or is_coming,
        here=here,
        workers=workers,
        waiting_count=PipelineRun.objects.filter(state=RunState.QUEUED).count(),
        missing=missing,
    )


def run_log(run_id: int, tail_bytes: int = LOG_TAIL_BYTES) -> str:
    """Return the end of what the driver wrote during a run; empty where it ran elsewhere."""
    return runlogs.tail(conf.directory(), run_id, tail_bytes=tail_bytes)


def run_log_bytes(run_id: int) -> int:
    """Return a number that changes as the driver of a run writes; 0 where it runs elsewhere."""
    return runlogs.size_bytes(conf.directory(), run_id)
