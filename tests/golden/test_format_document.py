"""docs/FORMAT.md says what the code does: fields, places, sizes and magic numbers of its tables."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from apps.engine.broker.careevents import CARE_EVENTS
from apps.engine.codec import frame, layout, wire
from apps.engine.derived.compacted import layout as compacted
from apps.engine.derived.timer import parcel, runfile
from apps.engine.files import atomic

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "FORMAT.md").read_text()
SIZES = {"i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8}


def section(title: str) -> str:
    """Return the text from a heading to the next."""
    found = re.search(
        rf"^## \d+\. {re.escape(title)}.*?(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL
    )
    assert found is not None, title
    return found[0]


def rows_of(text: str, *, header: str) -> list[tuple[int, str, str]]:
    """Return start, type and field of the rows of a table that have a start."""
    table = text[text.index(header) :].split("\n\n")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]
    ]
    return [(int(row[0]), row[1], row[2]) for row in cells if row[0].isdigit()]


def size_of(kind: str) -> int:
    """Return the length of a type as the document writes it; several are apart by commas."""
    total = 0
    for part in kind.split(", "):
        name, _, count = part.partition("[")
        total += SIZES[name] * (int(count.rstrip("]")) if count else 1)
    return total


def check_places(rows: list[tuple[int, str, str]]) -> int:
    """Prove that each field begins where the one before ends; return where the last ends."""
    at = rows[0][0]
    for start, kind, field in rows:
        assert start == at, field
        at += size_of(kind)
    return at


def test_the_fields_of_a_record_are_where_the_table_says() -> None:
    rows = rows_of(section("Records"), header="| start | type | field | set by | note |")

    # The body length is in the row that goes on with the body.
    assert check_places(rows) == layout.RECORD_HEADER_BYTES == 88
    fields = layout.RECORD_HEADER.fields
    assert fields is not None
    assert [start for start, _, _ in rows] == sorted(offset for _, offset in fields.values())
    assert np.dtype(layout.RECORD_HEADER).itemsize == struct.calcsize(layout.RECORD_STRUCT)
    assert f"Smallest record: {layout.RECORD_FIXED_BYTES} bytes" in TEXT


def test_the_fields_of_a_frame_header_are_where_the_table_says() -> None:
    rows = rows_of(section("Frames"), header="| start | type | field |")

    assert [start for start, _, _ in rows][-1] == frame._BODY.size
    assert check_places(rows[:-1]) == frame._BODY.size
    assert f"{frame.FRAME_HEADER_FIXED_BYTES} + 4 x count bytes" in TEXT
    assert f"frame version, {frame.FRAME_VERSION}" in TEXT


def test_the_fields_of_a_queue_entry_are_where_the_table_says() -> None:
    rows = rows_of(section("Consume queues"), header="| start | type | field |")

    assert check_places(rows) == layout.QUEUE_ENTRY_BYTES
    fields = layout.QUEUE_ENTRY.fields
    assert fields is not None
    assert [start for start, _, _ in rows] == [offset for _, offset in fields.values()]


@pytest.mark.parametrize(
    "known",
    [
        f"{layout.RECORD_MAGIC} = 0xDAA320A7",
        f"{layout.FILLER_MAGIC} = 0xCBD43194",
        layout.FRAME_TOPIC.decode(),
        layout.JOURNAL_TOPIC,
        layout.TIMER_TOPIC,
        atomic._MAGIC.decode(),
        runfile._MAGIC.decode(),
        parcel._MAGIC.decode(),
        compacted.MAGIC.decode(),
        compacted.END_MAGIC.decode(),
        compacted.DIRECTORY + "/<topic>/<queue>/",
        "MQB1",
        "MQA1",
        "MQP1",
        "MQR1",
    ],
)
def test_a_magic_number_of_the_code_is_in_the_document(known: str) -> None:
    assert known in TEXT


@pytest.mark.parametrize(
    ("what", "size"),
    [
        ("the header", compacted.HEADER.size),
        ("a row", compacted.ROW.itemsize),
        ("a block", compacted.BLOCK.itemsize),
        ("the trailer", compacted.TRAILER.size),
    ],
)
def test_the_fields_of_kept_messages_are_where_the_tables_say(what: str, size: int) -> None:
    rows = rows_of(
        section("Kept messages of compacted topics"), header=f"| start | type | field of {what} |"
    )

    assert check_places(rows) == size


@pytest.mark.parametrize(
    ("what", "dtype"), [("a row", compacted.ROW), ("a block", compacted.BLOCK)]
)
def test_the_fields_of_kept_messages_begin_where_the_code_has_them(
    what: str, dtype: "np.dtype[np.void]"
) -> None:
    rows = rows_of(
        section("Kept messages of compacted topics"), header=f"| start | type | field of {what} |"
    )

    assert dtype.fields is not None
    assert [start for start, _, _ in rows] == [field[1] for field in dtype.fields.values()]


def test_the_two_magics_are_the_same_number_twice() -> None:
    assert layout.RECORD_MAGIC & 0xFFFFFFFF == 0xDAA320A7
    assert layout.FILLER_MAGIC & 0xFFFFFFFF == 0xCBD43194


def test_every_kind_of_journal_record_has_a_row() -> None:
    rows = re.findall(r"^\| (\d+) \| [a-z ]+ \|", section("Consumer state"), re.MULTILINE)

    assert {int(row) for row in rows} == {*range(1, 10), 18, 26} | set(CARE_EVENTS)


def test_the_answers_on_the_wire_have_the_sizes_of_their_tables() -> None:
    rows = rows_of(section("On the wire"), header="| start | type | field |")

    assert check_places([row for row in rows if row[0] < 16]) == 16
    assert wire._PULLED.size == 4 + 4 + 3 * 8
    assert struct.calcsize(">4sHHII") == atomic._ENVELOPE.size
