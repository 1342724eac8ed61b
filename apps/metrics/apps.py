"""Application configuration of the metrics."""

from django.apps import AppConfig


class MetricsConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.metrics"
    label = "metrics"
