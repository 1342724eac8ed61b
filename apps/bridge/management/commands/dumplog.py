"""`manage.py dumplog`: show frames and records of a store's log."""

import argparse
import json
from itertools import islice
from typing import Any

from django.core.management.base import BaseCommand

from apps.bridge.storecommands import path_of, refused
from apps.engine.errors import EngineError
from apps.engine.verify.dump import Shown, dump, dump_kept
from apps.engine.verify.places import looked_at


class Command(BaseCommand):
    """Print one line a frame, record or damaged place."""

    help = "Show frames and records of the log, as text that is safe for a terminal."
    requires_system_checks = []
    requires_migrations_checks = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flags."""
        parser.add_argument("path", nargs="?", help="the store's directory; else this product's")
        parser.add_argument("--from", type=int, dest="start", help="first log offset")
        parser.add_argument("--to", type=int, dest="stop", help="log offset to stop at")
        parser.add_argument("--topic", help="only records of this topic")
        parser.add_argument("--queue", type=int, help="only records of this queue")
        parser.add_argument("--limit", type=int, help="at most so many lines")
        parser.add_argument("--body-bytes", type=int, default=64, help="cut bodies to so much")
        parser.add_argument(
            "--compacted", action="store_true", help="what compacted topics keep beside the log"
        )
        parser.add_argument("--json", action="store_true", help="a JSON object a line")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print."""
        try:
            with looked_at(path_of(options["path"])) as store:
                which = {"topic": options["topic"], "queue": options["queue"]}
                body_bytes_max = max(0, options["body_bytes"])
                if options["compacted"]:
                    shown = dump_kept(store, **which, body_bytes_max=body_bytes_max)
                else:
                    start, stop = options["start"], options["stop"]
                    shown = dump(
                        store, start=start, stop=stop, **which, body_bytes_max=body_bytes_max
                    )
                for one in islice(shown, options["limit"]):
                    self.stdout.write(json.dumps(one) if options["json"] else _line(one))
        except EngineError as error:
            raise refused(error) from error


def _line(shown: Shown) -> str:
    fields = dict(shown)
    kind, place = fields.pop("kind"), fields.pop("log_offset")
    # JSON once more: a line stays one line, and text is told from numbers.
    parts = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    return f"{place} {kind} {' '.join(parts)}"
