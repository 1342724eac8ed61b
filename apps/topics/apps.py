"""Application configuration of the topics."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class TopicsConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.topics"
    label = "topics"
    verbose_name = gettext_lazy("Topics")
