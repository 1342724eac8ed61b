"""Ordered receives by the name their client gave them: asked again, they are answered the same.

Knows leases and who was handed which; not how messages are chosen. A restart forgets the names, and
what was out comes again when its time is over.
"""

from collections import OrderedDict
from collections.abc import Sequence

from apps.engine.broker.handles import Handles
from apps.engine.broker.inflight import LeaseEntry
from apps.engine.broker.journal import Renew
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.selection import load, pick
from apps.engine.broker.state import ConsumerState
from apps.engine.clock import Clock
from apps.engine.derived.queueset import QueueSet
from apps.engine.limits import FETCH_BYTES_MAX
from apps.engine.log.commitlog import CommitLog
from apps.engine.types import Lease, MessageBlock, ReceiveRequest

# Above it the oldest is forgotten: a client asks again within seconds or not at all.
_NAMES_MAX = 10_000


class NamedReceives:
    """What receives with a name were handed."""

    def __init__(
        self,
        *,
        log: CommitLog,
        queues: QueueSet,
        state: ConsumerState,
        recorder: Recorder,
        handles: Handles,
        clock: Clock,
    ) -> None:
        """Bind to a store."""
        self._log = log
        self._queues = queues
        self._state = state
        self._recorder = recorder
        self._handles = handles
        self._clock = clock
        self._leases: OrderedDict[tuple[str, str], list[int]] = OrderedDict()

    def note(self, request: ReceiveRequest, leases: Sequence[Lease]) -> None:
        """Remember what a receive is answered with."""
        key = (request.group, request.attempt_id)
        self._leases[key] = [self._handles.lease_of(lease.token) for lease in leases]
        if len(self._leases) > _NAMES_MAX:
            self._leases.popitem(last=False)

    def again(self, request: ReceiveRequest, *, wait: bool) -> tuple[Lease, ...]:
        """Return what is left of what a receive of this name was handed, and keep it for longer.

        Its answer was lost on the way: everybody waits for these messages, and nobody has them.
        Nothing where it was answered with none, or all of them are settled or were given back.
        Raises ColdRead when `wait` is false and the disk would have to be waited for.
        """
        numbers = self._leases.get((request.group, request.attempt_id), ())
        entries = [
            entry
            for entry in map(self._state.leases.get, numbers)
            if entry is not None and entry.is_out and entry.epoch == self._log.epoch
        ]
        if not entries:
            return ()
        blocks = [self._block(entry, wait) for entry in entries]
        until_ms = self._clock.wall_ms() + request.invisible_ms
        self._recorder.record_all(
            [Renew(lease=entry.lease, until_ms=until_ms) for entry in entries]
        )
        return tuple(
            Lease(
                token=self._handles.token(request.group, entry.lease, entry.epoch),
                attempt=entry.attempt,
                invisible_until_ms=until_ms,
                block=block,
            )
            for entry, block in zip(entries, blocks, strict=True)
            if len(block)
        )

    def _block(self, entry: LeaseEntry, wait: bool) -> MessageBlock:
        queue = self._queues.queue(entry.progress.topic, entry.progress.queue)
        chosen = pick(queue, entry.offsets, bytes_max=FETCH_BYTES_MAX, wait=wait)
        return load(self._log, queue, chosen, wait=wait)
