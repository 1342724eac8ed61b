"""Given-up messages: listed, and sent where they were for, each at most once ever.

Knows their records and what was sent; not when the disk is waited for. A frame has the message and
the event that it was sent, so a crash sends none twice. The transaction stays what it is: given up.
"""

from collections.abc import Mapping

import numpy as np

from apps.engine.broker.careevents import GivenUpSent
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.names import check_client_id
from apps.engine.broker.readback import read_back
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.transactionids import TransactionIds
from apps.engine.broker.transactionrecords import real_batch
from apps.engine.broker.transactionstate import TransactionState
from apps.engine.codec.batch import count_within
from apps.engine.codec.layout import GIVEN_UP_TOPIC
from apps.engine.codec.properties import (
    KEYS,
    PGROUP,
    REAL_QID,
    REAL_TOPIC,
    TAGS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
)
from apps.engine.codec.record import Record
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import InvalidArgument, UnknownTransaction
from apps.engine.limits import CARE_MESSAGES_MAX, FETCH_BYTES_MAX, MIB
from apps.engine.log.commitlog import CommitLog
from apps.engine.transactiontypes import GivenUpMessage, GivenUpPage, SentAfterAll

# A page is short rather than reading more than this, or about so much.
_PAGE_BYTES = 4 * MIB


class GivenUp:
    """What lies in TRANS_CHECK_MAX_TIME_TOPIC."""

    def __init__(
        self,
        state: TransactionState,
        recorder: Recorder,
        queues: QueueSet,
        catalog: Catalog,
        log: CommitLog,
        *,
        ids: TransactionIds,
    ) -> None:
        """Bind to a store."""
        self._state = state
        self._recorder = recorder
        self._queues = queues
        self._catalog = catalog
        self._log = log
        self._ids = ids

    def waiting_count(self) -> int:
        """Return how many are held that nobody sent."""
        queue = self._queues.find(GIVEN_UP_TOPIC, 0)
        if queue is None:
            return 0
        sent = sum(queue.min_offset <= offset < queue.visible for offset in self._state.sent)
        return max(0, queue.visible - queue.min_offset - sent)

    def page(self, *, before: int | None, messages_max: int, wait: bool) -> GivenUpPage:
        """Return the last messages before an offset, or of all, the newest first.

        Raises InvalidArgument; ColdRead when `wait` is false and the disk would be waited for.
        """
        if not 1 <= messages_max <= CARE_MESSAGES_MAX:
            raise InvalidArgument(f"a page has 1 to {CARE_MESSAGES_MAX} messages")
        queue = self._queues.find(GIVEN_UP_TOPIC, 0)
        if queue is None:
            return GivenUpPage(messages=())
        end = queue.visible if before is None else min(before, queue.visible)
        start = max(queue.min_offset, end - messages_max)
        if start >= end:
            return GivenUpPage(messages=())
        sizes = queue.read(start, end - start, wait=wait)["size_bytes"]
        start = end - count_within(sizes[::-1], _PAGE_BYTES)
        records = self._records(queue, start, end, wait=wait)
        return GivenUpPage(
            messages=tuple(self._message(record) for record in reversed(records)),
            before=start if start > queue.min_offset else None,
        )

    def send(
        self, given_up_offset: int, *, transaction_id: str, by: str, wait: bool
    ) -> SentAfterAll:
        """Put a message where it was for; one that was sent before is answered as a repeat.

        Raises InvalidArgument; UnknownTransaction where that message is not of this transaction;
        UnknownTopic when its topic was deleted, StoreFull, with nothing changed; ColdRead when
        `wait` is false and the disk would have to be waited for.
        """
        check_client_id(by)
        queue = self._queues.find(GIVEN_UP_TOPIC, 0)
        if queue is None or not queue.min_offset <= given_up_offset < queue.visible:
            raise UnknownTransaction("no given-up message is there")
        (record,) = self._records(queue, given_up_offset, given_up_offset + 1, wait=wait)
        if record.properties.get(TRANSACTION_ID) != transaction_id:
            raise UnknownTransaction("the given-up message there is of another transaction")
        known = self._state.sent.get(given_up_offset)
        if known is not None:
            return _answer(known[1], is_repeat=True)
        topic = record.properties[REAL_TOPIC]
        spec = self._catalog.topic(topic)
        number = int(record.properties[REAL_QID]) % (spec.writable_count or spec.queue_count)
        event = GivenUpSent(
            given_up_offset=given_up_offset,
            by=by,
            topic=topic,
            queue=number,
            queue_offset=self._queues.queue(topic, number).end,
        )
        batch = real_batch(record, topic=topic, queue=number)
        _, (stored,) = self._recorder.commit([event], [batch], is_internal=False)
        assert stored.queue_offset == event.queue_offset
        return _answer(event)

    def _records(self, queue: ConsumeQueue, start: int, stop: int, *, wait: bool) -> list[Record]:
        found: list[Record] = []
        while start < stop:
            read = read_back(
                self._log, queue, np.arange(start, stop), bytes_max=FETCH_BYTES_MAX, wait=wait
            )
            found += read.records
            start += len(read.records)
        return found

    def _message(self, record: Record) -> GivenUpMessage:
        said = record.properties
        transaction_id = said.get(TRANSACTION_ID)
        at_ms, sent = self._state.sent.get(record.queue_offset, (None, None))
        return GivenUpMessage(
            given_up_offset=record.queue_offset,
            transaction_id=transaction_id,
            half_offset=self._half_offset(transaction_id),
            topic=said[REAL_TOPIC],
            queue=int(said[REAL_QID]),
            message_id=record.message_id,
            producer_group=said[PGROUP],
            born_ms=record.born_time_ms,
            given_up_ms=record.store_time_ms,
            checks=_checks(said),
            size_bytes=record.size_bytes,
            keys=said.get(KEYS, ""),
            tag=said.get(TAGS, ""),
            sent_ms=at_ms,
            sent_by="" if sent is None else sent.by,
            sent_queue=None if sent is None else sent.queue,
            sent_offset=None if sent is None else sent.queue_offset,
        )

    def _half_offset(self, transaction_id: str | None) -> int | None:
        try:
            return None if transaction_id is None else self._ids.parse(transaction_id)[0]
        except UnknownTransaction:  # Copied from another store.
            return None


def _checks(said: Mapping[str, str]) -> int | None:
    # A record from before this was written, or without room for it, does not say.
    text = said.get(TRANSACTION_CHECK_TIMES, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _answer(event: GivenUpSent, *, is_repeat: bool = False) -> SentAfterAll:
    return SentAfterAll(
        topic=event.topic,
        queue=event.queue,
        queue_offset=event.queue_offset,
        is_repeat=is_repeat,
    )
