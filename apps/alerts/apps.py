"""Application configuration of the alerts."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class AlertsConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.alerts"
    label = "alerts"
    verbose_name = gettext_lazy("Alerts")
