"""What consumers told becomes rows, and what is no trace ends no job."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from mqclient.consuming.traces import Ended, Mode, Teller, body_of, work_of
from mqclient.wire.records import unpack_records

from apps.pipelines.spark.tracing import faults, trace_rows
from apps.pipelines.tables import TABLES
from tests.sdk.fake_bytes import make_record

pytestmark = pytest.mark.spark

_WHOLE = {
    "topic": "orders", "queue": 1, "offset": 17, "id": "m", "attempt": 2, "born_ms": 1_000,
    "stored_ms": 2_000, "started_ms": 3_000, "ended_ms": 4_000, "result": "error", "error": "a\0b",
    "due_ms": 2_500, "level": 3, "sharding_key": "k", "colour": "of a later version",
}  # fmt: skip


def _moment(ms: int) -> datetime:
    """Return a moment as Spark gives it back: in the machine's zone, without saying so."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone().replace(tzinfo=None)


def _document(*records: object, **head: object) -> bytes:
    fields = {"v": 1, "group": "g", "client": "c", "mode": "ordered", "records": records, "x": 1}
    return json.dumps(fields | head).encode()


def test_records_are_rows_and_strangers_are_passed_over(spark: Any) -> None:
    record = make_record("bills", 2, b"body", b"UNIQ_KEY\x01u\x02")
    (message,) = unpack_records(record, 0, [len(record)])
    told = work_of(message, attempt=1, started_ms=5, ended_ms=9, result=Ended.OK)
    bodies = [
        _document(_WHOLE, {**_WHOLE, "offset": 18, "result": "fine"}, {**_WHOLE, "queue": "x"}),
        body_of(Teller(group="h", client_id="d", mode=Mode.CONCURRENT), [told]),
        b"no JSON",
        b"\xff\xfe",
        b"[]",
        _document(_WHOLE, v=2),
        _document(group="g"),
        _document({**_WHOLE, "started_ms": 9 * 10**18}),
        _document(_WHOLE, records=None),
        None,
    ]
    messages = spark.createDataFrame(
        [(0, number, body) for number, body in enumerate(bodies)],
        "partition int, offset bigint, value binary",
    )

    rows = sorted(trace_rows(messages).collect(), key=lambda row: row.group)
    passed = sorted(tuple(row) for row in faults(messages).collect())

    names = TABLES["bronze.trace"].names()
    assert [tuple(row) for row in rows] == [
        tuple(
            {
                "group": "g", "topic": "orders", "queue": 1, "queue_offset": 17, "message_id": "m",
                "sharding_key": "k", "client": "c", "attempt": 2, "born_at": _moment(1_000),
                "stored_at": _moment(2_000), "due_at": _moment(2_500), "delay_level": 3,
                "started_at": _moment(3_000), "ended_at": _moment(4_000), "result": "error",
                "error_class": "ab", "mode": "ordered",
            }[name]
            for name in names
        ),
        tuple(
            {
                "group": "h", "topic": "bills", "queue": 2, "queue_offset": 0, "message_id": "u",
                "sharding_key": None, "client": "d", "attempt": 1,
                "born_at": _moment(message.born_time_ms), "stored_at": _moment(0),
                "due_at": None, "delay_level": None, "started_at": _moment(5),
                "ended_at": _moment(9), "result": "ok", "error_class": "", "mode": "concurrent",
            }[name]
            for name in names
        ),
    ]  # fmt: skip
    assert passed == [
        (0, 0, "record"),
        (0, 0, "record"),
        (0, 2, "message"),
        (0, 3, "message"),
        (0, 4, "message"),
        (0, 5, "message"),
        (0, 7, "record"),
        (0, 8, "message"),
        (0, 9, "message"),
    ]
