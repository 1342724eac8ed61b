"""What the broker still keeps back of a message: delays and transactions. Looks up or reads pages.

What waits in a delay level is found by the index. What has a delay of its own is in no index: its
pages are read, as many as there is time for.
"""

from collections.abc import Iterable
from functools import partial

from apps.bridge import engine as bridge
from apps.engine.api import EngineControl, Later
from apps.engine.clock import Clock, SystemClock
from apps.engine.codec.layout import RETRY_PREFIX
from apps.engine.delaytypes import DelayedMessage, DelayedPage
from apps.engine.errors import InvalidArgument
from apps.messages.life import Event, Kind, Source

_PENDING_MAX = 1_000
_GIVEN_UP_MAX = 200
_PAGE = 1_000
# A page of a thousand takes 20 ms: so long somebody may wait for a life that waits for its time.
_TIME_MS_MAX = 2_000


def kept_back_of(
    message_id: str, topics: frozenset[str], *, clock: Clock | None = None
) -> tuple[list[Event], bool]:
    """Return what the broker still keeps back of a message, and whether it was not all looked at.

    `topics` are the message's own and those of its retries; empty is any.
    """
    undecided, is_cut = _undecided(message_id, topics)
    delayed, is_cut_too = _delayed(message_id, topics, clock or SystemClock())
    return [*undecided, *delayed], is_cut or is_cut_too


def _undecided(message_id: str, topics: frozenset[str]) -> tuple[list[Event], bool]:
    """Return the undecided and given-up transactions of a message."""
    status = bridge.call(lambda engine: engine.transaction_status())
    events: list[Event] = []
    if status.pending:
        pending = bridge.call(lambda engine: engine.transactions(messages_max=_PENDING_MAX))
        events += [
            Event(
                kind=Kind.UNDECIDED,
                source=Source.BROKER,
                at_ms=one.begun_ms,
                group=one.producer_group,
                attempt=one.checks,
                topic=one.topic,
                queue=one.queue,
                detail=one.transaction_id,
            )
            for one in pending
            if one.message_id == message_id and (not topics or one.topic in topics)
        ]
    is_cut = status.pending > _PENDING_MAX
    if status.given_up_waiting:
        page = bridge.call(lambda engine: engine.given_up(messages_max=_GIVEN_UP_MAX))
        is_cut = is_cut or (page.before is not None)
        events += [
            Event(
                kind=Kind.GIVEN_UP,
                source=Source.BROKER,
                at_ms=one.given_up_ms,
                group=one.producer_group,
                attempt=one.checks,
                topic=one.topic,
                queue=one.queue,
                detail=one.transaction_id or "",
            )
            for one in page.messages
            if one.message_id == message_id and (not topics or one.topic in topics)
        ]
    return events, is_cut and not events


def _delayed(message_id: str, topics: frozenset[str], clock: Clock) -> tuple[list[Event], bool]:
    """Return the delays in which a message waits, or retries of it."""
    try:
        copies = bridge.call(lambda engine: engine.delayed_copies(message_id))
    except InvalidArgument:
        # What is longer than any id is nobody's.
        return [], False
    found = [*_waiting(copies.messages, message_id, topics)]
    is_cut = not copies.is_complete
    if bridge.call(lambda engine: engine.delay_status()).pending:
        of_their_own, is_cut_too = _with_own_delays(message_id, topics, clock)
        found += of_their_own
        is_cut |= is_cut_too
    return found, is_cut


def _with_own_delays(
    message_id: str, topics: frozenset[str], clock: Clock
) -> tuple[list[Event], bool]:
    """Read the messages with a delay of their own, page by page; say whether time was too short."""
    deadline_ms = clock.monotonic_ms() + _TIME_MS_MAX
    found: list[Event] = []
    cursor: str | None = None
    while True:
        page = bridge.call(partial(_page, cursor=cursor))
        found += _waiting(page.messages, message_id, topics)
        cursor = page.cursor
        if cursor is None:
            return found, False
        if clock.monotonic_ms() >= deadline_ms:
            return found, True


def _page(engine: EngineControl, *, cursor: str | None) -> Later[DelayedPage]:
    return engine.delayed(cursor=cursor, messages_max=_PAGE)


def _waiting(
    messages: Iterable[DelayedMessage], message_id: str, topics: frozenset[str]
) -> list[Event]:
    return [
        Event(
            kind=Kind.WAITING,
            source=Source.BROKER,
            at_ms=one.born_time_ms if one.level is None else one.due_ms,
            ended_ms=one.due_ms,
            group=_group_of(one.topic),
            topic=one.topic,
            queue=one.queue,
            result="now",
        )
        for one in messages
        if one.message_id == message_id and (not topics or one.topic in topics)
    ]


def _group_of(topic: str) -> str:
    return topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else ""
