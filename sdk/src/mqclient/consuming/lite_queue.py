"""One queue a lite pull consumer reads: what is here of it, and how far its caller is."""

from collections import deque

from mqclient.values import TopicQueue
from mqclient.wire.records import Message


class LiteQueue:
    """One assigned queue."""

    __slots__ = (
        "attempt", "bytes", "chunks", "committed", "count", "fetch_offset", "is_paused",
        "is_stale", "not_before_s", "place", "position", "ticket",
    )  # fmt: skip

    def __init__(self, place: TopicQueue, offset: int) -> None:
        self.place = place
        self.is_paused = False
        # The broker said that it is another member's; kept until the caller knows it.
        self.is_stale = False
        self.attempt = 0
        self.not_before_s = 0.0
        self.committed: int | None = None
        self.move(offset)

    def move(self, offset: int) -> None:
        """Go on at another offset; forget what was read ahead and what is under way."""
        self.fetch_offset = offset
        self.position = offset
        self.chunks: deque[tuple[list[Message], int]] = deque()
        self.count = 0
        self.bytes = 0
        self.ticket: object | None = None

    def keep(self, messages: list[Message], next_offset: int) -> None:
        """Add what was read; offsets that held nothing wanted count as passed."""
        self.fetch_offset = next_offset
        self.chunks.append((messages, next_offset))
        self.count += len(messages)
        self.bytes += sum(len(message.body) for message in messages)
        self._pass_empty()

    def hand_out(self, messages_max: int) -> list[Message]:
        """Take messages of the first chunk and move the position behind them."""
        messages, next_offset = self.chunks.popleft()
        taken, rest = messages[:messages_max], messages[messages_max:]
        if rest:
            self.chunks.appendleft((rest, next_offset))
        self.position = rest[0].queue_offset if rest else next_offset
        self.count -= len(taken)
        self.bytes -= sum(len(message.body) for message in taken)
        self._pass_empty()
        return taken

    def _pass_empty(self) -> None:
        while self.chunks and not self.chunks[0][0]:
            self.position = self.chunks.popleft()[1]
