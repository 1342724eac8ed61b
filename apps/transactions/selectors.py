"""Transactions as the engine has them, undecided and given up. Asks the engine; knows no row."""

import re
from collections.abc import Awaitable, Sequence

from apps.access.policy import Sight
from apps.bridge import engine as bridge
from apps.core.sifting import sifted
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

# An id begins with where its half message lies.
_HEXADECIMAL = re.compile(r"[0-9a-f]{1,16}")


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


def shown_pending(
    sight: Sight, *, producer_group: str | None = None, after: int = -1, transactions_max: int
) -> tuple[list[PendingTransaction], int | None]:
    """Return undecided transactions for topics that a sight shows, and the offset to go on behind.

    There may be fewer than `transactions_max`, and more behind them; None says that there are not.
    Raises Busy while the engine cannot be asked.
    """

    def read(behind: int | None) -> tuple[Sequence[PendingTransaction], int | None]:
        found = pending(
            producer_group=producer_group,
            after=-1 if behind is None else behind,
            transactions_max=transactions_max + 1,
        )
        here = found[:transactions_max]
        return here, here[-1].half_offset if len(found) > transactions_max else None

    return sifted(read, lambda one: sight.topic(one.topic), start=after)


def shown_given_up(sight: Sight, *, before: int | None = None, messages_max: int) -> GivenUpPage:
    """Return given-up messages as `given_up` does, those for topics that a sight shows.

    There may be fewer than `messages_max`, and older ones all the same.
    """

    def read(behind: int | None) -> tuple[Sequence[GivenUpMessage], int | None]:
        found = given_up(before=behind, messages_max=messages_max)
        return found.messages, found.before

    messages, behind = sifted(read, lambda one: _shows(sight, one), start=before)
    return GivenUpPage(messages=tuple(messages), before=behind)


def _shows(sight: Sight, one: GivenUpMessage) -> bool:
    # What no longer says where it was for is of nobody's topic.
    return sight.topic(one.topic) if one.topic else sight.cluster


def one(half_offset: int) -> PendingTransaction | None:
    """Return the undecided transaction of a half offset; None where there is none."""
    found = pending(after=half_offset - 1, transactions_max=1)
    return next((one for one in found if one.half_offset == half_offset), None)


def by_id(transaction_id: str) -> PendingTransaction | None:
    """Return the undecided transaction of an id; None where there is none. Raises Busy."""
    digits = transaction_id.partition(".")[0]
    if _HEXADECIMAL.fullmatch(digits) is None:
        return None
    found = one(int(digits, 16))
    return found if found is not None and found.transaction_id == transaction_id else None


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


def shown_given_up_one(sight: Sight, offset: int) -> GivenUpMessage | None:
    """Return the given-up message at an offset; None where there is none that a sight shows."""
    found = given_up_one(offset)
    return found if found is not None and _shows(sight, found) else None


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
