"""`manage.py rebuild`: make derived files of a stopped store anew, or accept what is lost."""

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.bridge import conf
from apps.bridge.exits import Exit
from apps.bridge.storecommands import path_of, refused
from apps.engine.clock import SystemClock
from apps.engine.errors import EngineError
from apps.engine.verify import places
from apps.engine.verify.rebuild import Part


class Command(BaseCommand):
    """Rebuild all parts or those that are named."""

    help = "Make derived files of a stopped store anew from its log."
    requires_system_checks = []
    requires_migrations_checks = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flags."""
        parser.add_argument("parts", nargs="*", help=f"all, or of {', '.join(Part)}")
        parser.add_argument("--path", help="the store's directory; else this product's")
        parser.add_argument(
            "--accept-loss",
            action="store_true",
            help="open without the consumer state that is in quarantine or was in lost segments",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Rebuild, and say what was done."""
        names: list[str] = options["parts"]
        if unknown := set(names) - {"all", *Part}:
            raise CommandError(f"there is no part {min(unknown)!r}", returncode=Exit.REFUSED)
        if not names and not options["accept_loss"]:
            raise CommandError("name a part, or all", returncode=Exit.REFUSED)
        parts = set(Part) if "all" in names else {Part(name) for name in names}
        try:
            accepted, report = places.rebuild(
                path_of(options["path"]),
                parts,
                accept_loss=options["accept_loss"],
                config=conf.engine_config(),
                clock=SystemClock(),
                failpoints=conf.failpoints(),
            )
        except EngineError as error:
            raise refused(error) from error
        if options["accept_loss"]:
            self.stdout.write(f"accepted the loss of {accepted} damaged places")
        if report is not None:
            made = ", ".join(sorted(parts))
            self.stdout.write(f"made anew: {made}; the log ends at {report.log_end}")
