"""Delays, failures and transactions of dictionaries for the tests of a door: obviously right."""

import json
import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from apps.engine.codec.batch import starts_of
from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import Record, decode_record, encode_record
from apps.engine.config import EngineConfig
from apps.engine.delaytypes import DelayLevelState, DelayStatus, LevelsDelivered, Recall
from apps.engine.errors import DelayTooLong, TransactionDecided, UnknownTransaction
from apps.engine.failuretypes import FailedMessage, Returned, ReturnResult
from apps.engine.limits import DELAY_LEVELS_MS
from apps.engine.transactiontypes import Begun, Check, Ended, Outcome, TransactionStatus
from apps.engine.types import Appended, MessageBlock, RecordBatch

Place = tuple[str, int]
# Where a message was stored: queue and queue offset; and by which number a producer named it.
Spot = tuple[int, int]
Number = tuple[str, str, str]
# Appends a record to a queue and returns its queue offset.
Store = Callable[[str, int, bytes], int]
FAILURES_MAX = 16
_RECONSUME_TIMES_AT = 72


def records_of(batch: RecordBatch) -> list[bytes]:
    """Return the records of a batch."""
    pairs = zip(starts_of(batch.sizes).tolist(), batch.sizes.tolist(), strict=True)
    return [bytes(batch.payload[start : start + size]) for start, size in pairs]


def block_of(topic: str, queue: int, *records: bytes) -> MessageBlock:
    """Return records as a block."""
    sizes = np.array([len(record) for record in records], dtype=np.int32)
    return MessageBlock(topic=topic, queue=queue, payload=b"".join(records), sizes=sizes)


def copy_of(found: Record, *, topic: str, reconsume_times: int, added: dict[str, str]) -> bytes:
    """Return a record as it comes again in another topic's queue 0."""
    record = bytearray(
        encode_record(
            topic=topic.encode(),
            queue=0,
            body=found.body,
            properties=encode_properties(found.properties | added),
            born_time_ms=found.born_time_ms,
        )
    )
    record[_RECONSUME_TIMES_AT : _RECONSUME_TIMES_AT + 4] = struct.pack(">i", reconsume_times)
    return bytes(record)


@dataclass(slots=True, kw_only=True)
class Waiting:
    """A delayed message; what became of it, None while it waits."""

    topic: str
    queue: int
    record: bytes
    due_ms: int
    level: int | None = None
    became: Recall | None = None


