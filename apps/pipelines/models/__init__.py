"""Rows of runs, of the lake's files, and of what jobs found out."""

from apps.pipelines.models.lake import ArchivedSegment, IngestPosition, LakeFile
from apps.pipelines.models.results import RESULTS
from apps.pipelines.models.runs import PipelineRun, RunInput, RunState, Trigger
from apps.pipelines.models.streams import PipelineStream, StreamBatch
from apps.pipelines.models.workers import PipelineWorker

__all__ = [
    "RESULTS",
    "ArchivedSegment",
    "IngestPosition",
    "LakeFile",
    "PipelineRun",
    "PipelineStream",
    "PipelineWorker",
    "RunInput",
    "RunState",
    "StreamBatch",
    "Trigger",
]
