"""Log lines: one JSON object each, whatever is in them."""

import json
import logging
import sys

from apps.core import requestids
from apps.core.logging import JsonFormatter


def line_of(message: str, **extra: object) -> str:
    record = logging.makeLogRecord({"msg": message, "name": "mqweb.x", "levelname": "INFO"})
    record.__dict__.update(extra)
    return JsonFormatter().format(record)


def test_a_line_is_one_object_with_the_events_own_fields() -> None:
    found = json.loads(line_of("part_started", part="broker", pid=7))

    assert (found["event"], found["part"], found["pid"]) == ("part_started", "broker", 7)
    assert (found["level"], found["logger"]) == ("info", "mqweb.x")
    assert found["time"].endswith("+00:00")


def test_hostile_text_cannot_forge_a_line_or_reach_a_terminal() -> None:
    line = line_of("x", path='/a\r\n{"event": "forged"}\x1b[31m\x9b\u2028')

    assert line.isascii()
    assert line.isprintable()
    assert len(line.splitlines()) == 1


def test_the_request_is_named_while_it_lasts() -> None:
    token = requestids.current.set("r7")
    try:
        inside = json.loads(line_of("x"))
    finally:
        requestids.current.reset(token)

    assert inside["request_id"] == "r7"
    assert "request_id" not in json.loads(line_of("x"))


def test_a_traceback_stays_on_its_line() -> None:
    try:
        _ = 1 / 0
    except ZeroDivisionError:
        line = line_of("failed", exc_info=sys.exc_info())

    assert len(line.splitlines()) == 1
    assert "ZeroDivisionError" in json.loads(line)["traceback"]
