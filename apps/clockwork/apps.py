"""Application configuration of the clockwork."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class ClockworkConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.clockwork"
    label = "clockwork"
    verbose_name = gettext_lazy("Clockwork")
