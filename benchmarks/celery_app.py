"""The Celery application that is measured, the same for producer and worker on every broker.

Celery's defaults but for results, which nobody wants here. Each task writes down its number and the
time, so that what ran can be counted.
"""

import json
import os
import struct
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import mqclient.celery  # noqa: F401  # Makes mqweb:// known to Celery.
from celery import Celery, Task

URL_VARIABLE = "BENCH_CELERY_BROKER"
OPTIONS_VARIABLE = "BENCH_CELERY_OPTIONS"
EFFECTS_VARIABLE = "BENCH_CELERY_EFFECTS"
EFFECT = struct.Struct("<Qd")
"""A task's number, and when it ran on the system's monotonic clock."""


def application(url: str, *, options: Mapping[str, object]) -> Celery:
    """Return an application with these transport options."""
    app = Celery("bench", broker=url, set_as_current=False)
    app.conf.update(
        # The product's own worker must not take what is measured.
        task_default_queue="bench",
        task_ignore_result=True,
        broker_connection_retry_on_startup=True,
        broker_transport_options=dict(options),
    )
    app.task(name="bench.run", shared=False)(_run)
    return app


def task_of(app: Celery) -> Task[..., None]:
    """Return the one task there is."""
    return app.tasks["bench.run"]


def environ(url: str, effects: Path, *, options: Mapping[str, object]) -> Mapping[str, str]:
    """Return the variables with which a worker of this application starts."""
    return {
        URL_VARIABLE: url,
        OPTIONS_VARIABLE: json.dumps(options),
        EFFECTS_VARIABLE: str(effects),
    }


def _run(number: int) -> None:
    os.write(_effects(), EFFECT.pack(number, time.monotonic()))


@cache
def _effects() -> int:
    path = os.environ[EFFECTS_VARIABLE]
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


# A worker imports this module to find its application; everybody else makes one.
if URL_VARIABLE in os.environ:
    app = application(os.environ[URL_VARIABLE], options=json.loads(os.environ[OPTIONS_VARIABLE]))
    app.set_current()
