"""What is done about runs: asking, cancelling, publishing. Knows rows; no Spark."""

from apps.pipelines.services.forgetting import forget
from apps.pipelines.services.launching import look

__all__ = ["forget", "look"]
