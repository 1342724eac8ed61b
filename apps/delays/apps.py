"""Application configuration of the delays."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class DelaysConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.delays"
    label = "delays"
    verbose_name = gettext_lazy("Delays")
