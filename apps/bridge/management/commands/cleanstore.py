"""`manage.py cleanstore`: have the running broker delete now what is too old."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.bridge import engine as bridge
from apps.bridge import remote
from apps.engine.errors import EngineError


class Command(BaseCommand):
    """Ask the broker to delete what may go, until nothing more may."""

    help = "Delete segments that are too old or too many now, whatever the hour."
    requires_system_checks = []

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Ask step by step and say what went, and who needs what stays."""
        remote.install()
        count = size_bytes = 0
        try:
            while True:
                cleaned = bridge.call(lambda engine: engine.clean_now())
                count += cleaned.deleted_segments
                size_bytes += cleaned.deleted_bytes
                if not cleaned.more:
                    break
        except EngineError as error:
            raise CommandError(f"the store was not cleaned: {error}") from error
        self.stdout.write(
            f"deleted {count} segments, {size_bytes} bytes; the log starts at {cleaned.log_start}"
        )
        for block in cleaned.blocked_by:
            self.stdout.write(
                f"{block.holder} needs the log from {block.log_offset} on, "
                f"which keeps {block.size_bytes} bytes"
            )
