"""A small lake with faults put into it one by one, and how many of each there are.

Written plainly, so that every expected number can be counted here. The window is nine to ten
o'clock; minutes count from nine, so negative ones are of the lookback.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from apps.pipelines.spark.jobs import Window
from apps.pipelines.spark.relations import SEQUENCE
from apps.pipelines.tables import TABLES

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
WINDOW = Window(start=START, end=START + timedelta(hours=1))
# A queue that has a past: what was before is not looked at.
FIRST_OFFSET = 1_000

LOST = {0: [130, 140, 141, 142, 143], 1: [119, 150, 239], 2: [50, 51, 52, *range(200, 210)]}
SENT_AGAIN = {0: [125, 126, 127], 1: [131, 132], 2: [133, 134, 135]}


def at(minutes: float) -> datetime:
    """Return a time by minutes after nine."""
    return START + timedelta(minutes=minutes)


def epoch(minutes: float) -> int:
    """Return such a time as a producer's epoch."""
    return round(at(minutes).timestamp() * 1000)


class Lake:
    """Rows of messages and of deliveries, given in any order."""

    def __init__(self) -> None:
        self._messages: list[dict[str, Any]] = []
        self._trace: list[dict[str, Any]] = []

    def message(self, topic: str, queue: int, minutes: float, **others: Any) -> None:
        """Add a message that was stored then; its offsets follow from its time."""
        number = len(self._messages)
        row = {
            "topic": topic,
            "queue": queue,
            "queue_offset": None,
            "log_offset": None,
            "message_id": f"M{number:06}",
            "key": f"order-{number}",
            "born_at": at(minutes),
            "stored_at": at(minutes),
            "reconsume_times": 0,
            "store_bytes": 200,
            "body_bytes": 50,
        }
        self._messages.append(row | others)

    def numbered(
        self, topic: str, queue: int, producer: str, seq: int, minutes: float, **others: Any
    ) -> None:
        """Add a message with a number that leaves none out."""
        named = {"message_id": f"{producer}-{topic}-{queue}-{seq}", **others}
        self.message(topic, queue, minutes, producer=producer, seq=seq, numbering=SEQUENCE, **named)

    def delivery(
        self,
        group: str,
        topic: str,
        queue: int,
        queue_offset: int,
        minutes: float,
        *,
        took_s: float = 1,
        **others: Any,
    ) -> None:
        """Add a delivery that began then."""
        row = {
            "group": group,
            "topic": topic,
            "queue": queue,
            "queue_offset": queue_offset,
            "message_id": f"{topic}-{queue}-{queue_offset}",
            "client": "c1",
            "attempt": 1,
            "started_at": at(minutes),
            "ended_at": at(minutes) + timedelta(seconds=took_s),
            "result": "ok",
            "error_class": "",
            "mode": "concurrent",
        }
        self._trace.append(row | others)

    def inputs(
        self, spark: Any, *, seen_from: datetime | None = None, until: datetime | None = None
    ) -> Mapping[str, Any]:
        """Return the frames of all rows, or of those of a time."""

        def is_seen(row: Mapping[str, Any], name: str) -> bool:
            return (seen_from is None or row[name] >= seen_from) and (
                until is None or row[name] < until
            )

        return {
            name: frame(spark, name, (row for row in rows if is_seen(row, moment)))
            for name, rows, moment in (
                ("bronze.messages", self._placed(), "stored_at"),
                ("bronze.trace", self._trace, "ended_at"),
            )
        }

    def _placed(self) -> Sequence[dict[str, Any]]:
        ends: dict[tuple[str, int], int] = defaultdict(lambda: FIRST_OFFSET)
        placed = []
        for number, row in enumerate(sorted(self._messages, key=lambda row: row["stored_at"])):
            queue = (row["topic"], row["queue"])
            offset = row["queue_offset"]
            if offset is None:
                offset = ends[queue]
            ends[queue] = offset + 1
            placed.append(row | {"queue_offset": offset, "log_offset": 1_000 * number})
        return placed


def frame(spark: Any, table: str, rows: Iterable[Mapping[str, Any]]) -> Any:
    """Return rows as a frame with a table's columns; what a row does not name is null."""
    names = TABLES[table].names()
    values = [tuple(row.get(name) for name in names) for row in rows]
    return spark.createDataFrame(values, TABLES[table].ddl(), verifySchema=False)


def clean() -> Lake:
    """Return two hours in which nothing is wrong: four queues, whole numbers, ordered readers."""
    lake = Lake()
    for queue in range(4):
        for seq in range(1, 240):
            _one(lake, queue, seq)
    _deliver(lake)
    return lake


