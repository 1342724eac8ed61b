"""What consumers told becomes rows, and what is no trace ends no job."""

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from mqclient import (
    Consumed,
    ListenerContext,
    LitePullConsumer,
    Message,
    PushConsumer,
    SimpleConsumer,
    TopicQueue,
)
from mqclient.consuming.traces import TRACE_TOPIC, Ended, Mode, Teller, body_of, work_of
from mqclient.wire.records import unpack_records

from apps.pipelines.spark.tracing import faults, trace_rows
from apps.pipelines.tables import TABLES
from tests.sdk.fake_broker import FakeBroker
from tests.sdk.fake_broker import body_of as stored_body
from tests.sdk.fake_bytes import make_record
from tests.sdk.push.hearing import Ear

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


def test_what_each_kind_of_consumer_told_is_what_it_did(spark: Any) -> None:
    with FakeBroker().running() as broker:
        broker.topics.update({TRACE_TOPIC: 1, "orders": 1})
        broker.put("orders", 0, b"good", b"bad", b"late")
        _listen(broker, "pushed", ordered=False)
        _listen(broker, "queued", ordered=True)
        with SimpleConsumer("orders", "received", broker.url, trace=True, client_id="c") as given:
            good, bad, _late = given.receive()
            given.ack(good)
            given.nack(bad, delay_ms=60_000)
        queue = TopicQueue("orders", 0)
        with LitePullConsumer(broker.url, group="polled", trace=True, client_id="c") as polling:
            polling.assign([queue])
            polling.poll()
            polling.seek(queue, 2)
            polling.poll()
        bodies = [stored_body(record) for record in broker.queues[TRACE_TOPIC, 0]]

    messages = spark.createDataFrame(
        [(0, number, body) for number, body in enumerate(bodies)],
        "partition int, offset bigint, value binary",
    )
    names = ("group", "mode", "client", "queue_offset", "attempt", "result", "error_class")
    found = sorted(tuple(row[name] for name in names) for row in trace_rows(messages).collect())

    assert [row for row in found if row[4] == 1] == [
        ("polled", None, "c", 0, 1, "ok", ""),
        ("polled", None, "c", 1, 1, "ok", ""),
        ("polled", None, "c", 2, 1, "later", ""),
        ("pushed", "concurrent", "c", 0, 1, "ok", ""),
        ("pushed", "concurrent", "c", 1, 1, "error", "LookupError"),
        ("pushed", "concurrent", "c", 2, 1, "later", ""),
        ("queued", "ordered", "c", 0, 1, "ok", ""),
        ("queued", "ordered", "c", 1, 1, "error", "LookupError"),
        ("queued", "ordered", "c", 2, 1, "later", ""),
        ("received", "concurrent", "c", 0, 1, "ok", ""),
        ("received", "concurrent", "c", 1, 1, "later", ""),
        ("received", "concurrent", "c", 2, 1, "timeout", ""),
    ]
    # Where a message of a retry topic first lay is the broker's to say, and this one is a double.
    assert Counter((row[0], row[5]) for row in found if row[4] == 2) == {
        ("polled", "ok"): 1,
        ("pushed", "ok"): 2,
        ("queued", "ok"): 2,
    }
    assert len(found) == 17


def _listen(broker: FakeBroker, group: str, *, ordered: bool) -> None:
    def result(found: Message, context: ListenerContext) -> Consumed:
        if context.attempt == 1 and found.body == b"bad":
            raise LookupError("no such order")
        is_late = context.attempt == 1 and found.body == b"late"
        return Consumed.RETRY_LATER if is_late else Consumed.SUCCESS

    ear = Ear(result)
    with PushConsumer(
        broker.url, group=group, topics="orders", listener=ear, trace=True, client_id="c",
        ordered=ordered, suspend_ms=10,
    ):  # fmt: skip
        ear.wait_for_count(5)
