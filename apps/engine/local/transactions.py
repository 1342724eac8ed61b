"""Verbs of transactions. Knows when to wait; decides nothing else."""

from dataclasses import replace
from functools import partial

from apps.engine.broker.transactionchecks import TransactionChecks
from apps.engine.broker.transactionstate import Half
from apps.engine.local.host import Host, checks_key
from apps.engine.transactiontypes import (
    Begun,
    Check,
    Ended,
    GivenUpPage,
    Outcome,
    PendingTransaction,
    SentAfterAll,
    TransactionStatus,
)
from apps.engine.types import AckMode, RecordBatch


class TransactionVerbs:
    """The verbs of EngineAPI for producers with transactions, and for who watches over them."""

    _host: Host

    async def begin_transaction(
        self,
        batch: RecordBatch,
        *,
        producer_group: str,
        check_immunity_ms: int | None = None,
        ack: AckMode,
    ) -> Begun:
        """Store one message that nobody sees until it is committed; see EngineAPI."""
        host = self._host
        host.check_serving()
        with host.writing():
            begun = host.broker.transactions.begin(
                batch, producer_group=producer_group, check_immunity_ms=check_immunity_ms
            )
        host.arm_checks()
        if ack is AckMode.SYNC:
            # One that was begun before may still wait for the disk as well.
            await host.commits.durable(host.broker.log.written_offset)
        return begun

    async def end_transaction(
        self, transaction_id: str, outcome: Outcome, *, by: str = ""
    ) -> Ended:
        """Commit or roll back; see EngineControl."""
        host = self._host
        host.check_serving()
        with host.writing():
            ended = await host.patiently(
                partial(self._end, transaction_id=transaction_id, outcome=outcome, by=by)
            )
            # A repeat promises what the first decision did, which may still wait for the disk.
            if host.config.ack is AckMode.SYNC:
                await host.commits.durable(host.broker.log.written_offset)
        return ended

    def _end(self, wait: bool, *, transaction_id: str, outcome: Outcome, by: str) -> Ended:
        return self._host.broker.transactions.end(transaction_id, outcome, by=by, wait=wait)

    async def receive_checks(
        self, producer_group: str, *, client_id: str, checks_max: int = 32, wait_ms: int = 0
    ) -> list[Check]:
        """Hand out half messages that are due for a check; see EngineAPI."""
        host, checks = self._host, self._host.broker.checks
        host.check_serving()
        checks.check_request(
            producer_group, client_id=client_id, checks_max=checks_max, wait_ms=wait_ms
        )
        deadline = host.loop.time() + wait_ms / 1000

        def handed_out(wait: bool) -> list[Check]:
            return checks.receive(
                producer_group, client_id=client_id, checks_max=checks_max, wait=wait
            )

        while True:
            with host.writing():
                found = await host.patiently(handed_out)
            is_over = host.stopped is not None or host.loop.time() >= deadline
            if found or is_over:
                return await host.recorded(found)
            with checks.producers.waiting(producer_group, client_id):
                host.arm_checks()
                await host.park(
                    [checks_key(producer_group)],
                    deadline,
                    is_due=partial(checks.has_due, producer_group),
                )

    async def transactions(
        self,
        *,
        producer_group: str | None = None,
        after: int = -1,
        messages_max: int = 100,
    ) -> list[PendingTransaction]:
        """List undecided transactions; see EngineControl."""
        host, checks = self._host, self._host.broker.checks
        halves = checks.pending(producer_group, after, messages_max)
        return [await host.patiently(partial(_row, checks, half)) for half in halves]

    def transaction_status(self) -> TransactionStatus:
        """Return the counters of transactions."""
        broker = self._host.broker
        return replace(broker.checks.status(), given_up_waiting=broker.givenup.waiting_count())

    def check_now(self, transaction_id: str) -> PendingTransaction | None:
        """Have the producers asked at once; see EngineControl."""
        self._host.check_serving()
        with self._host.writing():
            found = self._host.broker.checks.check_now(transaction_id)
        self._host.arm_checks()
        return found

    async def give_up_transactions(self, messages_max: int = 100) -> int:
        """Give up what was checked often enough or is too old; see EngineControl."""
        host, checks = self._host, self._host.broker.checks
        host.check_serving()
        count = 0
        for half in checks.over(messages_max):
            with host.writing():
                count += await host.patiently(partial(_give_up, checks, half))
        return await host.recorded(count)

    async def given_up(self, *, before: int | None = None, messages_max: int = 100) -> GivenUpPage:
        """List given-up messages; see EngineControl."""
        givenup = self._host.broker.givenup
        return await self._host.patiently(
            lambda wait: givenup.page(before=before, messages_max=messages_max, wait=wait)
        )

    async def send_given_up(
        self, given_up_offset: int, *, transaction_id: str, by: str = ""
    ) -> SentAfterAll:
        """Send a given-up message where it was for; see EngineControl."""
        host, givenup = self._host, self._host.broker.givenup
        host.check_serving()

        def send(wait: bool) -> SentAfterAll:
            host.check_serving()
            return givenup.send(given_up_offset, transaction_id=transaction_id, by=by, wait=wait)

        with host.writing():
            sent = await host.patiently(send)
        # Whatever the store promises for sends: a person is told that it is there.
        await host.commits.durable(host.broker.log.written_offset)
        return sent


def _row(checks: TransactionChecks, half: Half, wait: bool) -> PendingTransaction:
    return checks.row(half, wait=wait)


def _give_up(checks: TransactionChecks, half: Half, wait: bool) -> bool:
    return checks.give_up(half, wait=wait)
