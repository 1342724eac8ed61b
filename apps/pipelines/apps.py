"""Application configuration of the pipelines."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class PipelinesConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.pipelines"
    label = "pipelines"
    verbose_name = gettext_lazy("Pipelines")
