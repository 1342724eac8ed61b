"""Application configuration of the dead letters."""

from django.apps import AppConfig


class DeadLettersConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.deadletters"
    label = "deadletters"
