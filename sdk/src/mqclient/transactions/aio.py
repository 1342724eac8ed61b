"""The producer of transactions for asyncio: the other face of the plans."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
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
from mqclient.transactions.settings import AsyncChecker, TransactionSettings
from mqclient.transactions.transaction import TransactionState
from mqclient.transport.aio import AsyncPool
from mqclient.values import Decision, OutgoingMessage, TransactionCheck


class AsyncTransaction(TransactionState):
    """A half message of this task, to be committed, rolled back or left open."""

    def __init__(
        self,
        begun: tuple[str, str],
        end: Callable[["AsyncTransaction", Decision], Awaitable[None]],
    ) -> None:
        super().__init__(*begun)
        self._end = end

    async def commit(self) -> None:
        """Make the message visible; raise MqError as `transaction` of the producer does."""
        self.decide(Decision.COMMIT)
        await self._end(self, Decision.COMMIT)

    async def rollback(self) -> None:
        """Have the message never be visible; raise MqError likewise."""
        self.decide(Decision.ROLLBACK)
        await self._end(self, Decision.ROLLBACK)


class AsyncTransactionProducer:
    """Sends messages that are visible if and only if the producer's own work was done.

    `check` is a coroutine function, asked in a task of its own; see TransactionProducer.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        producer_group: str,
        check: AsyncChecker,
        token: str | None = None,
        clock: Clock | None = None,
        **settings: Any,  # Checked by TransactionSettings, field by field.
    ) -> None:
        checked = TransactionSettings(producer_group=producer_group, **settings)
        clock = clock or SystemClock()
        endpoint = Endpoint.of(server, token)
        self._pool = AsyncPool(endpoint, clock=clock)
        patience = Patience(clock=clock, backoff=Backoff(), timeout_s=checked.timeout_s)
        self._plans = TransactionPlans(checked, Calls(endpoint), patience)
        self._check = check
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._is_waiting = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Answer the broker's questions from here on."""
        if self._task is not None or self._is_stopped:
            raise Closed("a producer of transactions is started once")
        self._task = asyncio.create_task(self._answer_checks())

    async def send_in_transaction(
        self,
        topic: str,
        body: bytes | str,
        execute: Callable[[AsyncTransaction], Awaitable[Decision]],
        *,
        tag: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
        queue: int | None = None,
    ) -> AsyncTransaction:
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
        transaction = await self._begin(message)
        decision = await execute(transaction)
        if decision is Decision.COMMIT:
            await transaction.commit()
        elif decision is Decision.ROLLBACK:
            await transaction.rollback()
        return transaction

    @asynccontextmanager
    async def transaction(
        self,
        topic: str,
        body: bytes | str,
        *,
        tag: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
        queue: int | None = None,
    ) -> AsyncIterator[AsyncTransaction]:
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
        transaction = await self._begin(message)
        yield transaction
        if transaction.decision is None:
            await transaction.commit()

    async def close(self) -> None:
        """Ask for no more questions; one that is being answered is answered."""
        self._is_stopped = True
        task = self._task
        if task is not None and task is not asyncio.current_task():
            if self._is_waiting:
                task.cancel()
            await asyncio.wait([task])
        await self._pool.close()

    async def _begin(self, message: OutgoingMessage) -> AsyncTransaction:
        if self._task is None or self._is_stopped:
            raise Closed("the producer of transactions is not running: nobody would answer checks")
        return AsyncTransaction(await self._pool.run(self._plans.begin(message)), self._end)

    async def _end(self, transaction: AsyncTransaction, decision: Decision) -> None:
        plan = self._plans.end(transaction.transaction_id, decision)
        transaction.ended = await self._pool.run(plan)

    async def _answer_checks(self) -> None:
        while not self._is_stopped:
            for check in await self._received():
                decision = await self._decision(check)
                await self._pool.run(self._plans.answer(check, decision))

    async def _received(self) -> list[TransactionCheck]:
        # Only what waits for questions may be cut off at the end, not what answers one.
        self._is_waiting = True
        try:
            return await self._pool.run(self._plans.checks())
        except MqError as error:
            await asyncio.sleep(self._plans.pause_s(error))
            return []
        finally:
            self._is_waiting = False

    async def _decision(self, check: TransactionCheck) -> object:
        try:
            return await self._check(check)
        except Exception as error:
            # The main loop of checking: whatever a listener does, others must be asked.
            log_failed_check(check, error)
            return Decision.UNKNOWN
