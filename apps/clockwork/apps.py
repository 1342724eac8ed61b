"""Application configuration of the clockwork."""

from django.apps import AppConfig


class ClockworkConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.clockwork"
    label = "clockwork"