class FakeDelays:
    """Messages that wait for a level or for a time of their own."""

    def __init__(self, now_ms: Callable[[], int], store: Store) -> None:
        self._now_ms = now_ms
        self._store = store
        self._waiting: dict[str, Waiting] = {}
        self._counts = {"delivered": 0, "cancelled": 0, "sent_now": 0}

    def check(self, batch: RecordBatch) -> None:
        """Raise DelayTooLong for a batch that asks for too much."""
        for record in records_of(batch):
            due_ms, level = self._due(decode_record(record).properties)
            if level is None and due_ms - self._now_ms() > EngineConfig().delay_ms_max:
                raise DelayTooLong("too long for the fake")

    def take(self, batch: RecordBatch) -> Appended:
        """Have the records of a batch wait."""
        due: list[int] = []
        handles: list[str] = []
        for record in records_of(batch):
            due_ms, level = self._due(decode_record(record).properties)
            handle = self.add(batch.topic, batch.queue, record, due_ms, level)
            due.append(due_ms)
            if level is None:
                handles.append(handle)
        return Appended(
            topic=batch.topic,
            queue=batch.queue,
            queue_offset=-1,
            count=len(due),
            log_offset=0,
            store_time_ms=self._now_ms(),
            due_ms=tuple(due),
            handles=tuple(handles),
        )

    def add(
        self, topic: str, queue: int, record: bytes, due_ms: int, level: int | None = None
    ) -> str:
        """Have one record wait, and return its handle."""
        handle = urlsafe_b64encode(b"fake-%d" % len(self._waiting)).decode()
        self._waiting[handle] = Waiting(
            topic=topic, queue=queue, record=record, due_ms=due_ms, level=level
        )
        return handle

    def _due(self, properties: dict[str, str]) -> tuple[int, int | None]:
        now_ms = self._now_ms()
        if "DELAY" in properties:
            level = min(int(properties["DELAY"]), len(DELAY_LEVELS_MS))
            return now_ms + DELAY_LEVELS_MS[level - 1], level
        if "TIMER_DELIVER_MS" in properties:
            return int(properties["TIMER_DELIVER_MS"]), None
        return now_ms + int(properties["TIMER_DELAY_MS"]), None

    def deliver(self, *, levels: bool) -> int:
        """Deliver what is due, of the levels or of the others; return how much that was."""
        due = [
            one
            for one in self._waiting.values()
            if one.became is None
            and (one.level is not None) is levels
            and one.due_ms <= self._now_ms()
        ]
        for one in due:
            self._deliver(one)
        return len(due)

    def _deliver(self, one: Waiting) -> None:
        one.became = Recall.DELIVERED
        if one.level is None:
            self._counts["delivered"] += 1
        self._store(one.topic, one.queue, one.record)

    def recall(self, handle: str) -> Recall:
        """Cancel a message."""
        one = self._of(handle)
        if one is not None and one.became is None:
            one.became = Recall.CANCELLED
            self._counts["cancelled"] += 1
        return Recall.UNKNOWN if one is None or one.became is None else one.became

    def deliver_now(self, handle: str) -> Recall:
        """Deliver a message before its time."""
        one = self._of(handle)
        if one is not None and one.became is None:
            self._deliver(one)
            self._counts["sent_now"] += 1
        return Recall.UNKNOWN if one is None or one.became is None else one.became

    def _of(self, handle: str) -> Waiting | None:
        one = self._waiting.get(handle)
        return one if one is not None and one.level is None else None

    def status(self) -> DelayStatus:
        """Count."""
        waiting = [w for w in self._waiting.values() if w.became is None and w.level is None]
        late_ms = 0 if self._counts["delivered"] else None
        return DelayStatus(
            pending=len(waiting),
            late_ms=late_ms,
            histogram=((60, len(waiting)), (None, 0)),
            **self._counts,
        )

    def levels(self, delivered: int = 0) -> LevelsDelivered:
        """Tell where each level is."""
        rows = []
        for number, delay_ms in enumerate(DELAY_LEVELS_MS, 1):
            own = [one for one in self._waiting.values() if one.level == number]
            done = sum(one.became is not None for one in own)
            rows.append(
                DelayLevelState(
                    level=number, delay_ms=delay_ms, delivered=done, max_offset=len(own)
                )
            )
        return LevelsDelivered(delivered=delivered, more=False, levels=tuple(rows))


