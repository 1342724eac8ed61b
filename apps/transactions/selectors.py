"""Transactions as the engine has them, undecided and given up. Asks the engine; knows no row."""

from dataclasses import dataclass

from apps.bridge import engine as bridge
from apps.engine.api import EngineAPI
from apps.engine.codec.batch import starts_of
from apps.engine.codec.layout import GIVEN_UP_TOPIC
from apps.engine.codec.record import Record, decode_record
from apps.engine.errors import UnknownTopic
from apps.engine.transactiontypes import PendingTransaction, TransactionStatus
from apps.engine.types import PullRequest

# What is shown of given-up messages is read from the log for each page.
_GIVEN_UP_BYTES_MAX = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUpPage:
    """Given-up messages, the newest first; `before` asks for those before them, None for none."""

    records: tuple[Record, ...]
    before: int | None


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
    """Return given-up messages, of those before a queue offset the last ones.

    Raises Busy while the engine of this process cannot be asked.
    """
    return bridge.call_here(lambda engine: _given_up(engine, before, messages_max))


async def _given_up(engine: EngineAPI, before: int | None, messages_max: int) -> GivenUpPage:
    ranges = engine.own_ranges(GIVEN_UP_TOPIC).get(GIVEN_UP_TOPIC, [])
    if not ranges:
        return GivenUpPage(records=(), before=None)
    low, end = ranges[0].min_offset, ranges[0].max_offset
    end = end if before is None else min(end, before)
    start = max(low, end - messages_max)
    records: list[Record] = []
    while start < end:
        try:
            found = await engine.pull(
                PullRequest(
                    topic=GIVEN_UP_TOPIC,
                    queue=0,
                    queue_offset=start,
                    messages_max=end - start,
                    bytes_max=_GIVEN_UP_BYTES_MAX,
                )
            )
        except UnknownTopic:  # Nothing was ever given up.
            break
        payload = found.block.payload
        records += [decode_record(payload, at) for at in starts_of(found.block.sizes).tolist()]
        if found.next_offset <= start:
            break
        start = found.next_offset
    low_shown = max(low, end - messages_max)
    return GivenUpPage(
        records=tuple(reversed(records)), before=low_shown if low_shown > low else None
    )
