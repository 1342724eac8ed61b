"""Application configuration of access."""

from django.apps import AppConfig


class AccessConfig(AppConfig):
    """Register the application under its short label, and the system checks."""

    name = "apps.access"
    label = "access"

    def ready(self) -> None:
        """Register checks and the ways into the API, and have denials kept in the audit log."""
        # Importing the modules registers what they hold, and needs the applications to be ready.
        from apps.access import (
            asking,
            checks,  # noqa: F401
            telling,
        )
        from apps.access.api import schema  # noqa: F401

        asking.tell_of_denials(at_doors=telling.of_data_plane, of_requests=telling.of_request)
