"""Copies of one message put under it: its retries and dead letters, as attempts. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from apps.messages.seen import Role, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A message and its copies, the oldest first; `head` is None where the origin is not there."""

    topic: str
    message_id: str
    head: Seen | None
    copies: tuple[Seen, ...]

    @property
    def newest(self) -> Seen:
        """Return the one that was stored last."""
        last = self.copies[-1] if self.copies else self.head
        assert last is not None
        return last


def families(found: Iterable[Seen]) -> list[Family]:
    """Group messages by the one they came from, in the order in which each is met first.

    Two messages that only share an id, as one that was sent twice, are two families.
    """
    heads: dict[tuple[str, str], list[Seen]] = {}
    copies: dict[tuple[str, str], list[Seen]] = {}
    order: dict[tuple[str, str], None] = {}
    for one in found:
        origin = one.origin
        name = (origin.topic, origin.message_id)
        order.setdefault(name)
        is_copy = one.role in (Role.RETRY, Role.DEAD_LETTER, Role.RESENT)
        (copies if is_copy else heads).setdefault(name, []).append(one)
    grouped = []
    for name in order:
        own = heads.get(name, [])
        below = sorted(copies.get(name, ()), key=lambda one: one.record.log_offset)
        if not own and below and below[0].role is Role.RESENT:
            # Sent again to another topic it is there what an origin is.
            own, below = below[:1], below[1:]
        # The copies belong to the one that was there first.
        first = min(own, key=lambda one: one.record.log_offset, default=None)
        grouped += [
            Family(
                topic=name[0],
                message_id=name[1],
                head=one,
                copies=tuple(below) if one is first else (),
            )
            for one in own
        ]
        if first is None:
            grouped.append(
                Family(topic=name[0], message_id=name[1], head=None, copies=tuple(below))
            )
    return grouped
