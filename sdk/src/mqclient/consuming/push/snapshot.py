"""What is here of one queue: read ahead, with a listener, unfinished. Knows no requests or clocks.

RocketMQ's process queue. A snapshot that is dropped is replaced, never used again: what listeners
still do with its messages counts for nothing but its last commit.
"""

from collections import deque
from itertools import islice

from mqclient.values import TopicQueue
from mqclient.wire.records import Message


class Snapshot:
    """One queue for as long as it is this member's. Its owner keeps the lock."""

    __slots__ = (
        "attempts", "blocked_reason", "bytes", "committed", "continuous_since_s", "epoch", "fresh",
        "is_dropped", "is_exhausted", "is_known", "is_lined", "is_overdue", "is_returning",
        "not_before_s", "place", "position", "pull_attempt", "retries", "running",
        "suspended_until_s", "ticket", "unfinished",
    )  # fmt: skip

    def __init__(self, place: TopicQueue, *, epoch: int | None = None) -> None:
        self.place = place
        self.epoch = epoch
        # Where the next pull begins; None until the broker has said where the group begins.
        self.position: int | None = None
        self.committed: int | None = None
        self.ticket: object | None = None
        self.not_before_s = 0.0
        self.pull_attempt = 0
        self.fresh: deque[Message] = deque()
        self.retries: deque[list[Message]] = deque()
        # By offset, ascending: pulls bring them so, and a retried message stays in its place.
        self.unfinished: dict[int, Message] = {}
        self.attempts: dict[int, int] = {}
        self.bytes = 0
        self.running = 0
        self.is_dropped = False
        self.is_lined = False
        self.is_exhausted = False
        self.is_overdue = False
        # Its first message is on its way to the dead letters.
        self.is_returning = False
        # Interceptors were told that it begins.
        self.is_known = False
        self.blocked_reason = ""
        self.suspended_until_s = 0.0
        self.continuous_since_s = 0.0

    @property
    def commit_offset(self) -> int | None:
        """Return the smallest unfinished offset, everything below is done; None before begin."""
        return next(iter(self.unfinished), self.position)

    @property
    def span(self) -> int:
        """Return how far the offsets read reach beyond the smallest unfinished one."""
        return 0 if self.position is None else self.position - (self.commit_offset or 0)

    def start(self, offset: int) -> None:
        """Read from here; everything below is done, and known to be by the broker."""
        self.position = offset
        self.committed = offset

    def arrive(self, messages: list[Message], next_offset: int) -> None:
        """Take what a pull brought; offsets it passed over are done."""
        self.position = next_offset
        self.fresh.extend(messages)
        self.unfinished.update((message.queue_offset, message) for message in messages)
        self.bytes += sum(len(message.body) for message in messages)

    def take_fresh(self, messages_max: int) -> list[Message]:
        """Take the first messages no listener has."""
        taken = list(islice(self.fresh, messages_max))
        for _ in taken:
            self.fresh.popleft()
        return taken

    def put_back(self, messages: list[Message]) -> None:
        """Put messages before the others again."""
        self.fresh.extendleft(reversed(messages))

    def finish(self, messages: list[Message]) -> None:
        """Forget messages that are done."""
        for message in messages:
            if self.unfinished.pop(message.queue_offset, None) is not None:
                self.bytes -= len(message.body)
                self.attempts.pop(message.queue_offset, None)

    def fail(self, messages: list[Message]) -> int:
        """Count a failed attempt of each; return how often the first has failed."""
        for message in messages:
            offset = message.queue_offset
            self.attempts[offset] = self.attempts.get(offset, 0) + 1
        return self.attempts[messages[0].queue_offset]

    def drop(self) -> None:
        """Let nothing of it begin any more; what listeners have stays unfinished."""
        self.is_dropped = True
        self.ticket = None
        self.fresh.clear()
        self.retries.clear()
