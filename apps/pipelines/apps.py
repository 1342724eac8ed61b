"""Application configuration of the pipelines."""

from django.apps import AppConfig


class PipelinesConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.pipelines"
    label = "pipelines"
