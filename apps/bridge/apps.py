"""Application configuration of the bridge. Registers the system checks; opens nothing."""

from django.apps import AppConfig


class BridgeConfig(AppConfig):
    """Register the application under its short label."""

    name = "apps.bridge"
    label = "bridge"

    def ready(self) -> None:
        """Register the system checks."""
        # Importing the module registers what it holds, and needs the applications to be ready.
        from apps.bridge import checks  # noqa: F401
