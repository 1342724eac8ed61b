"""The fake engine's verbs of time and failure: delays, dead letters, transactions. No clock.

A test puts in what waits and what is due; the verbs keep to their contract from there on: what was
done once is answered as a repeat.
"""

import struct
import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from apps.engine.codec.properties import encode_properties
from apps.engine.codec.record import encode_record
from apps.engine.delaytypes import (
    DelayedCopies,
    DelayedMessage,
    DelayedPage,
    DelayLevelState,
    DelayStatus,
    LevelsDelivered,
    Recall,
)
from apps.engine.errors import EngineError, InvalidArgument, TransactionDecided, UnknownTransaction
from apps.engine.failuretypes import GroupRetries, Resend, ResendResult, RetryCount
from apps.engine.retentiontypes import Cleaned
from apps.engine.transactiontypes import (
    Ended,
    GivenUpMessage,
    GivenUpPage,
    Outcome,
    PendingTransaction,
    SentAfterAll,
    TransactionStatus,
)
from apps.engine.types import MessageBlock, PullRequest, PullResult, PullStatus, QueueRange

BUCKETS_S = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400, None)


class FakeCare:
    """Messages that wait, failed or are undecided, as lists that the test fills."""

    def __init__(self) -> None:
        self.levels: list[DelayLevelState] = []
        self.due: dict[int, int] = {}
        """By level, how many of what waits in it is due."""
        self.delivery_calls: list[int] = []
        self.waiting: list[DelayedMessage] = []
        self.recalled: dict[str, Recall] = {}
        """What became of handles that no longer wait."""
        self.clock_held_ms = 0
        self.late_ms: int | None = None
        self.own_records: dict[str, list[bytes]] = {}
        """Records of own topics with one queue, by name; offsets count from `own_first`."""
        self.own_first: dict[str, int] = {}
        self.resent: dict[tuple[str, int], ResendResult] = {}
        self.resend_calls: list[tuple[str, tuple[int, ...], str | None, str]] = []
        self.resend_failures: dict[int, str] = {}
        """Queue offsets that cannot be sent, with the reason."""
        self.undecided: list[PendingTransaction] = []
        self.decided: dict[str, Ended] = {}
        self.deciders: list[tuple[str, Outcome, str]] = []
        self.checked: list[str] = []
        self.to_give_up = 0
        self.to_come: dict[str, tuple[RetryCount, ...]] = {}
        """By group, what is to come again."""
        self.is_counted_whole = True
        self.lost: list[GivenUpMessage] = []
        """Given-up messages in order of their offsets."""
        self.sent_after_all: list[tuple[int, str]] = []
        self.give_up_calls: list[int] = []
        self.care_refusal: EngineError | None = None
        """Raised by every verb here while it is set."""
        # Verbs are called from the test's threads; an engine has one loop.
        self._turn = threading.RLock()

    def own_ranges(self, prefix: str) -> dict[str, list[QueueRange]]:
        self._refuse()
        return {
            topic: [
                QueueRange(
                    topic=topic,
                    queue=0,
                    min_offset=self.own_first.get(topic, 0),
                    max_offset=self.own_first.get(topic, 0) + len(records),
                )
            ]
            for topic, records in sorted(self.own_records.items())
            if topic.startswith(prefix) and records
        }

    async def pull(self, request: PullRequest) -> PullResult:
        """Read an own topic, at most what was asked for."""
        self._refuse()
        first = self.own_first.get(request.topic, 0)
        records = self.own_records.get(request.topic, [])
        start = request.queue_offset - first
        taken = records[start : start + request.messages_max] if start >= 0 else []
        found = [
            stamped(record, queue_offset=request.queue_offset + number)
            for number, record in enumerate(taken)
        ]
        return PullResult(
            status=PullStatus.FOUND if found else PullStatus.NO_NEW_MSG,
            block=MessageBlock(
                topic=request.topic,
                queue=request.queue,
                payload=b"".join(found),
                sizes=np.array([len(record) for record in found], dtype=np.int32),
            ),
            next_offset=request.queue_offset + len(found),
            min_offset=first,
            max_offset=first + len(records),
        )

    def deliver_levels(self, messages_max: int = 1_000) -> LevelsDelivered:
        self._refuse()
        with self._turn:
            self.delivery_calls.append(messages_max)
            delivered = 0
            for number, state in enumerate(self.levels):
                count = min(self.due.get(state.level, 0), messages_max - delivered)
                self.due[state.level] = self.due.get(state.level, 0) - count
                delivered += count
                self.levels[number] = replace(state, delivered=state.delivered + count)
            return replace(self.delay_levels(), delivered=delivered)

    def delay_levels(self) -> LevelsDelivered:
        self._refuse()
        return LevelsDelivered(delivered=0, more=any(self.due.values()), levels=tuple(self.levels))

    def delayed_copies(self, message_id: str) -> DelayedCopies:
        self._refuse()
        return DelayedCopies()

    def delayed(
        self,
        *,
        level: int | None = None,
        topic: str | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        cursor: str | None = None,
        messages_max: int = 100,
    ) -> DelayedPage:
        self._refuse()
        if cursor is not None and not cursor.isdigit():
            raise InvalidArgument("the cursor was not handed out by this store")
        found = sorted(
            (
                message
                for message in self.waiting
                if message.level == level
                and topic in (None, message.topic)
                and (from_ms is None or message.due_ms >= from_ms)
                and (to_ms is None or message.due_ms < to_ms)
            ),
            key=lambda message: (message.due_ms, message.number),
        )
        start = int(cursor or 0)
        end = start + messages_max
        return DelayedPage(
            messages=tuple(found[start:end]), cursor=str(end) if end < len(found) else None
        )

    def delay_status(self) -> DelayStatus:
        self._refuse()
        own = [message for message in self.waiting if message.level is None]
        outcomes = list(self.recalled.values())
        return DelayStatus(
            pending=len(own),
            delivered=outcomes.count(Recall.DELIVERED),
            cancelled=outcomes.count(Recall.CANCELLED),
            next_due_ms=min((message.due_ms for message in own), default=None),
            late_ms=self.late_ms,
            clock_held_ms=self.clock_held_ms,
            histogram=(*((within_s, 0) for within_s in BUCKETS_S[:-1]), (None, len(own))),
        )

    def recall(self, handle: str) -> Recall:
        return self._taken_out(handle, Recall.CANCELLED)

    def deliver_now(self, handle: str) -> Recall:
        return self._taken_out(handle, Recall.DELIVERED)

    def resend(
        self, group: str, queue_offsets: Sequence[int], *, topic: str | None = None, by: str = ""
    ) -> list[ResendResult]:
        self._refuse()
        with self._turn:
            self.resend_calls.append((group, tuple(queue_offsets), topic, by))
            return [self._resent(group, offset, topic) for offset in queue_offsets]

    def transactions(
        self, *, producer_group: str | None = None, after: int = -1, messages_max: int = 100
    ) -> list[PendingTransaction]:
        self._refuse()
        found = [
            one
            for one in self.undecided
            if one.half_offset > after and producer_group in (None, one.producer_group)
        ]
        return sorted(found, key=lambda one: one.half_offset)[:messages_max]

    def transaction_status(self) -> TransactionStatus:
        self._refuse()
        outcomes = [ended.outcome for ended in self.decided.values()]
        return TransactionStatus(
            pending=len(self.undecided),
            begun=len(self.undecided) + len(self.decided),
            committed=outcomes.count(Outcome.COMMITTED),
            rolled_back=outcomes.count(Outcome.ROLLED_BACK),
            given_up=outcomes.count(Outcome.GIVEN_UP),
            checks=sum(one.checks for one in self.undecided),
            oldest_begun_ms=min((one.begun_ms for one in self.undecided), default=None),
        )

    def end_transaction(self, transaction_id: str, outcome: Outcome, *, by: str = "") -> Ended:
        self._refuse()
        with self._turn:
            self.deciders.append((transaction_id, outcome, by))
            known = self.decided.get(transaction_id)
            if known is not None:
                if known.outcome is not outcome:
                    raise TransactionDecided(f"it was {known.outcome.value} before")
                return replace(known, is_repeat=True)
            found = self._undecided(transaction_id)
            if found is None:
                raise UnknownTransaction("there is no such transaction")
            self.undecided.remove(found)
            is_committed = outcome is Outcome.COMMITTED
            ended = Ended(
                transaction_id=transaction_id,
                outcome=outcome,
                topic=found.topic if is_committed else "",
                queue=found.queue if is_committed else None,
                queue_offset=17 if is_committed else None,
            )
            self.decided[transaction_id] = ended
            return ended

    def check_now(self, transaction_id: str) -> PendingTransaction | None:
        self._refuse()
        self.checked.append(transaction_id)
        return self._undecided(transaction_id)

    def clean_now(self) -> Cleaned:
        self._refuse()
        return Cleaned(log_start=0, deleted_segments=0, deleted_bytes=0)

    def give_up_transactions(self, messages_max: int = 100) -> int:
        self._refuse()
        with self._turn:
            self.give_up_calls.append(messages_max)
            count = min(self.to_give_up, messages_max)
            self.to_give_up -= count
            return count

    def group_retries(self, group: str) -> GroupRetries:
        self._refuse()
        return GroupRetries(
            group=group, counts=self.to_come.get(group, ()), is_complete=self.is_counted_whole
        )

    def given_up(self, *, before: int | None = None, messages_max: int = 100) -> GivenUpPage:
        self._refuse()
        older = [one for one in self.lost if before is None or one.given_up_offset < before]
        shown = older[-messages_max:]
        has_more = len(older) > len(shown)
        return GivenUpPage(
            messages=tuple(reversed(shown)), before=shown[0].given_up_offset if has_more else None
        )

    def send_given_up(
        self, given_up_offset: int, *, transaction_id: str, by: str = ""
    ) -> SentAfterAll:
        self._refuse()
        with self._turn:
            found = next((o for o in self.lost if o.given_up_offset == given_up_offset), None)
            if found is None or found.transaction_id != transaction_id:
                raise UnknownTransaction("no given-up message is there")
            self.sent_after_all.append((given_up_offset, by))
            if found.sent_ms is not None:
                assert found.sent_queue is not None
                assert found.sent_offset is not None
                return SentAfterAll(
                    topic=found.topic,
                    queue=found.sent_queue,
                    queue_offset=found.sent_offset,
                    is_repeat=True,
                )
            sent = replace(found, sent_ms=2_000, sent_by=by, sent_queue=1, sent_offset=17)
            self.lost[self.lost.index(found)] = sent
            return SentAfterAll(topic=found.topic, queue=1, queue_offset=17)

    def _refuse(self) -> None:
        if self.care_refusal is not None:
            raise self.care_refusal

    def _taken_out(self, handle: str, outcome: Recall) -> Recall:
        self._refuse()
        with self._turn:
            found = next((one for one in self.waiting if one.handle == handle), None)
            if found is not None:
                self.waiting.remove(found)
                self.recalled[handle] = outcome
            return self.recalled.get(handle, Recall.UNKNOWN)

    def _resent(self, group: str, offset: int, topic: str | None) -> ResendResult:
        if (group, offset) in self.resent:
            return replace(self.resent[group, offset], outcome=Resend.ALREADY)
        held = self.own_ranges(f"%DLQ%{group}").get(f"%DLQ%{group}")
        if held is None or not held[0].min_offset <= offset < held[0].max_offset:
            return ResendResult(queue_offset=offset, outcome=Resend.GONE)
        if offset in self.resend_failures:
            return ResendResult(
                queue_offset=offset, outcome=Resend.FAILED, detail=self.resend_failures[offset]
            )
        result = ResendResult(
            queue_offset=offset,
            outcome=Resend.SENT,
            topic=topic or "origin",
            queue=0,
            sent_offset=len(self.resent),
        )
        self.resent[group, offset] = result
        return result

    def _undecided(self, transaction_id: str) -> PendingTransaction | None:
        return next((one for one in self.undecided if one.transaction_id == transaction_id), None)


