"""`mq trace`: what became of a message. Knows the admin face and the output."""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from mqclient.admin import Admin
from mqclient.lives import LifeEvent, MessageLife

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def trace(arguments: argparse.Namespace) -> None:
    """Print a line for each event, the earliest first; say what is not known."""
    with Admin(arguments.server, token=arguments.token) as admin:
        life = admin.trace(arguments.message_id, topic=arguments.topic)
    text = _json_text(life) if arguments.json else "".join(map(_line, life.events))
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    if not arguments.json:
        for _code, detail in life.unknown:
            sys.stderr.write(f"mq: {_plain(detail)}\n")


def _json_text(life: MessageLife) -> str:
    return json.dumps(asdict(life)) + "\n"


def _line(event: LifeEvent) -> str:
    place = ""
    if event.queue_offset is not None:
        place = f"{event.topic or '-'}/{event.queue}:{event.queue_offset}"
    fields = (
        _moment(event.at_ms), event.kind, event.group, event.client_id,
        _took(event), place, event.result, event.detail,
    )  # fmt: skip
    return "\t".join(_plain(str(field or "-")) for field in fields) + "\n"


def _moment(time_ms: int | None) -> str:
    if time_ms is None:
        return "-"
    at = _EPOCH + timedelta(milliseconds=time_ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _took(event: LifeEvent) -> str:
    if event.at_ms is None or event.ended_ms is None:
        return ""
    return f"{max(0, event.ended_ms - event.at_ms)} ms"


def _plain(text: str) -> str:
    """Return a text in one line that no terminal obeys: anybody may have written it."""
    line = " ".join(text.split())
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
