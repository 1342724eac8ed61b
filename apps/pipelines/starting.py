"""Starts a worker as a child process, for installations that want one only while runs wait.

The child is in a process group of its own and ends with whoever started it. That only one is there
at a time is its own affair: it holds a lock of the data directory, or ends at once.
"""

import logging
import os
import sys
from pathlib import Path

from django.conf import settings

from apps.bridge.children import Child, Program
from apps.pipelines import requirements
from apps.pipelines.models import PipelineRun, RunState
from apps.pipelines.services import presence

IDLE_S = 60

_log = logging.getLogger("mqweb.pipelines")
_children: list[Child] = []


def start_worker_if_needed() -> bool:
    """Start a worker when runs wait and none is there; return whether one was started."""
    # What has ended is reaped here; the last one may still be on its way to say that it is there.
    _children[:] = [child for child in _children if child.poll() is None]
    if _children or not PipelineRun.objects.filter(state=RunState.QUEUED).exists():
        return False
    if presence.workers_there().exists():
        return False
    if missing := requirements.found_here().missing:
        _log.warning("spark_missing", extra={"missing": list(missing)})
        return False
    child = Child(
        Program(
            name="spark",
            command=[
                sys.executable,
                str(Path(settings.BASE_DIR) / "manage.py"),
                "spark_worker",
                "--until-idle",
                str(IDLE_S),
            ],
            environ=os.environ,
        )
    )
    _children.append(child)
    _log.info("part_started", extra={"part": "spark", "pid": child.pid})
    return True
