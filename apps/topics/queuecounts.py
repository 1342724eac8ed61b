"""How the number of a topic's queues changes while it runs. Pure: knows numbers, no row, no engine.

    queues        0 ........ write ........ target ........ queue_count
    are read      yes        yes            yes
    take messages yes        not yet        no more

A topic at rest has all three equal. One that grows with a drain waits with `write`, one that
shrinks with `queue_count`; both may be under way at once, when an operator changes his mind.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """Queues that take messages, that there will be, and that are read: in this order."""

    write: int
    target: int
    queue_count: int

    def __post_init__(self) -> None:
        """Hold what the database's constraint holds as well."""
        assert 1 <= self.write <= self.target <= self.queue_count

    @property
    def is_at_rest(self) -> bool:
        """Say whether nothing is left to change."""
        return self.write == self.queue_count


def at_rest(queue_count: int) -> QueueCounts:
    """Return the counts of a topic that does not change."""
    return QueueCounts(write=queue_count, target=queue_count, queue_count=queue_count)


def changed(counts: QueueCounts, wanted: int, *, drain: bool | None) -> QueueCounts:
    """Return the counts at once after somebody wants `wanted` queues.

    Growing with `drain` makes queues that are read and take nothing yet; without, they take
    messages at once. Shrinking always drains. The number that is under way already is left alone,
    so that a repeated request changes nothing; only a `drain` that is False, and not merely left
    out, then opens queues that wait.
    """
    if wanted == counts.target:
        return replace(counts, write=wanted) if drain is False else counts
    if wanted < counts.write:
        return QueueCounts(write=wanted, target=wanted, queue_count=counts.queue_count)
    return QueueCounts(
        write=counts.write if drain else wanted,
        target=wanted,
        queue_count=max(wanted, counts.queue_count),
    )


def settled(counts: QueueCounts, *, is_drained: bool, is_closed: bool) -> QueueCounts:
    """Return the counts after a look at the queues.

    `is_drained`: every group has committed all there is in the topic, so that queues that wait may
    take messages. `is_closed`: nothing is left to read from `target` on, so that those queues go.
    """
    return QueueCounts(
        write=counts.target if is_drained else counts.write,
        target=counts.target,
        queue_count=counts.target if is_closed else counts.queue_count,
    )
