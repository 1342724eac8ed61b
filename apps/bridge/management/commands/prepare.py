"""`manage.py prepare`: bring the database up to date, and make the first administrator."""

import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, transaction

from apps.bridge import secretfiles

ADMINISTRATOR = "admin"
_PASSWORD_BYTES = 18


class Command(BaseCommand):
    """Migrate, and create an administrator with a random password where there is none."""

    help = "Migrate the database and create the first administrator. Safe to repeat."
    requires_system_checks = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Carry out both steps."""
        password_file: Path = settings.MQWEB.data / "admin-password"
        try:
            call_command("migrate", interactive=False, verbosity=0)
            password = _first_administrator(password_file)
        except OperationalError as error:
            raise CommandError(f"the database does not answer: {error}") from error
        if password is not None:
            self.stdout.write(
                f"First start: administrator {ADMINISTRATOR!r}, password {password!r} "
                f"(kept in {password_file})"
            )


def _first_administrator(password_file: Path) -> str | None:
    """Create the administrator and return the password; None when there is one already."""
    users = get_user_model().objects
    with transaction.atomic():
        if users.filter(is_superuser=True).exists():
            return None
        # Written before the commit: a kill in between leaves a file that the next start uses.
        secretfiles.write_once(password_file, secrets.token_urlsafe(_PASSWORD_BYTES))
        password = password_file.read_text().strip()
        users.create_superuser(ADMINISTRATOR, email="", password=password)
        return password
