"""Application configuration of the delays."""

from django.apps import AppConfig


class DelaysConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.delays"
    label = "delays"
