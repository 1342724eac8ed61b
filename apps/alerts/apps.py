"""Application configuration of the alerts."""

from django.apps import AppConfig


class AlertsConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.alerts"
    label = "alerts"
