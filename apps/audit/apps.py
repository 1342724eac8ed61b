"""Application configuration of the audit log."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.audit"
    label = "audit"
