"""A broker of lists and dictionaries: slow, and obviously right. Knows nothing of the real one.

It does not predict which messages a receive picks; it judges what was handed out and says whether
anything allowed was held back. A copy of it taken at each sync is what a power cut must leave.
"""

from dataclasses import dataclass, field

Place = tuple[str, int]
GroupPlace = tuple[str, str, int]


@dataclass(slots=True)
class Handed:
    """One message of one group that was handed out and is not settled."""

    attempt: int
    due_ms: int
    token: str
    """Empty once the handle is void: the message was given back."""


@dataclass(slots=True)
class GroupQueue:
    """One group's view of one queue."""

    cursor: int = 0
    settled: set[int] = field(default_factory=set)
    handed: dict[int, Handed] = field(default_factory=dict)

    @property
    def committed(self) -> int:
        """Return the first offset that is not settled."""
        return next(o for o in range(self.cursor + 1) if o == self.cursor or o not in self.settled)


@dataclass(slots=True)
class Model:
    """What a store must contain. Times are on the monotonic clock, in milliseconds."""

    queues: dict[Place, list[bytes]] = field(default_factory=dict)
    visible: dict[Place, int] = field(default_factory=dict)
    groups: dict[GroupPlace, GroupQueue] = field(default_factory=dict)
    settled_tokens: dict[str, set[int]] = field(default_factory=dict)
    suspended: set[GroupPlace] = field(default_factory=set)

    def send(self, topic: str, queue: int, bodies: list[bytes]) -> int:
        """Store messages; return the queue offset of the first."""
        messages = self.queues.setdefault((topic, queue), [])
        messages.extend(bodies)
        return len(messages) - len(bodies)

    def show_all(self) -> None:
        """Let readers see everything, as after a sync."""
        self.visible = {place: len(messages) for place, messages in self.queues.items()}

    def of(self, group: str, topic: str, queue: int) -> GroupQueue:
        """Return a group's view of a queue."""
        return self.groups.setdefault((group, topic, queue), GroupQueue())

    def handed_out(
        self,
        group: str,
        topic: str,
        queue: int,
        *,
        token: str,
        attempt: int,
        offsets: list[int],
        bodies: list[bytes],
        now_ms: int,
        due_ms: int,
    ) -> None:
        """Judge one lease: AssertionError when any message of it was not allowed to go out."""
        assert (group, topic, queue) not in self.suspended, "handed out while suspended"
        view = self.of(group, topic, queue)
        messages = self.queues[topic, queue]
        assert offsets == sorted(set(offsets))
        for offset, body in zip(offsets, bodies, strict=True):
            assert offset < self.visible[topic, queue], "handed out before it was synced"
            assert body == messages[offset], "another body than was sent"
            assert offset not in view.settled, "handed out after it was settled"
            before = view.handed.get(offset)
            if before is None:
                assert offset == view.cursor, "a message was passed over"
                assert attempt == 1
                view.cursor += 1
            else:
                assert before.due_ms <= now_ms, "handed out while it was invisible"
                assert attempt == before.attempt + 1
            view.handed[offset] = Handed(attempt, due_ms, token)

    def available(self, group: str, topic: str, queue: int, *, now_ms: int) -> int:
        """Return how many messages a receive could hand out."""
        if (group, topic, queue) in self.suspended:
            return 0
        view = self.of(group, topic, queue)
        ready = sum(handed.due_ms <= now_ms for handed in view.handed.values())
        return ready + self.visible.get((topic, queue), 0) - view.cursor

    def holders(self, group: str, topic: str, queue: int, *, token: str) -> list[int]:
        """Return the offsets the token still holds, expired or not."""
        handed = self.of(group, topic, queue).handed
        return [offset for offset, item in handed.items() if item.token == token]

    def ack(
        self, group: str, topic: str, queue: int, offset: int, *, token: str, now_ms: int
    ) -> str:
        """Settle one message and return `ok` or `expired`."""
        view = self.of(group, topic, queue)
        if offset in self.settled_tokens.get(token, ()):
            # Settled under this very handle: the answer is the same as the first time, as long as
            # it is remembered; a restart may forget, so the caller accepts both.
            return "again"
        handed = view.handed.get(offset)
        if handed is None or handed.token != token or handed.due_ms <= now_ms:
            return "expired"
        del view.handed[offset]
        view.settled.add(offset)
        self.settled_tokens.setdefault(token, set()).add(offset)
        return "ok"

    def nack(
        self,
        group: str,
        topic: str,
        queue: int,
        offset: int,
        *,
        token: str,
        now_ms: int,
        due_ms: int,
    ) -> str:
        """Give one message back and return `ok` or `expired`."""
        handed = self.of(group, topic, queue).handed.get(offset)
        if handed is None or handed.token != token or handed.due_ms <= now_ms:
            return "expired"
        handed.token, handed.due_ms = "", due_ms
        return "ok"

    def extend(
        self,
        group: str,
        topic: str,
        queue: int,
        offset: int,
        *,
        token: str,
        new_token: str,
        now_ms: int,
        due_ms: int,
    ) -> str:
        """Keep one message for longer and return `ok` or `expired`."""
        handed = self.of(group, topic, queue).handed.get(offset)
        if handed is None or handed.token != token or handed.due_ms <= now_ms:
            return "expired"
        handed.token, handed.due_ms = new_token, due_ms
        return "ok"

    def commit(self, group: str, topic: str, queue: int, offset: int) -> None:
        """Everything below `offset` is settled, nothing from there on was handed out."""
        self.groups[group, topic, queue] = GroupQueue(
            cursor=offset, settled=set(range(offset)), handed={}
        )

    def skip(self, group: str, topic: str, queue: int) -> int:
        """Settle the first message that is not settled; return its offset."""
        view = self.of(group, topic, queue)
        head = view.committed
        view.handed.pop(head, None)
        view.settled.add(head)
        view.cursor = max(view.cursor, head + 1)
        return head
