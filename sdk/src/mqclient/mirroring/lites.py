"""The lite topics of a parent here, read for a mirror's group. Knows requests, nothing of there.

Which of them have something new is found by listing them. Where the group is in those is asked of
the broker each time and not kept here: a lite topic that is gone took the group's position along,
and one that has its name later begins anew.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from mqclient.consuming.settings import new_client_id
from mqclient.errors import OffsetOutOfRange
from mqclient.limits import MIB
from mqclient.mirroring.pace import Pace
from mqclient.mirroring.settings import MirrorSettings, Start
from mqclient.mirroring.sources import LOOK_S, Source
from mqclient.protocol.calls import Calls
from mqclient.protocol.plans import Patience, Plan, all_group_offsets, all_lite_topics, persistently
from mqclient.transport.blocking import Pool
from mqclient.values import ConsumeFrom, LiteTopic, QueueOffset, TopicQueue
from mqclient.wire.records import Message

T = TypeVar("T")

# Of many lite topics a look takes a while, and keeps the broker busy a tenth of the time at most.
_REST = 9
# So many positions are known at a time, and are as old as it takes to copy these lite topics.
_OPEN_MAX = 256
_TAKEN_BYTES_MAX = 4 * MIB


@dataclass(slots=True)
class _Open:
    """A lite topic that is being read, from `position` up to, not with, `end`."""

    topic: str
    position: int
    end: int


class LiteSource(Source):
    """Batches of several lite topics in turns; each of them is a lane."""

    def __init__(
        self,
        pool: Pool,
        calls: Calls,
        settings: MirrorSettings,
        pace: Pace,
        *,
        patience: Patience,
    ) -> None:
        """Read nothing yet; with `once` it ends after one look."""
        super().__init__(settings, pace)
        self._pool = pool
        self._calls = calls
        self._patience = patience
        self._client_id = new_client_id()
        # Of each lite topic where it ended and when it had its newest message, at the last look.
        self._seen: dict[str, tuple[int, str | None]] = {}
        self._pause_s = LOOK_S
        self._found: deque[LiteTopic] = deque()
        self._open: deque[_Open] = deque()
        self._moved: dict[str, int] = {}

    def begin(self) -> None:
        """Look, and record where the group begins in all there are, unless it has begun before.

        What comes later is copied from its beginning, whatever the start was.
        """
        self._look()
        settings = self._settings
        offsets = self._ask(lambda: all_group_offsets(self._calls, settings.group, self._patience))
        if any(one.topic == settings.topic for one in offsets):
            return
        begin, begin_ms = _begin_of(settings.start)
        places = [TopicQueue(one.topic, 0) for one in self._found]
        if begin is not ConsumeFrom.FIRST:
            for first in range(0, len(places), _OPEN_MAX):
                self._positions(places[first : first + _OPEN_MAX], begin, begin_ms)
        # In the parent's own queue there is never anything: a position there says that the group
        # has begun, also where there was no lite topic yet. It is the last to be recorded.
        self._positions([TopicQueue(settings.topic, 0)])

    def take(self) -> list[Message] | None:
        """Return the next messages, of up to as many lite topics as may be under way at a time."""
        if not self._open and not self._go_on():
            return None
        settings = self._settings
        messages: list[Message] = []
        if not self._open:
            return messages
        share = max(1, settings.batch // min(settings.in_flight, len(self._open)))
        size_bytes = 0
        for _ in range(len(self._open)):
            left = settings.batch - len(messages)
            if not left or size_bytes >= _TAKEN_BYTES_MAX:
                break
            some = self._read(self._open.popleft(), min(share, left))
            messages += some
            size_bytes += sum(len(message.body) for message in some)
        return messages

    def lane_of(self, message: Message) -> str | None:
        """Return the lite topic of a message."""
        return message.topic

    def commit(self) -> None:
        """Move the group behind what was taken; see Source."""
        offsets = [
            QueueOffset(topic=topic, queue=0, committed=position)
            for topic, position in self._moved.items()
        ]
        self._moved = {}
        try:
            self._commit(offsets)
        except OffsetOutOfRange:
            # Of one that is gone meanwhile there is no position any more; the others keep theirs.
            for one in offsets:
                with suppress(OffsetOutOfRange):
                    self._commit([one])

    def _go_on(self) -> bool:
        """Open some of what was found, or look for more first; return False at the end."""
        if not self._found:
            if self._settings.once:
                return False
            self._pace.stop.wait(self._pause_s)
            self._look()
        some = [self._found.popleft() for _ in range(min(len(self._found), _OPEN_MAX))]
        positions = self._positions([TopicQueue(one.topic, 0) for one in some]) if some else {}
        for one in some:
            position = positions[TopicQueue(one.topic, 0)]
            if position < one.max_offset:
                self._open.append(_Open(one.topic, position, one.max_offset))
        return True

    def _look(self) -> None:
        """Find what had a message since the last look."""
        topic, wanted = self._settings.topic, frozenset(self._settings.lites)
        began_s = self._patience.clock.steady_s()
        listed = self._ask(lambda: all_lite_topics(self._calls, topic, self._patience))
        self._pause_s = max(LOOK_S, _REST * (self._patience.clock.steady_s() - began_s))
        shown = [one for one in listed if not wanted or one.name in wanted]
        seen = {one.topic: (one.max_offset, one.newest_at) for one in shown}
        self._found += [one for one in shown if self._seen.get(one.topic) != seen[one.topic]]
        self._seen = seen

    def _read(self, one: _Open, most: int) -> list[Message]:
        """Return the next messages of a lite topic; one that has more is put back, at the end."""
        call = self._calls.pull(
            one.topic, 0, one.position, messages_max=most, bytes_max=_TAKEN_BYTES_MAX
        )
        pulled = self._ask(lambda: persistently(call, self._patience))
        if pulled.next_offset <= one.position:
            # It is gone; the next look finds what has its name by then.
            return []
        self._moved[one.topic] = one.position = pulled.next_offset
        if one.position < one.end:
            self._open.append(one)
        return pulled.messages

    def _positions(
        self,
        places: Sequence[TopicQueue],
        begin: ConsumeFrom = ConsumeFrom.FIRST,
        begin_ms: int | None = None,
    ) -> dict[TopicQueue, int]:
        """Return where the group is; where it is new, have it begin."""
        call = self._calls.begin_offsets(
            self._settings.group,
            self._client_id,
            places,
            consume_from=begin,
            consume_from_ms=begin_ms,
        )
        return self._ask(lambda: persistently(call, self._patience))

    def _commit(self, offsets: Iterable[QueueOffset]) -> None:
        # Without a client id, as whoever assigns queues by hand: the group has no members.
        call = self._calls.commit(self._settings.group, offsets)
        self._ask(lambda: persistently(call, self._patience))

    def _ask(self, plan_of: Callable[[], Plan[T]]) -> T:
        return self._pace.persist(lambda: self._pool.run(plan_of()), after=lambda: None)


def _begin_of(start: Start | None) -> tuple[ConsumeFrom, int | None]:
    if isinstance(start, int):
        return ConsumeFrom.TIMESTAMP, start
    return (ConsumeFrom.LAST if start == "latest" else ConsumeFrom.FIRST), None
