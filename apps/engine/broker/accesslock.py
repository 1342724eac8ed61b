"""Who reads a queue for a group, how far, and when the next client may. Knows no message, no disk.

The access lock is a group's choice (`access_lock_ms`), made against the duplicates of a rebalance.
Without it the new owner of a queue reads what is committed, and with that all that the old one has
and has not committed yet. With it the old owner keeps access until it has committed everything it
was delivered, or was not seen for so long; then the new one begins where the old one ended. Once
the new owner asks, the old one is delivered nothing more: it drains.

The idea is DeFiBus's. There, a client that waits in a long poll is not seen, and rivals are counted
by their attempts; here waiting counts as being seen, and everything committed is enough, because
nothing is delivered between that look and the handover.

All of it is in memory. After a restart the first client that reads has access.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from apps.engine.broker.progress import QueueProgress
from apps.engine.clock import Clock
from apps.engine.types import PullRequest

_Key = tuple[str, str, int]


class Access(Enum):
    """What a client that asks for a queue's messages gets."""

    GRANTED = "granted"
    """It may read."""
    HANDED_OVER = "handed over"
    """It may read, from now on, instead of another client."""
    WAITS = "waits"
    """Nothing: another client has access, or it is to drain for one that waits."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Reader:
    """`seen_ms` is of the monotonic clock. The offsets are one past the newest message pulled:
    by the client since it has access, and by anybody.
    """

    client_id: str
    seen_ms: int
    client_delivered: int | None = None
    delivered: int | None = None
    parked: int = 0
    is_awaited: bool = False


class AccessLocks:
    """The reader of each queue that a group pulls, whether or not the group locks access."""

    def __init__(
        self,
        clock: Clock,
        *,
        progress: Mapping[_Key, QueueProgress],
        readers_max: int,
    ) -> None:
        """Know nobody; above `readers_max` the longest silent is forgotten for each new one."""
        self._clock = clock
        self._progress = progress
        self._readers_max = readers_max
        self._readers: OrderedDict[_Key, _Reader] = OrderedDict()
        self._keys_of: dict[str, set[_Key]] = {}

    def enter(
        self,
        group: str,
        topic: str,
        queue: int,
        client_id: str,
        *,
        is_owner: bool,
        hold_ms: int | None,
    ) -> Access:
        """Note that a client asks for a queue's messages now, and say whether it gets any.

        `is_owner` is whether the queue is its by assignment, or there is none. `hold_ms` is the
        group's access lock; with None everybody may read.
        """
        key = (group, topic, queue)
        reader = self._seen(key, client_id)
        if reader.client_id == client_id:
            reader.seen_ms = self._clock.monotonic_ms()
            reader.is_awaited = reader.is_awaited and not is_owner and hold_ms is not None
            return Access.WAITS if reader.is_awaited else Access.GRANTED
        if hold_ms is None:
            self._hand_over(key, client_id)
            return Access.GRANTED
        if not is_owner:
            return Access.WAITS
        if self._is_drained(key, reader) or self._is_over(reader, hold_ms):
            self._hand_over(key, client_id)
            return Access.HANDED_OVER
        reader.is_awaited = True
        return Access.WAITS

    def pulled(self, group: str, topic: str, queue: int, client_id: str, next_offset: int) -> None:
        """Note that a client was delivered messages up to, not with, `next_offset`."""
        reader = self._seen((group, topic, queue), client_id)
        reader.delivered = max(next_offset, reader.delivered or 0)
        if reader.client_id == client_id:
            reader.client_delivered = max(next_offset, reader.client_delivered or 0)

    def rewind(self, group: str, topic: str, queue: int, queue_offset: int) -> None:
        """Note that an operator set the group's progress: what was delivered before is void."""
        reader = self._readers.get((group, topic, queue))
        if reader is not None:
            reader.client_delivered = reader.delivered = queue_offset

    @contextmanager
    def waiting(self, request: PullRequest) -> Iterator[None]:
        """Count the client of a parked pull as seen for the time of the block."""
        reader = self._readers.get((request.group, request.topic, request.queue))
        if reader is None or reader.client_id != request.client_id:
            yield
            return
        reader.parked += 1
        try:
            yield
        finally:
            reader.parked -= 1
            reader.seen_ms = self._clock.monotonic_ms()

    def leave(self, group: str, client_id: str) -> list[tuple[str, int]]:
        """Take access from a client that is gone; return the queues that it had."""
        keys = sorted(self._keys_of.get(group, ()))
        mine = [key for key in keys if self._readers[key].client_id == client_id]
        for key in mine:
            # What was delivered stays known; nobody, of no client id, has access.
            self._hand_over(key, "")
        return [(topic, queue) for _, topic, queue in mine]

    def has_access(self, group: str, topic: str, queue: int, client_id: str) -> bool:
        """Say whether a client is the one that reads the queue for the group."""
        reader = self._readers.get((group, topic, queue))
        return reader is not None and reader.client_id == client_id

    def delivered(self, group: str, topic: str, queue: int) -> int | None:
        """Return one past the newest message pulled for the group; None when that is not known."""
        reader = self._readers.get((group, topic, queue))
        return None if reader is None else reader.delivered

    def queues(self) -> Iterator[_Key]:
        """Iterate over group, topic and queue of what was pulled and is remembered."""
        return iter(list(self._readers))

    def _seen(self, key: _Key, client_id: str) -> _Reader:
        """Return the queue's reader, which is the client itself where there was none."""
        reader = self._readers.get(key)
        if reader is not None:
            self._readers.move_to_end(key)
            return reader
        if len(self._readers) >= self._readers_max:
            silent, _ = self._readers.popitem(last=False)
            keys = self._keys_of[silent[0]]
            keys.discard(silent)
            if not keys:
                del self._keys_of[silent[0]]
        reader = _Reader(client_id=client_id, seen_ms=self._clock.monotonic_ms())
        self._readers[key] = reader
        self._keys_of.setdefault(key[0], set()).add(key)
        return reader

    def _hand_over(self, key: _Key, client_id: str) -> None:
        # A new value: a pull that is still parked for the client before must not count for this
        # one.
        self._readers[key] = _Reader(
            client_id=client_id,
            seen_ms=self._clock.monotonic_ms(),
            delivered=self._readers[key].delivered,
        )

    def _is_drained(self, key: _Key, reader: _Reader) -> bool:
        if reader.client_delivered is None:
            return True
        progress = self._progress.get(key)
        return progress is not None and progress.floor >= reader.client_delivered

    def _is_over(self, reader: _Reader, hold_ms: int) -> bool:
        return not reader.parked and self._clock.monotonic_ms() - reader.seen_ms >= hold_ms
