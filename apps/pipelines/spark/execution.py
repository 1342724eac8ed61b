"""One run from its inputs to what it publishes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from apps.pipelines.models import PipelineRun
from apps.pipelines.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tell = Callable[[str, int | None], None]
"""Is told the name of a stage, and how many rows are expected in it where that is known."""


def execute(spark: "SparkSession", run: PipelineRun, place: Place, tell: Tell) -> None:
    """Do what a run asks for and publish it: afterwards it is DONE, or this raises."""
    raise NotImplementedError
