"""The producer of transactions for threads: a face of the plans. One thread answers checks."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from mqclient.clock import Clock, SystemClock
from mqclient.errors import Closed, MqError
from mqclient.producing.drafting import outgoing
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import DEFAULT_SERVER, Endpoint
from mqclient.protocol.plans import Patience
from mqclient.transactions.plans import TransactionPlans, log_failed_check
from mqclient.transactions.settings import Checker, TransactionSettings
from mqclient.transactions.transaction import TransactionState
from mqclient.transport.blocking import Pool
from mqclient.values import Decision, OutgoingMessage, TransactionCheck


class Transaction(TransactionState):
    """A half message of this thread, to be committed, rolled back or left open."""

    def __init__(
        self,
        begun: tuple[str, str],
        end: Callable[["Transaction", Decision], None],
    ) -> None:
        super().__init__(*begun)
        self._end = end

    def commit(self) -> None:
        """Make the message visible; raise MqError as `TransactionProducer.transaction` does."""
        self.decide(Decision.COMMIT)
        self._end(self, Decision.COMMIT)

    def rollback(self) -> None:
        """Have the message never be visible; raise MqError likewise."""
        self.decide(Decision.ROLLBACK)
        self._end(self, Decision.ROLLBACK)


class TransactionProducer:
    """Sends messages that are visible if and only if the producer's own work was done.

    `check` is asked, in a thread of its own and one question after the other, what became of a
    transaction whose decision did not reach the broker; any member of `producer_group` may be
    asked, also after a restart, so it looks where the work leaves its mark. It says COMMIT,
    ROLLBACK, or UNKNOWN, which an exception and anything else mean as well: it is asked again.

    Other settings are those of TransactionSettings, by name. Use it as a context manager, or
    `start` and `close` it.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        producer_group: str,
        check: Checker,
        token: str | None = None,
        clock: Clock | None = None,
        **settings: Any,  # Checked by TransactionSettings, field by field.
    ) -> None:
        checked = TransactionSettings(producer_group=producer_group, **settings)
        clock = clock or SystemClock()
        endpoint = Endpoint.of(server, token)
        self._pool = Pool(endpoint, clock=clock)
        # What waits for questions is cut off at the end; answers are not.
        self._waiting = Pool(endpoint, clock=clock)
        patience = Patience(clock=clock, backoff=Backoff(), timeout_s=checked.timeout_s)
        self._plans = TransactionPlans(checked, Calls(endpoint), patience)
        self._check = check
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Answer the broker's questions from here on."""
        if self._thread is not None or self._stopped.is_set():
            raise Closed("a producer of transactions is started once")
        self._thread = threading.Thread(
            target=self._answer_checks, name="mqclient-checks", daemon=True
        )
        self._thread.start()

    def send_in_transaction(
        self,
        topic: str,
        body: bytes | str,
        execute: Callable[[Transaction], Decision],
        *,
        tag: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
        queue: int | None = None,
    ) -> Transaction:
        """Store a half message, run `execute`, and tell the broker what it says.

        When the half message is not stored `execute` is not run, and that error is raised. What
        `execute` raises is raised here too: the transaction stays open then, for the work may have
        been done before, and `check` decides. So it does after TransactionUndecided, which is
        raised when a decision does not reach the broker.
        """
        message = outgoing(
            topic, body, tag=tag, keys=keys, properties=properties, sharding_key=sharding_key,
            queue=queue,
        )  # fmt: skip
        transaction = self._begin(message)
        decision = execute(transaction)
        if decision is Decision.COMMIT:
            transaction.commit()
        elif decision is Decision.ROLLBACK:
            transaction.rollback()
        return transaction

    @contextmanager
    def transaction(
        self,
        topic: str,
        body: bytes | str,
        *,
        tag: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
        queue: int | None = None,
    ) -> Iterator[Transaction]:
        """Store a half message before the block, and commit it behind the block.

        Unless the block has decided otherwise: by `rollback` or `leave_open` of what it is given,
        or by an exception, after which the transaction stays open and `check` decides. Raise
        MqError when the half message is not stored, TransactionUndecided when the decision does
        not reach the broker, TransactionDecided when it was decided otherwise there.
        """
        message = outgoing(
            topic, body, tag=tag, keys=keys, properties=properties, sharding_key=sharding_key,
            queue=queue,
        )  # fmt: skip
        transaction = self._begin(message)
        yield transaction
        if transaction.decision is None:
            transaction.commit()

    def close(self) -> None:
        """Ask for no more questions; one that is being answered is answered."""
        self._stopped.set()
        self._waiting.abort()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._pool.close()

    def _begin(self, message: OutgoingMessage) -> Transaction:
        if self._thread is None or self._stopped.is_set():
            raise Closed("the producer of transactions is not running: nobody would answer checks")
        return Transaction(self._pool.run(self._plans.begin(message)), self._end)

    def _end(self, transaction: Transaction, decision: Decision) -> None:
        transaction.ended = self._pool.run(self._plans.end(transaction.transaction_id, decision))

    def _answer_checks(self) -> None:
        while not self._stopped.is_set():
            try:
                checks = self._waiting.run(self._plans.checks())
            except MqError as error:
                if self._stopped.is_set():
                    return
                self._stopped.wait(self._plans.pause_s(error))
                continue
            for check in checks:
                self._pool.run(self._plans.answer(check, self._decision(check)))

    def _decision(self, check: TransactionCheck) -> object:
        try:
            return self._check(check)
        except Exception as error:
            # The main loop of checking: whatever a listener does, others must be asked.
            log_failed_check(check, error)
            return Decision.UNKNOWN
