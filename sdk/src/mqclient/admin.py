"""Topics and progress of groups, for threads and for asyncio: two faces of the same calls."""

from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from mqclient.caring import AsyncGroupCare, GroupCare
from mqclient.clock import Clock, SystemClock
from mqclient.errors import InvalidArgument
from mqclient.lives import MessageLife
from mqclient.names import checked_name
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import DEFAULT_SERVER, Endpoint
from mqclient.protocol.plans import (
    Patience,
    all_dead_letters,
    all_group_offsets,
    all_groups,
    all_lite_topics,
    all_topics,
    persistently,
)
from mqclient.searching import SearchResult, Wanted
from mqclient.transport.aio import AsyncPool
from mqclient.transport.blocking import Pool
from mqclient.values import (
    DeadLetter,
    GroupInfo,
    GroupLag,
    LiteTopic,
    QueueOffset,
    RetryPolicy,
    TopicInfo,
)


class Admin(GroupCare):
    """Topics, and what groups are about: members, progress, retries, dead letters."""

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        token: str | None = None,
        timeout_s: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        endpoint = Endpoint.of(server, token)
        self._pool = Pool(endpoint, clock=clock)
        self._calls = Calls(endpoint)
        self._patience = Patience(clock=clock, backoff=Backoff(), timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def create_topic(
        self,
        topic: str,
        *,
        queue_count: int = 4,
        topic_type: str = "MIXED",
        expires_ms: int | None = None,
        retention_ms: int | None = None,
        cleanup: str | None = None,
    ) -> None:
        """Create a topic, or change the one that exists; raise MqError.

        A topic nobody used for `expires_ms` is deleted by the broker; messages are hidden after
        `retention_ms`. With `cleanup` "compact" the newest message of each key is kept for ever;
        it is fixed when the topic is made. None keeps what holds.
        """
        call = self._calls.create_topic(
            topic,
            queue_count=queue_count,
            topic_type=topic_type,
            expires_ms=expires_ms,
            retention_ms=retention_ms,
            cleanup=cleanup,
        )
        self._pool.run(persistently(call, self._patience))

    def update_topic(
        self,
        topic: str,
        *,
        queue_count: int | None = None,
        topic_type: str | None = None,
        expires_ms: int | None = None,
        retention_ms: int | None = None,
    ) -> None:
        """Change what is not None of a topic; raise MqError. A topic that is not there is made.

        A time of 0 takes the topic's own back.
        """
        call = self._calls.update_topic(
            topic,
            queue_count=queue_count,
            topic_type=topic_type,
            expires_ms=expires_ms,
            retention_ms=retention_ms,
        )
        self._pool.run(persistently(call, self._patience))

    def describe_topic(self, topic: str) -> TopicInfo:
        """Return a topic with the range of each queue; raise UnknownTopic."""
        return self._pool.run(persistently(self._calls.describe_topic(topic), self._patience))

    def list_topics(self) -> list[TopicInfo]:
        """Return every topic."""
        return self._pool.run(all_topics(self._calls, self._patience))

    def lite_topics(self, topic: str) -> list[LiteTopic]:
        """Return the lite topics of a parent by name; raise UnknownTopic.

        Raises InvalidArgument for a topic that is not of the type LITE.
        """
        checked_name(topic, "topic")
        return self._pool.run(all_lite_topics(self._calls, topic, self._patience))

    def delete_topic(self, topic: str, *, reason: str = "", even_in_use: bool = False) -> None:
        """Delete a topic with its messages; the reason is kept in the audit log.

        Raises UnknownTopic, and Conflict where groups read it, unless it is to go `even_in_use`.
        """
        call = self._calls.delete_topic(topic, reason=reason, even_in_use=even_in_use)
        self._pool.run(persistently(call, self._patience))

    def group_offsets(self, group: str) -> list[QueueOffset]:
        """Return how far a group is in every queue it has read."""
        checked_name(group, "group")
        return self._pool.run(all_group_offsets(self._calls, group, self._patience))

    def group_lag(self, group: str) -> GroupLag:
        """Return what a group has left to do, in lite topics too; raise MqError.

        A group that nobody knows has nothing.
        """
        return self._pool.run(persistently(self._calls.group_lag(group), self._patience))

    def list_groups(self) -> list[str]:
        """Return the name of every group."""
        return self._pool.run(all_groups(self._calls, self._patience))

    def describe_group(self, group: str) -> GroupInfo:
        """Return a group's members with their queues; raise NotFound."""
        return self._pool.run(persistently(self._calls.describe_group(group), self._patience))

    def set_retry(
        self,
        group: str,
        *,
        retry_max: int | None = None,
        retry_policy: RetryPolicy | None = None,
        retry_delays_ms: Sequence[int] | None = None,
    ) -> None:
        """Decide how often and when a group's failed messages come again; raise MqError.

        `retry_delays_ms` belong to the policy CUSTOM. What is None keeps what holds.
        """
        call = self._calls.set_group(group, _decided(retry_max, retry_policy, retry_delays_ms))
        self._pool.run(persistently(call, self._patience))

    def dead_letters(self, group: str) -> list[DeadLetter]:
        """Return the messages a group gave up, the newest first."""
        checked_name(group, "group")
        return self._pool.run(all_dead_letters(self._calls, group, self._patience))

    def resend_dead_letters(
        self,
        group: str,
        letter_ids: Sequence[str] | None = None,
        *,
        topic: str | None = None,
        is_dry_run: bool = False,
    ) -> str:
        """Have dead letters sent again, all of a group without ids; return the job's id.

        Each goes to the topic it came from, or to `topic`. A dry run only counts. Raise MqError.
        """
        call = self._calls.resend_dead_letters(
            group, letter_ids, topic=topic, is_dry_run=is_dry_run
        )
        return self._pool.run(persistently(call, self._patience))

    def search(self, topic: str, **wanted: Unpack[Wanted]) -> SearchResult:
        """Find the messages of a topic that are all of what is given, the newest first; see Wanted.

        The result says where there is more. Raise MqError.
        """
        return self._pool.run(persistently(self._calls.search(topic, wanted), self._patience))

    def trace(self, message_id: str, *, topic: str | None = None) -> MessageLife:
        """Tell what became of a message, and what is not known of it; in one topic where named.

        Raise NotFound where nothing is known, and MqError.
        """
        call = self._calls.trace(message_id, topic)
        return self._pool.run(persistently(call, self._patience))

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


class AsyncAdmin(AsyncGroupCare):
    """Topics, and what groups are about, on one loop; see Admin."""

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        *,
        token: str | None = None,
        timeout_s: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        endpoint = Endpoint.of(server, token)
        self._pool = AsyncPool(endpoint, clock=clock)
        self._calls = Calls(endpoint)
        self._patience = Patience(clock=clock, backoff=Backoff(), timeout_s=timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def create_topic(
        self,
        topic: str,
        *,
        queue_count: int = 4,
        topic_type: str = "MIXED",
        expires_ms: int | None = None,
        retention_ms: int | None = None,
        cleanup: str | None = None,
    ) -> None:
        """Create a topic, or change the one that exists; raise MqError.

        A topic nobody used for `expires_ms` is deleted by the broker; messages are hidden after
        `retention_ms`. With `cleanup` "compact" the newest message of each key is kept for ever;
        it is fixed when the topic is made. None keeps what holds.
        """
        call = self._calls.create_topic(
            topic,
            queue_count=queue_count,
            topic_type=topic_type,
            expires_ms=expires_ms,
            retention_ms=retention_ms,
            cleanup=cleanup,
        )
        await self._pool.run(persistently(call, self._patience))

    async def update_topic(
        self,
        topic: str,
        *,
        queue_count: int | None = None,
        topic_type: str | None = None,
        expires_ms: int | None = None,
        retention_ms: int | None = None,
    ) -> None:
        """Change what is not None of a topic; raise MqError. A topic that is not there is made.

        A time of 0 takes the topic's own back.
        """
        call = self._calls.update_topic(
            topic,
            queue_count=queue_count,
            topic_type=topic_type,
            expires_ms=expires_ms,
            retention_ms=retention_ms,
        )
        await self._pool.run(persistently(call, self._patience))

    async def describe_topic(self, topic: str) -> TopicInfo:
        """Return a topic with the range of each queue; raise UnknownTopic."""
        call = self._calls.describe_topic(topic)
        return await self._pool.run(persistently(call, self._patience))

    async def list_topics(self) -> list[TopicInfo]:
        """Return every topic."""
        return await self._pool.run(all_topics(self._calls, self._patience))

    async def lite_topics(self, topic: str) -> list[LiteTopic]:
        """Return the lite topics of a parent by name; see Admin."""
        checked_name(topic, "topic")
        return await self._pool.run(all_lite_topics(self._calls, topic, self._patience))

    async def delete_topic(
        self, topic: str, *, reason: str = "", even_in_use: bool = False
    ) -> None:
        """Delete a topic with its messages; the reason is kept in the audit log.

        Raises UnknownTopic, and Conflict where groups read it, unless it is to go `even_in_use`.
        """
        call = self._calls.delete_topic(topic, reason=reason, even_in_use=even_in_use)
        await self._pool.run(persistently(call, self._patience))

    async def group_offsets(self, group: str) -> list[QueueOffset]:
        """Return how far a group is in every queue it has read."""
        checked_name(group, "group")
        return await self._pool.run(all_group_offsets(self._calls, group, self._patience))

    async def group_lag(self, group: str) -> GroupLag:
        """Return what a group has left to do, in lite topics too; see Admin."""
        return await self._pool.run(persistently(self._calls.group_lag(group), self._patience))

    async def list_groups(self) -> list[str]:
        """Return the name of every group."""
        return await self._pool.run(all_groups(self._calls, self._patience))

    async def describe_group(self, group: str) -> GroupInfo:
        """Return a group's members with their queues; raise NotFound."""
        call = self._calls.describe_group(group)
        return await self._pool.run(persistently(call, self._patience))

    async def set_retry(
        self,
        group: str,
        *,
        retry_max: int | None = None,
        retry_policy: RetryPolicy | None = None,
        retry_delays_ms: Sequence[int] | None = None,
    ) -> None:
        """Decide how often and when a group's failed messages come again; raise MqError.

        `retry_delays_ms` belong to the policy CUSTOM. What is None keeps what holds.
        """
        call = self._calls.set_group(group, _decided(retry_max, retry_policy, retry_delays_ms))
        await self._pool.run(persistently(call, self._patience))

    async def dead_letters(self, group: str) -> list[DeadLetter]:
        """Return the messages a group gave up, the newest first."""
        checked_name(group, "group")
        return await self._pool.run(all_dead_letters(self._calls, group, self._patience))

    async def resend_dead_letters(
        self,
        group: str,
        letter_ids: Sequence[str] | None = None,
        *,
        topic: str | None = None,
        is_dry_run: bool = False,
    ) -> str:
        """Have dead letters sent again, all of a group without ids; return the job's id.

        Each goes to the topic it came from, or to `topic`. A dry run only counts. Raise MqError.
        """
        call = self._calls.resend_dead_letters(
            group, letter_ids, topic=topic, is_dry_run=is_dry_run
        )
        return await self._pool.run(persistently(call, self._patience))

    async def search(self, topic: str, **wanted: Unpack[Wanted]) -> SearchResult:
        """Find the messages of a topic that are all of what is given, the newest first; see Wanted.

        The result says where there is more. Raise MqError.
        """
        call = self._calls.search(topic, wanted)
        return await self._pool.run(persistently(call, self._patience))

    async def trace(self, message_id: str, *, topic: str | None = None) -> MessageLife:
        """Tell what became of a message, and what is not known of it; in one topic where named.

        Raise NotFound where nothing is known, and MqError.
        """
        call = self._calls.trace(message_id, topic)
        return await self._pool.run(persistently(call, self._patience))

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()


def _decided(
    retry_max: int | None, policy: RetryPolicy | None, delays_ms: Sequence[int] | None
) -> dict[str, object]:
    decided: dict[str, object] = {}
    if retry_max is not None:
        decided["retry_max"] = retry_max
    if policy is not None:
        decided["retry_policy"] = str(policy)
    if delays_ms is not None:
        decided["retry_delays_ms"] = list(delays_ms)
    if not decided:
        raise InvalidArgument("nothing is decided")
    return decided
