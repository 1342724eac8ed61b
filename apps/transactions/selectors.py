"""Transactions as the engine has them, undecided and given up. Asks the engine; knows no row."""

from collections.abc import Awaitable

from apps.bridge import engine as bridge
from apps.engine.api import EngineAPI
from apps.engine.codec.layout import GIVEN_UP_TOPIC
from apps.engine.codec.record import Record, decode_record
from apps.engine.errors import Refused
from apps.engine.transactiontypes import (
    GivenUpMessage,
    GivenUpPage,
    PendingTransaction,
    TransactionStatus,
)
from apps.engine.types import PullRequest, PullResult


def pending(
    *, producer_group: str | None = None, after: int = -1, transactions_max: int
) -> list[PendingTransaction]:
    """Return undecided transactions behind a half offset, oldest first.

    Raises Busy while the engine cannot be asked.
    """
    return bridge.call(
        lambda engine: engine.transactions(
            producer_group=producer_group, after=after, messages_max=transactions_max
        )
    )


def one(half_offset: int) -> PendingTransaction | None:
    """Return the undecided transaction of a half offset; None where there is none."""
    found = pending(after=half_offset - 1, transactions_max=1)
    return next((one for one in found if one.half_offset == half_offset), None)


def status() -> TransactionStatus:
    """Return the counters. Raises Busy while the engine cannot be asked."""
    return bridge.call(lambda engine: engine.transaction_status())


def given_up(*, before: int | None = None, messages_max: int) -> GivenUpPage:
    """Return given-up messages, of those before an offset the last ones, the newest first.

    Raises Busy while the engine cannot be asked.
    """
    return bridge.call(lambda engine: engine.given_up(before=before, messages_max=messages_max))


def given_up_one(offset: int) -> GivenUpMessage | None:
    """Return the given-up message at an offset; None where there is none. Raises Busy."""
    found = given_up(before=offset + 1, messages_max=1).messages
    return next((one for one in found if one.given_up_offset == offset), None)


def given_up_record(offset: int) -> Record | None:
    """Return a given-up message as the log has it; None where it has none.

    Raises Busy while the engine of this process cannot be asked.
    """
    request = PullRequest(topic=GIVEN_UP_TOPIC, queue=0, queue_offset=offset, messages_max=1)

    def pull(engine: EngineAPI) -> Awaitable[PullResult]:
        return engine.pull(request)

    try:
        found = bridge.call_here(pull).block
    except Refused:  # Nothing was ever given up.
        return None
    record = decode_record(found.payload) if len(found) else None
    return record if record is not None and record.queue_offset == offset else None