def faulty() -> Lake:
    """Return the same two hours with faults, in `orders` those of numbers, ids and deliveries."""
    lake = Lake()
    for queue in range(4):
        for seq in range(1, 240):
            if seq in LOST.get(queue, ()) or (queue, seq) in ((3, 118), (3, 160)):
                continue
            _one(lake, queue, seq)
    _add_what_hides_behind_the_gaps(lake)
    _add_beginnings(lake)
    _add_what_has_no_numbers_to_miss(lake)
    _add_what_is_stored_again(lake)
    _add_what_is_consumed_again(lake)
    _add_keys_that_move(lake)
    _add_deliveries_out_of_order(lake)
    _deliver(lake)
    return lake


def uneven() -> Lake:
    """Return a topic with a hot key and an idle queue, and one whose keys all went to one queue."""
    lake = Lake()
    lake.message("hot", 3, -600)
    for number in range(60):
        lake.message("hot", 0, number / 2, sharding_key="big", key="red blue")
    for queue, count in ((0, 10), (1, 20), (2, 10)):
        for number in range(count):
            lake.message("hot", queue, number, key=f"k{queue}-{number:02}")
    for number in range(400):
        lake.message("even", 0, 1, sharding_key=f"key-{number}", key=None)
    lake.message("even", 3, -1, key=None)
    return lake


