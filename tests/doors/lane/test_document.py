"""docs/LANE.md says what the code does: fields and sizes, limits, flags."""

import re
import struct
from pathlib import Path

from apps.doors.lane import app, connection, frames
from apps.doors.lane.frames import Kind, Verb

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "LANE.md").read_text()
CODES = {"u8": "B", "u16": "H", "u32": "I"}


def layout_of(title: str) -> struct.Struct:
    """Return the fixed fields of a section's table, which must follow on each other."""
    section = TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (u\d+) \|", section, re.MULTILINE)
    layout = ">"
    for start, kind in rows:
        assert struct.calcsize(layout) == int(start)
        layout += CODES[kind]
    end = re.search(r"^\| (\d+) \| \|", section, re.MULTILINE)
    assert end is not None
    assert struct.calcsize(layout) == int(end[1])
    return struct.Struct(layout)


def test_the_tables_are_the_layouts() -> None:
    assert layout_of("A request").format == frames._REQUEST.format
    assert layout_of("An answer").format == frames._ANSWER.format


def test_what_it_says_of_values_is_true() -> None:
    assert f"GET {app.PATH} HTTP/1.1" in TEXT
    assert f"Upgrade: {frames.PROTOCOL.decode()}" in TEXT
    assert [str(ack) for ack in frames.ACKS[1:]] == ["sync", "async", "oneway"]
    assert (frames.WANTS_JSON, frames.KNOWN_FLAGS, list(Verb)) == (4, 7, [Verb.SEND])
    assert [kind.name for kind in Kind] == ["NOTHING", "RECORDS", "JSON", "PROBLEM"]
    assert f"{connection._UNANSWERED_MAX:,} requests unanswered" in TEXT
    assert f"takes nothing for {connection.STALLED_S:.0f} s" in TEXT
    assert f"asks nothing for {connection.IDLE_S:.0f} s" in TEXT
