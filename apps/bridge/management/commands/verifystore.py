"""`manage.py verifystore`: read a whole store and say what is not as it was written."""

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from apps.bridge.storecommands import EXITS, Progress, path_of, refused
from apps.engine.errors import EngineError
from apps.engine.verify.findings import Finding
from apps.engine.verify.places import is_running, looked_at
from apps.engine.verify.store import Store
from apps.engine.verify.walks import WALKS, verify


class Command(BaseCommand):
    """Verify; exit with the code of the first kind of damage."""

    help = "Verify every byte of the store, without changing any. A running broker goes on."
    requires_system_checks = []
    requires_migrations_checks = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flags."""
        parser.add_argument("path", nargs="?", help="the store's directory; else this product's")
        parser.add_argument("--json", action="store_true", help="one JSON object, at the end")
        parser.add_argument("--quiet", action="store_true", help="no progress")
        parser.add_argument(
            "--only", action="append", choices=[walk.name for walk in WALKS], help="these walks"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Walk, print findings and a summary."""
        path = path_of(options["path"])
        try:
            with looked_at(path) as store:
                progress = Progress(store.end, is_quiet=options["quiet"])
                store.progress = progress.at
                chosen = [walk for walk in WALKS if walk.name in (options["only"] or [walk.name])]
                findings = []
                for finding in verify(store, chosen, started=progress.started):
                    findings.append(finding)
                    if not options["json"]:
                        self.stdout.write(_line(finding))
                names = [walk.name for walk in chosen]
                summary = _summary(store, findings, names, is_live=is_running(path))
        except EngineError as error:
            raise refused(error) from error
        if options["json"]:
            self.stdout.write(json.dumps(summary))
        else:
            self.stdout.write(_text(summary))
        if findings:
            sys.exit(EXITS[findings[0].kind])


def _line(finding: Finding) -> str:
    return f"{finding.kind.value}: {finding.place}: {finding.detail}"


def _summary(
    store: Store, findings: list[Finding], walks: list[str], *, is_live: bool
) -> dict[str, Any]:
    return {
        "store_id": store.identity.store_id.hex(),
        "log_start": store.segments.start,
        "verified_to": store.end,
        "is_running": is_live,
        "torn_tail": store.tail_reason,
        "walks": walks,
        "findings": [{**asdict(one), "kind": one.kind.value} for one in findings],
    }


def _text(summary: dict[str, Any]) -> str:
    found = len(summary["findings"])
    what = "nothing is damaged" if not found else f"{found} findings"
    where = "the last checkpoint of the running broker" if summary["is_running"] else "its end"
    tail = f"; behind it lies a torn tail: {summary['torn_tail']}" if summary["torn_tail"] else ""
    return (
        f"store {summary['store_id']}, log {summary['log_start']} to {summary['verified_to']} "
        f"({where}): {what}{tail}"
    )
