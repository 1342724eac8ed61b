"""Application configuration of the dead letters."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class DeadLettersConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.deadletters"
    label = "deadletters"
    verbose_name = gettext_lazy("Dead letters")
