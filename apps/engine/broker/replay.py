"""Bring consumer state back after a start: the checkpoint, then the journal behind it.

Knows the checkpoint's content and the journal's topic.
"""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

from apps.engine.broker.damage import Damage
from apps.engine.broker.journal import Assigned, Event, decode_event
from apps.engine.broker.selection import Selection, load, select
from apps.engine.broker.state import ConsumerState
from apps.engine.codec.batch import starts_of
from apps.engine.codec.layout import JOURNAL_TOPIC
from apps.engine.codec.record import decode_record
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import StoreDamaged, UnknownFormat
from apps.engine.failpoints import Failpoints
from apps.engine.files import atomic
from apps.engine.files.backend import Disk
from apps.engine.limits import FETCH_BYTES_MAX
from apps.engine.log.commitlog import CommitLog

_log = logging.getLogger(__name__)
CHECKPOINT = "checkpoint/consumers"
# The same once more: where retention has deleted the begin of the journal nothing else has it.
COPY = "checkpoint/consumers.copy"
_STEP = 4096


def load_state(disk: Disk, log: CommitLog) -> dict[str, Any] | None:
    """Return the checkpoint of consumer state; None where the journal must tell everything.

    Where the log no longer has the whole journal, the copy takes the place of a checkpoint that is
    damaged or gone. Raises StoreDamaged or UnknownFormat when that cannot be read either.
    """
    try:
        content = atomic.load(disk, CHECKPOINT)
    except (StoreDamaged, UnknownFormat) as error:
        if log.log_start:
            if isinstance(error, UnknownFormat):
                raise
            return _copy(disk, error)
        _log.warning("consumer_state_rebuilt", extra={"reason": str(error)})
        content = None
    if content is None and log.log_start:
        missing = StoreDamaged(
            f"{CHECKPOINT} is missing, and retention has deleted the begin of the journal"
        )
        return _copy(disk, missing)
    return content


def _copy(disk: Disk, error: StoreDamaged) -> dict[str, Any]:
    """Return what was written beside the checkpoint; raise `error` where that is no better."""
    try:
        content = atomic.load(disk, COPY)
    except StoreDamaged:
        content = None
    if content is None:
        raise error
    _log.warning("consumer_state_from_copy", extra={"reason": str(error)})
    return content


def store_state(disk: Disk, content: dict[str, object], *, failpoints: Failpoints) -> None:
    """Replace the checkpoint of consumer state and its copy; both are on the disk then.

    The copy comes first: a crash in between leaves a checkpoint that is whole and older, and the
    journal has what is behind it. Raises StoreFull, WriteFailed or SyncFailed.
    """
    atomic.replace(disk, COPY, content, failpoints=failpoints)
    atomic.replace(disk, CHECKPOINT, content, failpoints=failpoints)


def replay(
    content: dict[str, Any] | None,
    state: ConsumerState,
    *,
    log: CommitLog,
    queues: QueueSet,
    damage: Damage,
) -> int:
    """Fill `state` and return how many events were applied.

    Raises StoreDamaged when the checkpoint does not fit the journal or cannot be read, or when
    records behind it are damaged and nobody has accepted that.
    """
    journal = queues.queue(JOURNAL_TOPIC, 0)
    start = journal.min_offset

    def read(number: int) -> tuple[Assigned, int] | None:
        """Return the assignment that is record `number` of the journal, and its wall time."""
        is_there = journal.min_offset <= number < journal.visible
        if not is_there or journal.lost_between(number, number + 1):
            return None
        ((event, at_ms),) = _events(log, journal, _one(journal, number))
        return (event, at_ms) if isinstance(event, Assigned) else None

    if content is not None:
        try:
            start = int(content["journal_offset"])
            state.load(content, read)
        except (KeyError, TypeError, ValueError) as error:
            raise StoreDamaged(f"{CHECKPOINT} holds something else than state") from error
    if not journal.min_offset <= start <= journal.visible:
        raise StoreDamaged(
            f"{CHECKPOINT} ends at journal offset {start}, "
            f"the journal holds {journal.min_offset} to {journal.visible}"
        )
    applied = 0
    damage.check_journal(start)
    while start < journal.visible:
        chosen, found = damage.guarded(partial(_next, log, journal, start))
        damage.check_journal(start)
        for number, (event, at_ms) in zip(chosen.offsets.tolist(), found, strict=True):
            state.apply(event, number=number, at_ms=at_ms)
            applied += 1
        start = chosen.next_offset
    for (topic, number), floor in state.floors.items():
        queue = queues.queue(topic, number)
        queue.begin_at(min(floor, queue.end))
    return applied


def _next(
    log: CommitLog, journal: ConsumeQueue, start: int
) -> tuple[Selection, list[tuple[Event, int]]]:
    chosen = select(
        journal, start, messages_max=_STEP, bytes_max=FETCH_BYTES_MAX, hashes=None, wait=True
    )
    return chosen, list(_events(log, journal, chosen))


def _one(journal: ConsumeQueue, number: int) -> Selection:
    return select(
        journal, number, messages_max=1, bytes_max=FETCH_BYTES_MAX, hashes=None, wait=True
    )


def _events(
    log: CommitLog, journal: ConsumeQueue, chosen: Selection
) -> Iterator[tuple[Event, int]]:
    """Iterate over the events of chosen records, and when each was made."""
    block = load(log, journal, chosen, wait=True)
    # One event at a time: each depends on the one before, and there is one a request, not one a
    # message.
    for at in starts_of(block.sizes).tolist():
        record = decode_record(block.payload, at)
        yield decode_event(record.body), record.born_time_ms
