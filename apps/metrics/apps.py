"""Application configuration of the metrics."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class MetricsConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.metrics"
    label = "metrics"
    verbose_name = gettext_lazy("Statistics")
