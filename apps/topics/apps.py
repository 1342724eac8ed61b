"""Application configuration of the topics."""

from django.apps import AppConfig


class TopicsConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.topics"
    label = "topics"
