"""Transactions: begin, commit, roll back, give up. Knows half messages, their state and the log.

Each step is one frame: the message in its topic, the decision, and the event that says so are there
together or not at all, so that a message is visible if and only if it was committed.
"""

from dataclasses import dataclass

import numpy as np

from apps.engine.broker.careevents import HalfEnded, HalfStored, Sequenced
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.names import check_client_id, check_group_name
from apps.engine.broker.produce import Appender, CheckedBatch
from apps.engine.broker.readback import read_back
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.repeatclaims import runs_of_places
from apps.engine.broker.repeats import Repeats
from apps.engine.broker.transactionids import TransactionIds
from apps.engine.broker.transactionrecords import (
    decision_batch,
    given_up_batch,
    half_batch,
    real_batch,
)
from apps.engine.broker.transactionstate import Half, TransactionState
from apps.engine.clock import Clock
from apps.engine.codec.layout import HALF_TOPIC
from apps.engine.codec.properties import REAL_QID, REAL_TOPIC
from apps.engine.codec.record import Record, decode_record
from apps.engine.config import EngineConfig
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import (
    InvalidArgument,
    MalformedBatch,
    MessageIllegal,
    Overloaded,
    SequenceTooOld,
    StoreDamaged,
    TransactionDecided,
    UnknownTransaction,
)
from apps.engine.limits import FETCH_BYTES_MAX, PENDING_TRANSACTIONS_MAX
from apps.engine.log.commitlog import CommitLog
from apps.engine.transactiontypes import Begun, Ended, Outcome
from apps.engine.types import RecordBatch, Special, TopicType


@dataclass(slots=True, kw_only=True)
class Counts:
    """What happened to transactions since the store was opened."""

    begun: int = 0
    committed: int = 0
    rolled_back: int = 0
    given_up: int = 0


