"""`mq find`: messages by key, id, place, time and tag. Knows the admin face and the output."""

import argparse
import sys
from typing import cast

from mqclient.admin import Admin
from mqclient.cli.lines import json_line, write
from mqclient.searching import FoundMessage, Wanted

_WANTED = (
    "key", "message_id", "offset_id", "from_time", "to_time", "tag", "queue", "queue_offset",
    "condition", "messages_max", "cursor",
)  # fmt: skip


def find(arguments: argparse.Namespace) -> None:
    """Print a line for each message, the newest first; say where that is not all."""
    given = {name: getattr(arguments, name) for name in _WANTED}
    wanted = cast("Wanted", {name: value for name, value in given.items() if value is not None})
    with Admin(arguments.server, token=arguments.token) as admin:
        result = admin.search(arguments.topic, **wanted)
    line_of = _json_line if arguments.json else _text_line
    write(result.messages, line_of)
    count = len(result.messages)
    if result.truncated:
        sys.stderr.write(f"mq: there is more: these are the newest {count}\n")
    if result.scan_incomplete:
        sys.stderr.write(
            f"mq: the broker did not look everywhere: there may be more than these {count};"
            " narrow the search\n"
        )
    if result.next_cursor is not None:
        sys.stderr.write(f"mq: the rest begins at --cursor {result.next_cursor}\n")


def _text_line(message: FoundMessage) -> bytes:
    fields = (
        message.message_id, message.queue, message.queue_offset, message.store_time_ms,
        message.tag or "-", ",".join(message.keys) or "-",
    )  # fmt: skip
    # A body and keys are anybody's bytes, and must stay fields of one line.
    text = "\t".join(" ".join(str(field).split()) for field in fields)
    body = " ".join(message.body.decode("utf-8", "backslashreplace").splitlines())
    return f"{text}\t{body}\n".encode("utf-8", "replace")


def _json_line(message: FoundMessage) -> bytes:
    return json_line(message, reconsume_times=message.reconsume_times)
