"""`manage.py verifyaudit`: walk the chain of the audit log and say where it is broken."""

import argparse
import json
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.audit import heads, selectors
from apps.audit.chain import Head
from apps.bridge.exits import Exit
from apps.core.exceptions import DATABASE_ERRORS


class Command(BaseCommand):
    """Verify; exit with 18 where something is not as it was written."""

    help = "Verify the chain of the audit log against itself and against the head that was kept."
    requires_system_checks = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flags."""
        parser.add_argument("--json", action="store_true", help="one JSON object")
        parser.add_argument(
            "--head",
            action="append",
            default=[],
            metavar="NUMBER:HASH",
            help="a head from a log line `audit_head`, which the chain must have; may be repeated",
        )
        parser.add_argument(
            "--without-file",
            action="store_true",
            help="do not look at the head in the data directory",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Walk, and say how far it went."""
        try:
            kept = self._heads(options)
            walk, broken = selectors.walk(kept)
        except ValueError as error:
            raise CommandError(str(error), returncode=Exit.REFUSED) from error
        except DATABASE_ERRORS as error:
            raise CommandError(f"the database does not answer: {error}") from error
        if options["json"]:
            summary = {
                "entries": walk.count,
                "begins_after": walk.begin.number,
                "head": {"number": walk.head.number, "hash": walk.head.hash},
                "kept_heads": [head.number for head in kept],
                "broken_at": None if broken is None else broken.number,
                "detail": None if broken is None else broken.detail,
            }
            self.stdout.write(json.dumps(summary))
        elif broken is None:
            begin = f", cut up to {walk.begin.number}" if walk.begin.number else ""
            compared = "no kept head" if not kept else f"{len(kept)} kept"
            self.stdout.write(
                f"{walk.count} entries{begin}, unbroken; head {walk.head.number}:{walk.head.hash} "
                f"(compared with {compared})"
            )
        else:
            self.stdout.write(
                f"broken at entry {broken.number}: {broken.detail}; {walk.count} entries before it "
                "are as they were written"
            )
        if broken is not None:
            sys.exit(Exit.DAMAGED_AUDIT)

    def _heads(self, options: dict[str, Any]) -> list[Head]:
        kept = [heads.head_of(text) for text in options["head"]]
        path = settings.MQWEB.data / heads.FILE
        found = None if options["without_file"] else heads.read(path)
        return kept if found is None else [*kept, found]
