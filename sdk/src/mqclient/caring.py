"""What operators do about a group's queues: two faces of the same calls, threads and asyncio."""

from collections.abc import Sequence

from mqclient.protocol.calls import Calls
from mqclient.protocol.care_calls import target_document
from mqclient.protocol.plans import Patience, persistently
from mqclient.transport.aio import AsyncPool
from mqclient.transport.blocking import Pool
from mqclient.values import OffsetsPreview, OffsetsReset, QueueCare, TopicQueue


class GroupCare:
    """Care and offsets, for threads."""

    _pool: Pool
    _calls: Calls
    _patience: Patience

    def suspend_queue(
        self, group: str, topic: str, queue: int, *, reason: str, expected_offset: int | None = None
    ) -> QueueCare:
        """Have a queue give a group nothing until it is resumed; raise MqError.

        With `expected_offset` only while the message there is at the head, else Conflict.
        """
        return self._care("suspend", group, topic, queue, expected_offset, reason)

    def resume_queue(
        self, group: str, topic: str, queue: int, *, reason: str, expected_offset: int | None = None
    ) -> QueueCare:
        """Let a suspended queue give its messages again; see `suspend_queue`."""
        return self._care("resume", group, topic, queue, expected_offset, reason)

    def skip_head(
        self, group: str, topic: str, queue: int, *, expected_offset: int, reason: str
    ) -> QueueCare:
        """Settle the message at the head of an ordered queue for the group, exactly that one.

        Safe to repeat. Raise HeadMoved when another is at the head, NotOrdered, or MqError.
        """
        return self._care("skip", group, topic, queue, expected_offset, reason)

    def park_head(
        self, group: str, topic: str, queue: int, *, expected_offset: int, reason: str
    ) -> QueueCare:
        """Make a dead letter of the head of an ordered queue, and go on; see `skip_head`."""
        return self._care("park", group, topic, queue, expected_offset, reason)

    def preview_offsets(
        self,
        group: str,
        target: str,
        *,
        time_ms: int | None = None,
        offset: int | None = None,
        shift: int | None = None,
        copy_from: str | None = None,
        topic: str | None = None,
        queues: Sequence[int] | None = None,
        moved_max: int | None = None,
    ) -> OffsetsPreview:
        """Return what having a group go on elsewhere would do; changes nothing. Raise MqError.

        `target` is earliest, latest, time, offset, shift or copy_from; each of the last four needs
        the value of that name. `moved_max` is how far the group may read on until it is applied.
        """
        document = target_document(
            target,
            time_ms=time_ms,
            offset=offset,
            shift=shift,
            copy_from=copy_from,
            topic=topic,
            queues=queues,
            moved_max=moved_max,
        )
        call = self._calls.preview_offsets(group, document)
        return self._pool.run(persistently(call, self._patience))

    def apply_offsets(self, group: str, token: str, *, reason: str) -> OffsetsReset:
        """Have a group go on as previewed; raise OffsetsMoved where it is elsewhere by now."""
        call = self._calls.apply_offsets(group, token, reason)
        return self._pool.run(persistently(call, self._patience))

    def undo_offsets(
        self, group: str, undo_id: str, *, reason: str, moved_max: int | None = None
    ) -> OffsetsReset:
        """Have a group go on where it was before a reset; raise OffsetsMoved as applying does."""
        call = self._calls.undo_offsets(group, undo_id, reason, moved_max)
        return self._pool.run(persistently(call, self._patience))

    def _care(
        self, act: str, group: str, topic: str, queue: int, offset: int | None, reason: str
    ) -> QueueCare:
        place = TopicQueue(topic, queue)
        call = self._calls.care(act, group, place, expected_offset=offset, reason=reason)
        return self._pool.run(persistently(call, self._patience))


class AsyncGroupCare:
    """Care and offsets, on one loop; see GroupCare."""

    _pool: AsyncPool
    _calls: Calls
    _patience: Patience

    async def suspend_queue(
        self, group: str, topic: str, queue: int, *, reason: str, expected_offset: int | None = None
    ) -> QueueCare:
        """Have a queue give a group nothing until it is resumed; see GroupCare."""
        return await self._care("suspend", group, topic, queue, expected_offset, reason)

    async def resume_queue(
        self, group: str, topic: str, queue: int, *, reason: str, expected_offset: int | None = None
    ) -> QueueCare:
        """Let a suspended queue give its messages again; see GroupCare."""
        return await self._care("resume", group, topic, queue, expected_offset, reason)

    async def skip_head(
        self, group: str, topic: str, queue: int, *, expected_offset: int, reason: str
    ) -> QueueCare:
        """Settle the message at the head of an ordered queue for the group; see GroupCare."""
        return await self._care("skip", group, topic, queue, expected_offset, reason)

    async def park_head(
        self, group: str, topic: str, queue: int, *, expected_offset: int, reason: str
    ) -> QueueCare:
        """Make a dead letter of the head of an ordered queue, and go on; see GroupCare."""
        return await self._care("park", group, topic, queue, expected_offset, reason)

    async def preview_offsets(
        self,
        group: str,
        target: str,
        *,
        time_ms: int | None = None,
        offset: int | None = None,
        shift: int | None = None,
        copy_from: str | None = None,
        topic: str | None = None,
        queues: Sequence[int] | None = None,
        moved_max: int | None = None,
    ) -> OffsetsPreview:
        """Return what having a group go on elsewhere would do; see GroupCare."""
        document = target_document(
            target,
            time_ms=time_ms,
            offset=offset,
            shift=shift,
            copy_from=copy_from,
            topic=topic,
            queues=queues,
            moved_max=moved_max,
        )
        call = self._calls.preview_offsets(group, document)
        return await self._pool.run(persistently(call, self._patience))

    async def apply_offsets(self, group: str, token: str, *, reason: str) -> OffsetsReset:
        """Have a group go on as previewed; see GroupCare."""
        call = self._calls.apply_offsets(group, token, reason)
        return await self._pool.run(persistently(call, self._patience))

    async def undo_offsets(
        self, group: str, undo_id: str, *, reason: str, moved_max: int | None = None
    ) -> OffsetsReset:
        """Have a group go on where it was before a reset; see GroupCare."""
        call = self._calls.undo_offsets(group, undo_id, reason, moved_max)
        return await self._pool.run(persistently(call, self._patience))

    async def _care(
        self, act: str, group: str, topic: str, queue: int, offset: int | None, reason: str
    ) -> QueueCare:
        place = TopicQueue(topic, queue)
        call = self._calls.care(act, group, place, expected_offset=offset, reason=reason)
        return await self._pool.run(persistently(call, self._patience))
