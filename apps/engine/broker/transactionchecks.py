"""Ask producers about half messages, give up those nobody decides, and tell what is pending.

Knows what is due and who asks; not how anybody waits. A check counts when it is handed to a client,
so one for which nobody is there stays due.
"""

from itertools import islice, takewhile

from apps.engine.broker.careevents import HalfChecked, HalfEnded, HalfStored
from apps.engine.broker.journal import Event
from apps.engine.broker.names import check_client_id, check_group_name
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.transactionproducers import Producers
from apps.engine.broker.transactionrecords import check_block
from apps.engine.broker.transactions import Transactions
from apps.engine.broker.transactionschedule import CheckSchedule
from apps.engine.broker.transactionstate import Half, TransactionState
from apps.engine.clock import Clock
from apps.engine.codec.properties import KEYS, REAL_QID, REAL_TOPIC, TAGS
from apps.engine.config import EngineConfig
from apps.engine.errors import InvalidArgument, UnknownTransaction
from apps.engine.limits import CARE_MESSAGES_MAX, FETCH_BYTES_MAX, WAIT_MS_MAX
from apps.engine.transactiontypes import Check, PendingTransaction, TransactionStatus


class TransactionChecks:
    """What is done about undecided transactions."""

    def __init__(
        self,
        transactions: Transactions,
        state: TransactionState,
        recorder: Recorder,
        *,
        config: EngineConfig,
        clock: Clock,
    ) -> None:
        """Bind to a store, and take up what was pending when it was opened."""
        self._transactions = transactions
        self._state = state
        self._recorder = recorder
        self._config = config
        self._clock = clock
        self._schedule = CheckSchedule(state.pending.values(), config=config)
        self.producers = Producers(clock)
        self.check_count = 0
        recorder.on_event(self._recorded)

    def _recorded(self, event: Event) -> None:
        match event:
            case HalfStored() | HalfChecked():
                half = self._state.pending.get(event.half_offset)
                if half is not None:
                    self._schedule.plan(half)
            case HalfEnded():
                self._schedule.forget(event.half_offset)

    # --- for producers -------------------------------------------------------------------------

    def check_request(
        self, producer_group: str, *, client_id: str, checks_max: int, wait_ms: int
    ) -> None:
        """Raise InvalidName or InvalidArgument for a request that is not one."""
        check_group_name(producer_group)
        check_client_id(client_id)
        if not client_id:
            raise InvalidArgument("who asks for checks needs a client_id")
        if not 1 <= checks_max <= CARE_MESSAGES_MAX:
            raise InvalidArgument(f"max must be 1 to {CARE_MESSAGES_MAX}, not {checks_max}")
        if not 0 <= wait_ms <= WAIT_MS_MAX:
            raise InvalidArgument(f"wait_ms must be 0 to {WAIT_MS_MAX}, not {wait_ms}")

    def receive(
        self, producer_group: str, *, client_id: str, checks_max: int, wait: bool
    ) -> list[Check]:
        """Hand out what is due, at least one and up to 16 MiB, and count it as checked.

        Raises StoreFull, and ColdRead when `wait` is false and the disk would have to be waited
        for; nothing is handed out or counted then.
        """
        self.producers.see(producer_group, client_id)
        due = self._schedule.due(producer_group, self._clock.monotonic_ms(), checks_max)
        # Producers cannot decide about what nobody can read; it is given up when it is too old.
        pending = self._state.pending
        due = [offset for offset in due if not self._transactions.is_lost(pending[offset])]
        checks: list[Check] = []
        size_bytes = 0
        for half_offset in due:
            half = self._state.pending[half_offset]
            block = check_block(self._transactions.record(half, wait=wait))
            size_bytes += len(block.payload)
            if checks and size_bytes > FETCH_BYTES_MAX:
                break
            checks.append(
                Check(
                    transaction_id=self._transactions.ids.text(half_offset, half.epoch),
                    number=half.checks + 1,
                    checks_max=self._config.transaction_checks_max,
                    block=block,
                )
            )
        if checks:
            self._recorder.commit(
                [
                    HalfChecked(half_offset=half_offset, client_id=client_id)
                    for half_offset in due[: len(checks)]
                ]
            )
        self.check_count += len(checks)
        return checks

    def has_due(self, producer_group: str) -> bool:
        """Say whether a check of the group is due now."""
        return bool(self._schedule.due(producer_group, self._clock.monotonic_ms(), 1))

    def next_due_ms(self) -> int | None:
        """Return when the next check is due for which somebody waits, on the monotonic clock."""
        return self._schedule.next_ms(self.producers.waiting_groups)

    # --- for operators and the clockwork -------------------------------------------------------

    def check_now(self, transaction_id: str) -> PendingTransaction | None:
        """Have the producers asked at once; None for a transaction that is not pending.

        One that had its last check is not checked again. Raises StoreFull.
        """
        try:
            half = self._transactions.pending(*self._transactions.ids.parse(transaction_id))
        except UnknownTransaction:
            return None
        if self._schedule.due_ms(half) is not None and not half.is_hurried:
            self._recorder.record(HalfChecked(half_offset=half.half_offset, client_id=""))
        return self.row(half, wait=True)

    def over(self, count_max: int) -> list[Half]:
        """Return what is to be given up: the oldest, and what had all its checks.

        Raises InvalidArgument.
        """
        _check_amount(count_max)
        now_ms = self._clock.monotonic_ms()
        pending = self._state.pending
        old = takewhile(lambda half: self._schedule.is_too_old(half, now_ms), pending.values())
        found = {half.half_offset: half for half in islice(old, count_max)}
        for half_offset in sorted(self._schedule.exhausted):
            half = pending[half_offset]
            if len(found) < count_max and self._schedule.is_unanswered(half, now_ms):
                found[half_offset] = half
        return list(found.values())

    def give_up(self, half: Half, *, wait: bool) -> bool:
        """Give up a half message in one frame; False where it was decided meanwhile.

        Raises StoreFull; ColdRead when `wait` is false and the disk would have to be waited for.
        """
        if self._state.pending.get(half.half_offset) is not half:
            return False
        self._transactions.give_up(half, wait=wait)
        return True

    def pending(self, producer_group: str | None, after: int, count_max: int) -> list[Half]:
        """Return undecided half messages of a group, or of all, behind an offset, in order.

        Raises InvalidArgument.
        """
        _check_amount(count_max)
        found = (
            half
            for half in self._state.pending.values()
            if half.half_offset > after and producer_group in (None, half.producer_group)
        )
        return list(islice(found, count_max))

    def row(self, half: Half, *, wait: bool) -> PendingTransaction:
        """Return a half message as operators see it.

        One that cannot be read any more has no topic and no message id. Raises ColdRead when `wait`
        is false and the disk would have to be waited for.
        """
        record = None
        if not self._transactions.is_lost(half):
            record = self._transactions.record(half, wait=wait)
        properties = {} if record is None else record.properties
        due_ms = self._schedule.due_ms(half)
        ahead_ms = self._clock.wall_ms() - self._clock.monotonic_ms()
        return PendingTransaction(
            transaction_id=self._transactions.ids.text(half.half_offset, half.epoch),
            half_offset=half.half_offset,
            topic=properties.get(REAL_TOPIC, ""),
            queue=int(properties.get(REAL_QID, 0)),
            message_id="" if record is None else record.message_id,
            producer_group=half.producer_group,
            begun_ms=half.begun_ms,
            checks=half.checks,
            next_check_ms=None if due_ms is None else due_ms + ahead_ms,
            last_check_ms=half.checked_ms or None,
            last_client_id=half.client_id,
            producers=self.producers.count(half.producer_group),
            size_bytes=0 if record is None else record.size_bytes,
            keys=properties.get(KEYS, ""),
            tag=properties.get(TAGS, ""),
        )

    def status(self) -> TransactionStatus:
        """Return the counters."""
        oldest = next(iter(self._state.pending.values()), None)
        counts = self._transactions.counts
        return TransactionStatus(
            pending=len(self._state.pending),
            begun=counts.begun,
            committed=counts.committed,
            rolled_back=counts.rolled_back,
            given_up=counts.given_up,
            checks=self.check_count,
            oldest_begun_ms=None if oldest is None else oldest.begun_ms,
        )


def _check_amount(count_max: int) -> None:
    if not 1 <= count_max <= CARE_MESSAGES_MAX:
        raise InvalidArgument(f"messages_max must be 1 to {CARE_MESSAGES_MAX}, not {count_max}")
