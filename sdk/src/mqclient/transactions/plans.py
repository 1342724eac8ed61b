"""Beginning, ending and checking transactions, as plans. Knows no sockets, threads or loops."""

import logging

from mqclient.errors import MqError, Refused, TransactionUndecided
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.plans import Patience, Plan, Step, persistently
from mqclient.transactions.settings import TransactionSettings
from mqclient.values import Decision, EndedTransaction, OutgoingMessage, TransactionCheck

logger = logging.getLogger("mqclient")

# What a broker refuses once it would refuse again at once.
_REFUSED_PAUSE_S = 2.0


class TransactionPlans:
    """The requests of one producer group's member."""

    def __init__(self, settings: TransactionSettings, calls: Calls, patience: Patience) -> None:
        self.settings = settings
        self._calls = calls
        self._patience = patience
        self._backoff = Backoff(first_s=0.1, longest_s=_REFUSED_PAUSE_S)
        self._failed_count = 0

    def begin(self, message: OutgoingMessage) -> Plan[tuple[str, str]]:
        """Store a half message; return the transaction's id and the message's.

        After an error whose outcome is unknown a half message may lie there that nobody ends; the
        broker asks about it, and the answer to a transaction nobody knows is a roll-back.
        """
        settings = self.settings
        call = self._calls.begin_transaction(
            message,
            producer_group=settings.producer_group,
            check_immunity_ms=settings.check_immunity_ms,
        )
        begun = yield from persistently(call, self._patience)
        return begun

    def end(self, transaction_id: str, decision: Decision) -> Plan[EndedTransaction]:
        """Tell a decision until it is taken, refused, or the time is over.

        Raise TransactionUndecided when the broker cannot be told; TransactionDecided and
        UnknownTransaction are its refusals.
        """
        call = self._calls.end_transaction(transaction_id, decision)
        try:
            ended = yield from persistently(call, self._patience)
        except Refused:
            raise
        except MqError as error:
            raise TransactionUndecided(
                f"the broker was not told to {decision}: {error}", transaction_id=transaction_id
            ) from error
        return ended

    def checks(self) -> Plan[list[TransactionCheck]]:
        """Ask once which transactions are to be decided; raise MqError."""
        settings = self.settings
        call = self._calls.receive_checks(
            settings.producer_group,
            settings.client_id,
            checks_max=settings.checks_max,
            wait_ms=settings.wait_ms,
        )
        checks: list[TransactionCheck] = yield Step(
            call, settings.timeout_s + settings.wait_ms / 1000
        )
        self._failed_count = 0
        return checks

    def pause_s(self, error: MqError) -> float:
        """Return how long to wait after questions could not be asked for."""
        self._failed_count += 1
        if self._failed_count == 1:
            logger.warning("no checks of transactions can be received, trying on: %s", error)
        if not error.retriable:
            return _REFUSED_PAUSE_S
        return self._backoff.pause_s(self._failed_count, error)

    def answer(self, check: TransactionCheck, decision: object) -> Plan[None]:
        """Tell what the listener said; nothing is raised, since the broker asks again."""
        if decision not in (Decision.COMMIT, Decision.ROLLBACK):
            # Anything else is no decision, so that a listener's mistake makes nothing visible.
            return
        try:
            yield from self.end(check.transaction_id, Decision(str(decision)))
        except MqError as error:
            logger.warning("the check of %s is not answered: %s", check.transaction_id, error)


def log_failed_check(check: TransactionCheck, error: Exception) -> None:
    """Say that a listener of checks raised; the transaction stays open."""
    logger.error("the check of %s failed", check.transaction_id, exc_info=error)
