"""Consumer progress as consumers set it and operators read it. Knows groups' state and queues."""

from collections.abc import Sequence

from apps.engine.broker.accesslock import AccessLocks
from apps.engine.broker.catalog import Catalog
from apps.engine.broker.journal import Commit
from apps.engine.broker.names import check_group_name
from apps.engine.broker.recorder import Recorder
from apps.engine.broker.retryqueues import RetryQueues
from apps.engine.broker.state import ConsumerState
from apps.engine.derived.queueset import QueueSet
from apps.engine.errors import InvalidArgument, OffsetOutOfRange
from apps.engine.types import GroupProgress, OffsetCommit


class Offsets:
    """Commit and read progress."""

    def __init__(
        self,
        state: ConsumerState,
        recorder: Recorder,
        queues: QueueSet,
        catalog: Catalog,
        *,
        access: AccessLocks,
        retries: RetryQueues,
    ) -> None:
        """Bind to a store; `access` is told when an operator sets progress."""
        self._access = access
        self._retries = retries
        self._state = state
        self._recorder = recorder
        self._queues = queues
        self._catalog = catalog

    def commit(self, group: str, commits: Sequence[OffsetCommit], *, client_id: str = "") -> None:
        """Set progress; all commits are checked before the first is recorded.

        A member, that is with a client id, only moves progress forwards: what it commits late,
        twice or out of order changes nothing, so that no message settled once comes again. Only
        an operator, without one, moves it back. What the group was handed out of a queue whose
        progress is set is void. Raises InvalidName, InvalidArgument, UnknownTopic, UnknownQueue,
        NotPermitted or OffsetOutOfRange.
        """
        check_group_name(group)
        if not commits:
            raise InvalidArgument("there is no offset to commit")
        for commit in commits:
            self._catalog.readable(commit.topic, commit.queue)
            queue = self._queues.queue(commit.topic, commit.queue)
            # What a member has read may be deleted before it commits: that is late, not wrong.
            first = 0 if client_id else queue.min_offset
            if not first <= commit.queue_offset <= max(queue.min_offset, queue.visible):
                raise OffsetOutOfRange(
                    f"queue {commit.topic}/{commit.queue} holds offsets {queue.min_offset} to "
                    f"{queue.visible}, not {commit.queue_offset}"
                )
        for commit in commits:
            progress = self._state.progress.get((group, commit.topic, commit.queue))
            if client_id and progress is not None and commit.queue_offset <= progress.floor:
                continue
            if commit.queue_offset < self._queues.queue(commit.topic, commit.queue).min_offset:
                continue
            self._recorder.record(
                Commit(
                    group=group,
                    topic=commit.topic,
                    queue=commit.queue,
                    queue_offset=commit.queue_offset,
                )
            )
            if not client_id:
                self._access.rewind(group, commit.topic, commit.queue, commit.queue_offset)

    def progress(self, group: str | None) -> list[GroupProgress]:
        """Return progress of one group or all, by group, topic and queue.

        A group that has read any queue of a topic is listed with all of them. Its retry topic is
        listed once it held a message.
        """
        topics = self._catalog.snapshot.topics
        pairs = {pair for pair in self._state.read_topics if pair[1] in topics}
        pairs |= self._retries.pairs(group)
        return [
            self._progress_of(name, topic, queue)
            for name, topic in sorted(pairs)
            if group is None or name == group
            for queue in range(self._catalog.topic(topic).queue_count)
        ]

    def _progress_of(self, group: str, topic: str, number: int) -> GroupProgress:
        queue = self._queues.queue(topic, number)
        progress = self._state.progress.get((group, topic, number))
        found = map(self._state.leases.get, progress.leases if progress is not None else ())
        entries = [entry for entry in found if entry is not None]
        delivered = queue.min_offset if progress is None else progress.cursor
        max_offset = max(queue.visible, queue.min_offset)
        return GroupProgress(
            group=group,
            topic=topic,
            queue=number,
            committed=queue.min_offset if progress is None else progress.floor,
            delivered=delivered,
            in_flight=sum(len(entry.offsets) for entry in entries if entry.is_out),
            max_offset=max_offset,
            ready=max_offset
            - delivered
            + sum(len(entry.offsets) for entry in entries if not entry.is_out),
            lost=self._state.lost.get((group, topic, number), 0),
            unreadable=queue.lost_between(queue.min_offset, max_offset),
        )
