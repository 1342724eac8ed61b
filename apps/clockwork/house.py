"""Makes a Celery task of a step, by the rules of the house. Decides nothing about when it runs.

A tick is a message that says "look whether you are due". Whether the step then runs is decided
by the task's row alone, so ticks may come twice, late, in a burst or from two beats.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from celery import Task, shared_task

from apps.clockwork.steps import Step

StepFunction = Callable[..., Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class HouseTask:
    """A step, the name of its task, and the longest time until a killed run is made up for."""

    name: str
    lease_s: int
    function: StepFunction

    @property
    def hold_s(self) -> int:
        """Return how long one run may take and holds the task.

        Half of the lease: with ticks twice a lease, a killed run is repeated within the lease.
        """
        return self.lease_s // 2


HOUSE_TASKS: dict[str, HouseTask] = {}
"""Every task of the house by its name; filled when the modules named `tasks` are imported."""


def house_task(name: str, *, lease_s: int) -> Callable[[StepFunction], "Task[..., Any]"]:
    """Make a Celery task of a function that does one bounded step with one service call.

    The function takes keywords only and tolerates unknown ones, so that a worker of another
    version can carry out a tick. `lease_s` is even, and the step ends within half of it.
    """
    if lease_s < 2 or lease_s % 2:
        raise ValueError(f"the lease of {name} must be an even number of seconds, not {lease_s}")

    def made(function: StepFunction) -> "Task[..., Any]":
        task = HouseTask(name=name, lease_s=lease_s, function=function)
        HOUSE_TASKS[name] = task

        @shared_task(
            name=name,
            ignore_result=True,
            acks_late=True,
            reject_on_worker_lost=True,
            soft_time_limit=task.hold_s,
            time_limit=task.lease_s,
        )
        @wraps(function)
        def tick(**keywords: Any) -> dict[str, Any]:  # Celery's own types: values of JSON.
            # The rows can be imported once Django has its applications; tasks are found before.
            from apps.clockwork import ticking

            return ticking.tick(task, keywords, again=tick.delay)

        return tick

    return made