def broken() -> Lake:
    """Return a topic that breaks the rules of bronze tables, one that fell silent, and strays."""
    lake = Lake()
    for minute in range(-100, 0, 10):
        lake.message("bad", 0, minute, queue_offset=100 + minute // 10)
    bad: list[tuple[int, float, dict[str, Any]]] = [
        (100, 1, {}),
        (101, 2, {}),
        (101, 3, {"key": None}),
        (105, 4, {"key": None}),
        (106, 3.5, {"key": ""}),
        (107, 5, {"store_bytes": -1}),
        (108, 6, {"due_at": at(5)}),
        (109, 7, {"due_at": at(8)}),
    ]
    for offset, minute, others in bad:
        lake.message("bad", 0, minute, queue_offset=offset, **others)
    for number in range(144):
        lake.message("quiet", 0, -1440 + 10 * number)
    for number in range(11):
        lake.message("young", 0, 5 * number - 180, queue_offset=number)
    for number in range(9):
        lake.message("rare", 0, 100 * number - 1000, queue_offset=number)
    for offset in (0, 3, 9):
        lake.message("state", 0, 50 + offset, queue_offset=offset, is_compacted=True)
    lake.delivery("g", "state", 0, 2, 51, stored_at=at(51))
    lake.delivery("g", "bad", 0, 100, 1, stored_at=at(1))
    lake.delivery("g", "bad", 0, 999, 2, stored_at=at(1))
    lake.delivery("g", "bad", 0, 998, 2, stored_at=at(-10_000))
    lake.delivery("g", "bad", 0, 102, 3, attempt=0)
    lake.delivery("g", "bad", 0, 103, 3, result="maybe")
    lake.delivery("g", "bad", 0, 104, 3, took_s=-1)
    return lake


def _one(lake: Lake, queue: int, seq: int, *, minutes: float | None = None, **others: Any) -> None:
    """Add a message of the producer that sends to each queue every half minute."""
    minutes = seq / 2 - 60 if minutes is None else minutes
    lake.numbered("orders", queue, "shop", seq, minutes, sharding_key=f"customer-{queue}", **others)


def _deliver(lake: Lake) -> None:
    """Add an ordered group that reads each queue by one client, in order."""
    for queue in range(4):
        for seq in range(1, 240):
            place = (queue, FIRST_OFFSET + seq - 1)
            moment = seq / 2 - 59.9
            lake.delivery(
                "billing",
                "orders",
                *place,
                moment,
                client=f"c{queue}",
                mode="ordered",
                sharding_key=f"customer-{queue}",
                stored_at=at(seq / 2 - 60),
            )


def _add_what_hides_behind_the_gaps(lake: Lake) -> None:
    """Numbers that came late: 160 within the window, 118 after a window that told it missing."""
    _one(lake, 3, 160, minutes=22)
    _one(lake, 3, 118, minutes=30)
    # Behind 239, which is lost in queue 1.
    _one(lake, 1, 240, minutes=59.9)


def _add_beginnings(lake: Lake) -> None:
    """Producers that begin behind number 1: two that surely lost it, two that nobody knows of."""
    for seq in (2, 3):
        lake.numbered("orders", 3, "starter", seq, 10 + seq, epoch=epoch(10))
    for seq in (2, 3):
        lake.numbered("fresh", 0, "first", seq, 20 + seq, queue_offset=seq - 2)
    for seq in (500, 501):
        lake.numbered("orders", 0, "nameless", seq, seq / 50)
        lake.numbered("orders", 0, "old", seq, seq / 50, epoch=epoch(-100_000))


def _add_what_has_no_numbers_to_miss(lake: Lake) -> None:
    for number in range(30):
        lake.message("orders", 2, number)
    for seq in (1, 5, 9):
        lake.message(
            "orders", 2, seq, producer="sink", seq=seq, numbering="idempotent", epoch=epoch(0)
        )
    # Replaced ones are not lost.
    for seq in (1, 4, 9):
        lake.numbered("state", 0, "shop", seq, seq, queue_offset=seq - 1, is_compacted=True)
    for seq in (1, 7):
        lake.numbered(
            "%RETRY%billing", 0, "shop", seq, seq, origin_topic="orders", queue_offset=seq
        )


def _add_what_is_stored_again(lake: Lake) -> None:
    """Fourteen copies in the window, and one before it."""
    # Eight, a minute behind the first.
    for queue, numbers in SENT_AGAIN.items():
        for seq in numbers:
            _one(lake, queue, seq, minutes=seq / 2 - 59)
    # Two of one message.
    for minute in (40, 41):
        _one(lake, 3, 170, minutes=minute)
    # One of a message of the lookback.
    _one(lake, 0, 100, minutes=5)
    # One number of an idempotent producer, and one of a producer's in a queue, under other ids.
    lake.message("orders", 0, 9.5, producer="sink", seq=9, numbering="idempotent", epoch=epoch(0))
    _one(lake, 1, 160, minutes=30, message_id="another")
    # One that a person had sent again.
    _one(lake, 2, 30, minutes=45, resent_by="ann")
    # Before the window.
    _one(lake, 0, 40, minutes=-30)


def _add_what_is_consumed_again(lake: Lake) -> None:
    """Nine deliveries too many, by cause: resend 1, retry 1, timeout 2, rebalance 4, unknown 1."""

    def delivery(offset: int, minutes: float, name: str | None, **others: Any) -> None:
        lake.delivery("ledger", "payments", 0, offset, minutes, message_id=name, **others)

    delivery(10, 1, "stored twice")
    delivery(15, 2, "stored twice")
    delivery(20, 3, "failed", result="error")
    delivery(20, 4, "failed", attempt=2)
    delivery(20, 5, "failed", attempt=3)
    delivery(21, 3, "timed out", result="timeout")
    delivery(21, 4, "timed out", attempt=2)
    delivery(21, 5, "timed out", attempt=3)
    delivery(22, 3, "slow", took_s=600)
    delivery(22, 5, "slow", attempt=2, client="c2")
    delivery(23, 3, "three owners")
    delivery(23, 4, "three owners", client="c2")
    delivery(23, 5, "three owners", client="c3")
    delivery(24, 3, None)
    delivery(24, 4, None, client="c2")
    delivery(25, -5, "of before")
    delivery(25, 1, "of before", client="c2")
    delivery(26, 3, "no reason")
    delivery(26, 4, "no reason")
    # None of these is one too many.
    delivery(30, 3, "third time", result="error")
    delivery(30, 4, "third time", attempt=2, result="later")
    delivery(30, 5, "third time", attempt=3)
    delivery(31, -9, "long ago")
    delivery(31, -8, "long ago", client="c2")
    for client in ("c1", "c2"):
        lake.delivery("news", "payments", 0, 10, 3, client=client, mode="broadcast")
        lake.delivery(client, "payments", 0, 10, 3)


def _add_keys_that_move(lake: Lake) -> None:
    """Keys by the queues they went to, message by message."""
    paths: dict[str, list[tuple[int, float]]] = {
        "steady": [(0, 1), (0, 2), (0, 3)],
        "moved": [(0, 1), (0, 2), (1, 3), (1, 4)],
        "mixed": [(0, 1), (1, 2), (0, 3), (1, 4)],
        "edge": [(2, -1), (1, 1)],
        "earlier": [(0, -30), (1, -20), (1, 5)],
    }
    for key, path in paths.items():
        for queue, minute in path:
            lake.message("moves", queue, minute, sharding_key=key)


def _add_deliveries_out_of_order(lake: Lake) -> None:
    """One queue read backwards twice, one of them for a key; one queue and a key with two owners.

    Groups that promised no order do the same and are not told of.
    """
    backwards = [(100, "a"), (101, "b"), (103, "c"), (102, "d"), (110, "e"), (112, "e"), (111, "e")]
    for group, mode in (("ship", "ordered"), ("race", "concurrent"), ("all", "broadcast")):
        for place, (offset, key) in enumerate(backwards):
            lake.delivery(group, "moves", 0, offset, place, mode=mode, sharding_key=key)
        lake.delivery(group, "moves", 2, 200, 10, took_s=10, mode=mode, sharding_key="f")
        lake.delivery(group, "moves", 2, 201, 10.1, client="c2", mode=mode, sharding_key="g")
        # A failure that comes again goes back, and is no disorder.
        lake.delivery(group, "moves", 2, 202, 11, mode=mode, result="error", took_s=0.1)
        lake.delivery(group, "moves", 2, 203, 12, mode=mode)
        lake.delivery(group, "moves", 2, 202, 13, mode=mode, attempt=2)
    for key, offset in (("h", 300), (None, 400)):
        lake.delivery("silent", "moves", 3, offset, 10, took_s=10, mode=None, sharding_key=key)
        lake.delivery(
            "silent", "moves", 3, offset + 1, 10.1, client="c2", mode=None, sharding_key=key
        )
