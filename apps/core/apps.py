"""Application configuration of the shared plumbing."""

from django.apps import AppConfig


class CoreConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.core"
    label = "core"
