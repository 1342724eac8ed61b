"""Application configuration of access."""

from django.apps import AppConfig


class AccessConfig(AppConfig):
    """Register the application under its short label, and the system checks."""

    name = "apps.access"
    label = "access"

    def ready(self) -> None:
        """Register the system checks."""
        # Importing the module registers what it holds, and needs the applications to be ready.
        from apps.access import checks  # noqa: F401
