"""The Celery application of the runs, made alike in workers and in the test that sends to them."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import mqclient.celery  # noqa: F401
from celery import Celery
from kombu import Queue
from kombu.common import Broadcast

from tests.celery import tasks

LANE = "runs"
"""The lane of what is sent without one; Celery's default is the examples'."""
NEWS = "news"
"""What is sent to this lane reaches every worker that listens to it."""
_VARIABLE = "CELERY_RUNS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What differs between runs."""

    broker_url: str
    result_backend: str
    directory: Path
    """Where effects go."""
    transport_options: Mapping[str, Any] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        """Return the environment that carries this to a worker."""
        return {_VARIABLE: json.dumps({**asdict(self), "directory": str(self.directory)})}


def make(setup: Setup) -> Celery:
    """Return an application with the tasks of the runs, not the current one of this process."""
    app = Celery(
        "runs",
        broker=setup.broker_url,
        backend=setup.result_backend,
        set_as_current=False,
        # None for Django: the variable that calls for it is set where tests run.
        fixups=[],
    )
    app.conf.update(
        broker_transport_options=dict(setup.transport_options),
        broker_connection_retry_on_startup=True,
        effects_directory=str(setup.directory),
        task_default_queue=LANE,
        task_queues=[Queue(LANE), Broadcast(NEWS, routing_key=NEWS)],
    )
    tasks.register(app)
    return app


def from_environment() -> Celery:
    """Return the application of a worker."""
    values = json.loads(os.environ[_VARIABLE])
    app = make(Setup(**{**values, "directory": Path(values["directory"])}))
    app.set_current()
    return app