class Transactions:
    """Half messages and what becomes of them."""

    def __init__(
        self,
        state: TransactionState,
        recorder: Recorder,
        appender: Appender,
        repeats: Repeats,
        queues: QueueSet,
        catalog: Catalog,
        log: CommitLog,
        *,
        config: EngineConfig,
        clock: Clock,
    ) -> None:
        """Bind to a store."""
        self.counts = Counts()
        self.ids = TransactionIds(log.store_id)
        self._state = state
        self._recorder = recorder
        self._appender = appender
        self._repeats = repeats
        self._queues = queues
        self._catalog = catalog
        self._log = log
        self._config = config
        self._clock = clock

    def begin(
        self, batch: RecordBatch, *, producer_group: str, check_immunity_ms: int | None
    ) -> Begun:
        """Store one message as a half message; see EngineAPI.

        A delay it asks for is dropped, as RocketMQ does. One with a producer's number that was
        begun before is answered as then. Raises what `Appender.check` raises, InvalidName,
        InvalidArgument, MalformedBatch, SequenceTooOld, Overloaded or StoreFull.
        """
        check_group_name(producer_group)
        immunity_ms = check_immunity_ms
        if immunity_ms is None:
            immunity_ms = self._config.transaction_immunity_ms
        if not 0 <= immunity_ms <= self._config.transaction_ms_max:
            longest = self._config.transaction_ms_max
            raise InvalidArgument(f"check_immunity_ms must be 0 to {longest}, not {immunity_ms}")
        (checked,) = self._appender.check([batch])
        if self._catalog.topic(batch.topic).type is TopicType.LITE:
            raise MessageIllegal("a message of a lite topic has no transaction")
        if len(checked.sizes) != 1:
            raise MalformedBatch("a transaction has one message")
        if len(self._state.pending) >= PENDING_TRANSACTIONS_MAX:
            raise Overloaded(f"{PENDING_TRANSACTIONS_MAX} transactions are undecided")
        half_offset = self._queues.queue(HALF_TOPIC, 0).end
        numbered: list[Sequenced] = []
        if Special.SEQUENCE in checked.special:
            begun = self._claim(checked, half_offset, numbered)
            if begun is not None:
                return begun
        epoch = self._log.epoch
        transaction_id = self.ids.text(half_offset, epoch)
        half = half_batch(
            decode_record(checked.payload),
            producer_group=producer_group,
            transaction_id=transaction_id,
        )
        event = HalfStored(
            half_offset=half_offset,
            epoch=epoch,
            producer_group=producer_group,
            immunity_ms=immunity_ms,
        )
        _, (stored,) = self._recorder.commit([event, *numbered], [half], is_internal=False)
        assert stored.queue_offset == half_offset
        self.counts.begun += 1
        return Begun(
            transaction_id=transaction_id,
            half_offset=half_offset,
            store_time_ms=stored.store_time_ms,
        )

    def _claim(
        self, batch: CheckedBatch, half_offset: int, numbered: list[Sequenced]
    ) -> Begun | None:
        """Return what was answered when a message was begun before; else note its number."""
        # Half messages are numbered by themselves: they lie in another queue than what is sent.
        topic = f"{HALF_TOPIC}/{batch.topic}"
        claims = self._repeats.claims(batch, topic)
        if not claims:
            return None
        (claim,) = claims
        if not claim.found.is_known[0]:
            rows = runs_of_places(claim.numbers, np.array([half_offset]))
            numbered.append(
                Sequenced(producer_id=claim.producer_id, topic=topic, queue=0, rows=rows)
            )
            return None
        known = int(claim.found.offsets[0])
        pending, decided = self._state.pending.get(known), self._state.decided.get(known)
        if pending is not None:
            epoch = pending.epoch
        elif decided is not None:
            epoch = decided[0]
        else:
            raise SequenceTooOld("the transaction with this number was decided long ago")
        self._repeats.repeat_count += 1
        return Begun(
            transaction_id=self.ids.text(known, epoch),
            half_offset=known,
            store_time_ms=int(claim.found.at_ms[0]),
        )

    def end(self, transaction_id: str, outcome: Outcome, *, by: str = "", wait: bool) -> Ended:
        """Commit or roll back; see EngineControl.

        A topic that takes no more messages takes one that was begun before. Where the queue is gone
        the message goes to another one. Raises InvalidArgument, UnknownTransaction,
        TransactionDecided, StoreFull; UnknownTopic when its topic was deleted, which leaves it
        undecided; ColdRead when `wait` is false and the disk would have to be waited for.
        """
        if outcome is Outcome.GIVEN_UP:
            raise InvalidArgument("a transaction is committed or rolled back")
        check_client_id(by)
        half_offset, epoch = self.ids.parse(transaction_id)
        found = self._state.decided.get(half_offset)
        if found is not None and found[0] == epoch:
            return self._repeated(transaction_id, found[1], outcome)
        half = self.pending(half_offset, epoch)
        batches: list[CheckedBatch] = []
        topic, queue, queue_offset = "", 0, -1
        if outcome is Outcome.COMMITTED:
            record = self.record(half, wait=wait)
            topic = record.properties[REAL_TOPIC]
            spec = self._catalog.topic(topic)
            queue = int(record.properties[REAL_QID]) % (spec.writable_count or spec.queue_count)
            queue_offset = self._queues.queue(topic, queue).end
            batches.append(real_batch(record, topic=topic, queue=queue))
        event = HalfEnded(
            half_offset=half_offset,
            outcome=outcome,
            by=by,
            topic=topic,
            queue=queue,
            queue_offset=queue_offset,
        )
        self._decide(event, batches)
        return _ended(transaction_id, event)

    def give_up(self, half: Half, *, wait: bool) -> None:
        """Put a half message to those that nobody decided about.

        Raises StoreFull; ColdRead when `wait` is false and the disk would have to be waited for.
        """
        event = HalfEnded(half_offset=half.half_offset, outcome=Outcome.GIVEN_UP)
        batches: list[CheckedBatch] = []
        if not self.is_lost(half):
            batches.append(given_up_batch(self.record(half, wait=wait), checks=half.checks))
        self._decide(event, batches)

    def _decide(self, event: HalfEnded, batches: list[CheckedBatch]) -> None:
        decision = decision_batch(event.half_offset, now_ms=self._clock.wall_ms())
        # A decision without a message is what makes room, so it may use what is kept free.
        self._recorder.commit([event], [*batches, decision], is_internal=not batches)
        match event.outcome:
            case Outcome.COMMITTED:
                self.counts.committed += 1
            case Outcome.ROLLED_BACK:
                self.counts.rolled_back += 1
            case Outcome.GIVEN_UP:
                self.counts.given_up += 1

    def _repeated(self, transaction_id: str, event: HalfEnded, outcome: Outcome) -> Ended:
        if event.outcome is not outcome:
            raise TransactionDecided(f"the transaction was {event.outcome.value.replace('_', ' ')}")
        return _ended(transaction_id, event, is_repeat=True)

    def pending(self, half_offset: int, epoch: int) -> Half:
        """Return an undecided half message; raise UnknownTransaction for any other."""
        half = self._state.pending.get(half_offset)
        if half is None or half.epoch != epoch:
            raise UnknownTransaction(
                "the transaction was never stored, or decided too long ago to remember"
            )
        return half

    def record(self, half: Half, *, wait: bool) -> Record:
        """Return the record of a half message.

        Raises ColdRead when it may not wait for it, StoreDamaged when it cannot be read any more.
        """
        found = read_back(
            self._log,
            self._queues.queue(HALF_TOPIC, 0),
            np.array([half.half_offset]),
            bytes_max=FETCH_BYTES_MAX,
            wait=wait,
        )
        if not found.records:
            raise StoreDamaged(f"half message {half.half_offset} was damaged on the disk")
        return found.records[0]

    def is_lost(self, half: Half) -> bool:
        """Say whether a half message is known to be damaged: it can only be rolled back."""
        return bool(
            self._queues.queue(HALF_TOPIC, 0).lost_between(half.half_offset, half.half_offset + 1)
        )


def _ended(transaction_id: str, event: HalfEnded, *, is_repeat: bool = False) -> Ended:
    is_stored = event.queue_offset >= 0
    return Ended(
        transaction_id=transaction_id,
        outcome=event.outcome,
        is_repeat=is_repeat,
        topic=event.topic,
        queue=event.queue if is_stored else None,
        queue_offset=event.queue_offset if is_stored else None,
    )
