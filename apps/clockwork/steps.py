"""What one step of a task answers. Knows nothing of tasks, rows or clocks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How much one bounded step has done, and whether more is left to do at once.

    `done` counts what the task counts (rows written, clients expired); 0 is a step with nothing
    to do.
    """

    done: int = 0
    more: bool = False
