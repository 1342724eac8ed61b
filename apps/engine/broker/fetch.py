"""Answer a pull: which messages of a queue, and where to read on. Knows no groups."""

import numpy as np
from numpy.typing import NDArray

from apps.engine.broker.selection import Selection, choose, empty_block, load, without
from apps.engine.derived.consumequeue import ConsumeQueue
from apps.engine.errors import InvalidArgument
from apps.engine.filters.subscription import compile_filter
from apps.engine.limits import FETCH_BYTES_MAX, FETCH_MESSAGES_MAX, WAIT_MS_MAX
from apps.engine.log.commitlog import CommitLog
from apps.engine.types import PullRequest, PullResult, PullStatus


def check_amounts(messages_max: int, bytes_max: int, wait_ms: int) -> None:
    """Raise InvalidArgument for a read of too much or too long."""
    if not 1 <= messages_max <= FETCH_MESSAGES_MAX:
        raise InvalidArgument(f"max must be 1 to {FETCH_MESSAGES_MAX}, not {messages_max}")
    if not 1 <= bytes_max <= FETCH_BYTES_MAX:
        raise InvalidArgument(f"max_bytes must be 1 to {FETCH_BYTES_MAX}, not {bytes_max}")
    if not 0 <= wait_ms <= WAIT_MS_MAX:
        raise InvalidArgument(f"wait_ms must be 0 to {WAIT_MS_MAX}, not {wait_ms}")


def fetch(
    log: CommitLog,
    queue: ConsumeQueue,
    request: PullRequest,
    *,
    sent_back: NDArray[np.int64],
    wait: bool,
) -> PullResult:
    """Answer a pull from what is there now, without waiting for messages.

    Offsets that were `sent_back`, int64[n], are passed over as if a filter did not take them; so
    are messages that cannot be read any more, and the answer counts those.
    """
    start = request.queue_offset
    chosen: Selection | None = None
    if not queue.min_offset <= start <= queue.visible:
        status, next_offset = PullStatus.OFFSET_ILLEGAL, queue.min_offset
        if start > queue.visible:
            next_offset = queue.visible
    elif start == queue.visible:
        status, next_offset = PullStatus.NO_NEW_MSG, start
    else:
        chosen = choose(
            log,
            queue,
            start,
            wanted=compile_filter(request.filter, request.filter_type),
            messages_max=request.messages_max,
            bytes_max=request.bytes_max,
            wait=wait,
        )
        chosen = without(chosen, sent_back)
        next_offset = chosen.next_offset
        status = PullStatus.FOUND if len(chosen.sizes) else PullStatus.NO_MATCHED_MSG
    return PullResult(
        status=status,
        block=empty_block(queue) if chosen is None else load(log, queue, chosen, wait=wait),
        next_offset=next_offset,
        min_offset=queue.min_offset,
        max_offset=queue.visible,
        unreadable=0 if chosen is None else queue.lost_between(start, next_offset),
    )
