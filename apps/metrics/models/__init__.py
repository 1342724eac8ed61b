"""Rows of the statistics: samples over time, and what lists show of this moment."""

from apps.metrics.models.samples import GroupSample, Sample, StoreSample, TopicSample
from apps.metrics.models.summaries import GroupSummary, TopicSummary

__all__ = ["GroupSample", "GroupSummary", "Sample", "StoreSample", "TopicSample", "TopicSummary"]