def level(number: int, **changes: object) -> DelayLevelState:
    """Return a level of so many seconds in which nothing was ever sent, but for the changes."""
    usual = DelayLevelState(level=number, delay_ms=1_000 * number, delivered=0, max_offset=0)
    return replace(usual, **changes)  # type: ignore[arg-type]


def delayed_message(number: int, **changes: object) -> DelayedMessage:
    """Return a message of 100 bytes for `orders` with a delay of its own, but for the changes."""
    usual = DelayedMessage(
        number=number,
        topic="orders",
        queue=0,
        message_id=f"id-{number}",
        due_ms=1_000 * number,
        size_bytes=100,
        handle=f"handle-{number}",
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def half(half_offset: int, **changes: object) -> PendingTransaction:
    """Return an undecided transaction that was checked twice, but for the changes."""
    usual = PendingTransaction(
        transaction_id=f"{half_offset:x}.1-0badcafe",
        half_offset=half_offset,
        topic="orders",
        queue=1,
        message_id=f"id-{half_offset}",
        producer_group="payments",
        begun_ms=1_000,
        checks=2,
        next_check_ms=130_000,
        last_check_ms=70_000,
        last_client_id="producer-1",
        producers=1,
        size_bytes=100,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def lost(offset: int = 3, **changes: object) -> GivenUpMessage:
    """Return a given-up message that was checked fifteen times, but for the changes."""
    usual = GivenUpMessage(
        given_up_offset=offset,
        transaction_id=f"{offset + 40:x}.1-0badcafe",
        half_offset=offset + 40,
        topic="orders",
        queue=1,
        message_id=f"id-{offset}",
        producer_group="payments",
        born_ms=1_700_000_000_000,
        given_up_ms=1_700_000_900_000,
        checks=15,
        size_bytes=100,
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def stamped(record: bytes, *, queue_offset: int) -> bytes:
    """Return a record with its place in the queue, and one in the log that follows from it."""
    log_offset = 1_000 * queue_offset
    return record[:20] + struct.pack(">qq", queue_offset, log_offset) + record[36:]


def own_record(topic: str, body: bytes = b"body", **properties: str) -> bytes:
    """Return a record of an own topic, with the broker's stamps left at zero."""
    return encode_record(
        topic=topic.encode(),
        queue=0,
        body=body,
        properties=encode_properties(properties),
        store_time_ms=1_700_000_000_000,
    )
