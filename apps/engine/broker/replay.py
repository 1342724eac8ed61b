"""Bring consumer state back after a start: the checkpoint, then the journal behind it.

Knows the checkpoint's content and the journal's topic.
"""

from typing import Any

from apps.engine.broker.fetch import load, select
from apps.engine.broker.journal import decode_event
from apps.engine.broker.state import ConsumerState
from apps.engine.codec.batch import starts_of
from apps.engine.codec.layout import JOURNAL_TOPIC
from apps.engine.codec.record import decode_record
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import StoreDamaged
from apps.engine.limits import FETCH_BYTES_MAX
from apps.engine.log.commitlog import CommitLog

CHECKPOINT = "checkpoint/consumers"
_STEP = 4096


def replay(
    content: dict[str, Any] | None, state: ConsumerState, *, log: CommitLog, queues: QueueSet
) -> int:
    """Fill `state` and return how many events were applied.

    Raises StoreDamaged when the checkpoint does not fit the journal or cannot be read.
    """
    journal = queues.queue(JOURNAL_TOPIC, 0)
    start = journal.min_offset
    if content is not None:
        try:
            start = int(content["journal_offset"])
            state.load(content["groups"], content["leases"], content["floors"])
        except (KeyError, TypeError, ValueError) as error:
            raise StoreDamaged(f"{CHECKPOINT} holds something else than state") from error
    if not journal.min_offset <= start <= journal.visible:
        raise StoreDamaged(
            f"{CHECKPOINT} ends at journal offset {start}, "
            f"the journal holds {journal.min_offset} to {journal.visible}"
        )
    applied = 0
    while start < journal.visible:
        chosen = select(
            journal, start, messages_max=_STEP, bytes_max=FETCH_BYTES_MAX, hashes=None, wait=True
        )
        block = load(log, journal, chosen, wait=True)
        # One event at a time: each depends on the one before, and there is one a request, not
        # one a message.
        for row, at in enumerate(starts_of(block.sizes).tolist()):
            record = decode_record(block.payload, at)
            event = decode_event(record.body)
            state.apply(event, number=start + row, at_ms=record.born_time_ms)
            applied += 1
        start = chosen.next_offset
    for (topic, number), floor in state.floors.items():
        queue = queues.queue(topic, number)
        queue.min_offset = max(queue.min_offset, min(floor, queue.end))
    return applied
