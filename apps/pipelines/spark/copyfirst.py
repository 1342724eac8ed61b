"""Nothing is worked out of half a window: what is not copied is copied first.

Knows rows, and a runner; what is copied it is told. One worker is enough for both runs: the one
that has to wait is given back.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import InterfaceError, OperationalError, connection

from apps.core.exceptions import ProblemError
from apps.engine.errors import EngineError
from apps.pipelines.errors import NotCopied
from apps.pipelines.models import PipelineRun, RunState
from apps.pipelines.services import claims, copies

CarryOut = Callable[[Any, PipelineRun], RunState]

_log = logging.getLogger("mqweb.pipelines")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFirst:
    """Carries runs out by `then`, each when `is_copied` says that bronze has its window."""

    then: CarryOut
    is_copied: Callable[[PipelineRun], bool]

    def carry_out(self, spark: Any, run: PipelineRun) -> RunState:
        """Carry a run out, or put it back behind a copy: QUEUED; it fails if that did not do.

        While the database is away nothing is decided, and the lease ends: INTERRUPTED.
        """
        try:
            if self.is_copied(run):
                return self.then(spark, run)
            copy = copies.last_of(run)
            if copy is not None:
                return _failed(run, f"a copy was made for it, run {copy.pk}, which is {copy.state}")
            try:
                copy = copies.ask_for(run)
            except (EngineError, ProblemError) as error:
                return _failed(run, f"no copy can be made for it: {error}")
            if claims.put_back(run):
                _log.info("run_waits_for_copy", extra={"run": run.pk, "copy": copy.pk})
                return RunState.QUEUED
            # Called off meanwhile, or another's: who carries runs out knows how that ends.
            return self.then(spark, run)
        except (OperationalError, InterfaceError):
            connection.close()
            return RunState.INTERRUPTED


def _failed(run: PipelineRun, why: str) -> RunState:
    sentence = f"{NotCopied.code}: bronze does not have all of the window yet, and {why}"
    claims.finish(run, RunState.FAILED, error=sentence)
    _log.error("run_failed", extra={"run": run.pk, "job": run.job, "state": RunState.FAILED.value})
    return RunState.FAILED