class FakeFailures:
    """Messages that go to a group's retry topic, or to its dead letters."""

    def __init__(self, now_ms: Callable[[], int], store: Store, delays: FakeDelays) -> None:
        self._now_ms = now_ms
        self._store = store
        self._delays = delays
        self.sent_back: set[tuple[str, Place, int]] = set()

    def send_back(
        self,
        group: str,
        message: FailedMessage,
        record: bytes | None,
        *,
        client_id: str,
        delay_level: int | None,
        delay_ms: int | None,
        reason: str,
    ) -> ReturnResult:
        """Take over a message that is in its queue as `record`."""
        if record is None:
            return ReturnResult(outcome=Returned.GONE)
        key = (group, (message.topic, message.queue), message.queue_offset)
        if key in self.sent_back:
            return ReturnResult(outcome=Returned.ALREADY)
        self.sent_back.add(key)
        found = decode_record(record)
        failures = found.reconsume_times
        history = self._history(found, failures + 1, reason, client_id)
        if is_dead(failures, delay_level):
            self.bury(group, found, failures + 1, history)
            return ReturnResult(outcome=Returned.DEAD_LETTER)
        again = copy_of(
            found,
            topic=f"%RETRY%{group}",
            reconsume_times=failures + 1,
            added={"RETRY_TOPIC": found.topic, "ORIGIN_MESSAGE_ID": found.message_id} | history,
        )
        due_ms = self._now_ms() + retry_delay_ms(failures, delay_level, delay_ms)
        level = None if delay_ms is not None else 1
        self._delays.add(f"%RETRY%{group}", 0, again, due_ms, level)
        return ReturnResult(outcome=Returned.RETRY, due_ms=due_ms)

    def _history(self, found: Record, number: int, reason: str, who: str) -> dict[str, str]:
        rows = json.loads(found.properties.get("RETRY_HISTORY", "[]"))
        return {"RETRY_HISTORY": json.dumps([*rows, [number, self._now_ms(), reason, who]])}

    def bury(self, group: str, found: Record, failures: int, history: dict[str, str]) -> None:
        """Store a message as a dead letter."""
        origin = {
            "DLQ_ORIGIN_TOPIC": found.properties.get("RETRY_TOPIC", found.topic),
            "DLQ_ORIGIN_MESSAGE_ID": found.message_id,
        }
        topic = f"%DLQ%{group}"
        letter = copy_of(found, topic=topic, reconsume_times=failures, added=origin | history)
        self._store(topic, 0, letter)

    def give_up(self, group: str, record: bytes, failures: int, reason: str, who: str) -> None:
        """Store what was handed out, and failed so often, as a dead letter."""
        found = decode_record(record)
        self.bury(group, found, failures, self._history(found, failures, reason, who))


def is_dead(failures: int, delay_level: int | None) -> bool:
    """Say whether a message that failed so often before goes to the dead letters."""
    return delay_level == -1 or failures >= FAILURES_MAX


def retry_delay_ms(failures: int, delay_level: int | None, delay_ms: int | None) -> int:
    """Return how long a message waits that failed so often before."""
    if delay_ms is not None:
        return delay_ms
    level = 3 + failures if delay_level is None else delay_level
    wait_ms: int = DELAY_LEVELS_MS[min(level, len(DELAY_LEVELS_MS)) - 1]
    return wait_ms


@dataclass(slots=True, kw_only=True)
class Half:
    """A transaction, and how it ended."""

    number: int
    topic: str
    queue: int
    record: bytes
    producer_group: str
    due_ms: int
    checks: int = 0
    ended: Ended | None = None


class FakeTransactions:
    """Half messages in order; one is due for a check after 6 s, and then once a minute."""

    def __init__(self, now_ms: Callable[[], int], store: Store) -> None:
        self._now_ms = now_ms
        self._store = store
        self._halves: dict[str, Half] = {}

    def begin(self, batch: RecordBatch, producer_group: str, immunity_ms: int | None) -> Begun:
        """Keep a message of which nobody knows."""
        (record,) = records_of(batch)
        number = len(self._halves)
        due_ms = self._now_ms() + (6_000 if immunity_ms is None else immunity_ms)
        self._halves[f"{number:x}.1-fa4efa4e"] = Half(
            number=number,
            topic=batch.topic,
            queue=batch.queue,
            record=record,
            producer_group=producer_group,
            due_ms=due_ms,
        )
        return Begun(
            transaction_id=f"{number:x}.1-fa4efa4e",
            half_offset=number,
            store_time_ms=self._now_ms(),
        )

    def end(self, transaction_id: str, outcome: Outcome) -> Ended:
        """Commit or roll back, once."""
        half = self._halves.get(transaction_id)
        if half is None:
            raise UnknownTransaction("never begun")
        if half.ended is not None:
            if half.ended.outcome is not outcome:
                raise TransactionDecided(f"it was {half.ended.outcome}")
            return replace(half.ended, is_repeat=True)
        half.ended = Ended(
            transaction_id=transaction_id, outcome=outcome, topic=half.topic, queue=half.queue
        )
        if outcome is Outcome.COMMITTED:
            offset = self._store(half.topic, half.queue, half.record)
            half.ended = replace(half.ended, queue_offset=offset)
        return half.ended

    def checks(self, producer_group: str, checks_max: int) -> list[Check]:
        """Hand out what is due."""
        due = [
            (transaction_id, half)
            for transaction_id, half in self._halves.items()
            if half.ended is None
            and half.producer_group == producer_group
            and half.due_ms <= self._now_ms()
        ]
        for _, half in due[:checks_max]:
            half.checks += 1
            half.due_ms = self._now_ms() + 60_000
        return [
            Check(
                transaction_id=transaction_id,
                number=half.checks,
                checks_max=15,
                block=block_of(half.topic, half.queue, half.record),
            )
            for transaction_id, half in due[:checks_max]
        ]

    def status(self) -> TransactionStatus:
        """Count."""
        ended = [half.ended.outcome for half in self._halves.values() if half.ended is not None]
        return TransactionStatus(
            pending=len(self._halves) - len(ended),
            begun=len(self._halves),
            committed=ended.count(Outcome.COMMITTED),
            rolled_back=ended.count(Outcome.ROLLED_BACK),
            checks=sum(half.checks for half in self._halves.values()),
        )


