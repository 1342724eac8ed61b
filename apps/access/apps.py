"""Application configuration of access."""

from django.apps import AppConfig


class AccessConfig(AppConfig):
    """Register the application under its short label, and the system checks."""

    name = "apps.access"
    label = "access"

    def ready(self) -> None:
        """Register the system checks, and how the API's document names the ways in."""
        # Importing the modules registers what they hold, and needs the applications to be ready.
        from apps.access import checks  # noqa: F401
        from apps.access.api import schema  # noqa: F401
