"""Application configuration of the audit log."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class AuditConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.audit"
    label = "audit"
    verbose_name = gettext_lazy("Audit")