class FakeRepeats:
    """Where the messages are that producers have numbered."""

    def __init__(self) -> None:
        self._known: dict[Number, tuple[Spot, int | None, str | None]] = {}

    def split(self, batch: RecordBatch) -> tuple[dict[int, bytes], dict[int, Spot]]:
        """Return the records of a batch that are new, and where the others are, by place."""
        new: dict[int, bytes] = {}
        repeats: dict[int, Spot] = {}
        for place, record in enumerate(records_of(batch)):
            known = self._known.get(_number_of(batch.topic, record))
            if known is None:
                new[place] = record
            else:
                repeats[place] = known[0]
        return new, repeats

    def keep(self, appended: Appended, records: list[bytes]) -> None:
        """Remember where new messages are, and what was told about those that wait."""
        for place, record in enumerate(records):
            number = _number_of(appended.topic, record)
            spot = (appended.queue, appended.queue_offset + place)
            due_ms = handle = None
            if appended.is_delayed:
                spot, due_ms = (appended.queue, -1), appended.due_ms[place]
                handle = appended.handles[place] if appended.handles else None
            if number[1]:
                self._known[number] = (spot, due_ms, handle)

    def answer(self, batch: RecordBatch, repeats: dict[int, Spot], now_ms: int) -> Appended:
        """Return the answer to a batch of which nothing is new."""
        known = [self._known[_number_of(batch.topic, record)] for record in records_of(batch)]
        queue, queue_offset = known[0][0]
        return Appended(
            topic=batch.topic,
            queue=queue,
            queue_offset=queue_offset,
            count=0,
            log_offset=-1,
            store_time_ms=now_ms,
            due_ms=tuple(due_ms for _, due_ms, _ in known if due_ms is not None),
            handles=tuple(handle for _, _, handle in known if handle),
            repeats=repeats,
        )


def _number_of(topic: str, record: bytes) -> Number:
    properties = decode_record(record).properties
    return topic, properties.get("PRODUCER_ID", ""), properties.get("PRODUCER_SEQ", "")


class CareVerbs:
    """The verbs of EngineAPI that delays and transactions answer by themselves."""

    _delays: FakeDelays
    _transactions: FakeTransactions

    def recall(self, handle: str) -> Recall:
        self._delays.deliver(levels=False)
        return self._delays.recall(handle)

    def deliver_now(self, handle: str) -> Recall:
        self._delays.deliver(levels=False)
        return self._delays.deliver_now(handle)

    def deliver_levels(self, messages_max: int = 1_000) -> LevelsDelivered:
        return self._delays.levels(self._delays.deliver(levels=True))

    def delay_levels(self) -> LevelsDelivered:
        return self._delays.levels()

    def delay_status(self) -> DelayStatus:
        return self._delays.status()

    def transaction_status(self) -> TransactionStatus:
        return self._transactions.status()

    def end_transaction(self, transaction_id: str, outcome: Outcome, *, by: str = "") -> Ended:
        return self._transactions.end(transaction_id, outcome)
