"""Jobs as pure functions over DataFrames: by name, from tables and a window to tables.

A job's function is given its inputs by the names of the catalogue and returns its outputs by
theirs. It reads no clock, no file, no database and starts no action of its own accord: a plan in,
a plan out. What several outputs are made of it may persist; whoever runs it clears the session's
cache. Inputs reach back further than the window (`lookback_s`); what is returned is of the
window alone. Columns of what it returns are those of the table, in any order.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The time a run is about, UTC, its end not included."""

    start: datetime
    end: datetime


Inputs = Mapping[str, "DataFrame"]
Outputs = Mapping[str, "DataFrame"]
JobFunction = Callable[[Inputs, Window], Outputs]


def function_of(job: str) -> JobFunction:
    """Return the function of a job that reads tables: `run` of the module of its name."""
    found: JobFunction = import_module(f"{__name__}.{job}").run
    return found
