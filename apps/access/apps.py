"""Application configuration of access."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class AccessConfig(AppConfig):
    """Register the application under its short label, and the system checks."""

    name = "apps.access"
    label = "access"
    verbose_name = gettext_lazy("Access")

    def ready(self) -> None:
        """Register checks and the ways into the API, and have denials kept in the audit log.

        The admin's rows and acts are decided by the table of rights, too.
        """
        # Importing the modules registers what they hold, and needs the applications to be ready.
        from apps.access import (
            asking,
            checks,  # noqa: F401
            reaching,
            telling,
        )
        from apps.access.api import schema  # noqa: F401
        from apps.core import adminacts

        asking.tell_of_denials(at_doors=telling.of_data_plane, of_requests=telling.of_request)
        adminacts.decided_by(calls=reaching.may_call, rows=reaching.may_rows)
