"""What a run yields: one reading a side and repetition. Knows values, nothing of how they came."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.sides import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One line of work that all sides do alike; `headline` is the figure that is compared."""

    title: str
    headline: str
    is_lower_better: bool = False
    note: str = ""
    plot: str = ""
    """The curve it is a point of, at `at`; empty where it is none."""
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One measurement. With a fault its figures say nothing and are not shown."""

    work: Work
    side: str
    is_ours: bool
    terms: Terms
    count: int
    """How many messages the figures stand for."""
    figures: Mapping[str, float]
    """Figures by name with unit, in the order of the table's columns."""
    fault: str = ""
