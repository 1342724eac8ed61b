"""Requests of a group's members: being there, locks, where to begin, progress.

Knows addresses and documents; what a member does with the answers is the consumers' affair.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from mqclient.names import checked_name, path_part
from mqclient.protocol.endpoint import API
from mqclient.protocol.requests import JSON, Call, Requests, nothing, number
from mqclient.values import (
    BlockedHead,
    ConsumeFrom,
    Filter,
    GroupInfo,
    GroupLag,
    GroupMember,
    LiteLag,
    LockAnswer,
    LockGrant,
    MemberAnswer,
    MessageModel,
    QueueLag,
    QueueOffset,
    Sql,
    Subscription,
    TopicQueue,
)


class GroupCalls(Requests):
    """Builds the requests of a group."""

    def heartbeat(
        self,
        group: str,
        client_id: str,
        subscriptions: Iterable[Subscription],
        *,
        generation: int,
        wait_ms: int,
        model: MessageModel = MessageModel.CLUSTERING,
        ordered: bool = False,
        strategy: str | None = None,
        site: str = "",
        blocked: Iterable[BlockedHead] = (),
    ) -> Call[MemberAnswer]:
        """Join or stay; the broker may hold it while `generation` is the group's."""
        document: dict[str, object] = {
            "subscriptions": [
                {"topic": item.topic, **filter_fields(item.filter)} for item in subscriptions
            ],
            "model": str(model),
            "ordered": ordered,
            "site": site,
            "generation": generation,
            "wait_ms": wait_ms,
            "blocked": [
                {
                    "topic": head.topic,
                    "queue": head.queue,
                    "offset": str(head.queue_offset),
                    "attempts": head.attempts,
                    "reason": head.reason,
                }
                for head in blocked
            ],
        }
        if strategy is not None:
            document["strategy"] = str(strategy)
        target = f"{_group(group)}/members/{path_part(client_id)}:heartbeat"
        return self._json("POST", target, document, _member_answer, wait_ms=wait_ms)

    def leave(self, group: str, client_id: str) -> Call[None]:
        """Leave at once; the member's locks are released."""
        target = f"{_group(group)}/members/{path_part(client_id)}:leave"
        return Call(self._json_buffers("POST", target, {}, JSON), nothing)

    def acquire_locks(
        self, group: str, client_id: str, places: Iterable[TopicQueue]
    ) -> Call[LockAnswer]:
        """Take or renew the locks of queues."""
        return self._locks(group, client_id, places, "acquire")

    def release_locks(
        self,
        group: str,
        client_id: str,
        places: Iterable[TopicQueue],
        *,
        epochs: Mapping[TopicQueue, int] | None = None,
    ) -> Call[LockAnswer]:
        """Give locks back; one with an epoch only if it is still the lock of that epoch."""
        return self._locks(group, client_id, places, "release", epochs)

    def begin_offsets(
        self,
        group: str,
        client_id: str,
        places: Sequence[TopicQueue],
        *,
        consume_from: ConsumeFrom | None = None,
        consume_from_ms: int | None = None,
    ) -> Call[dict[TopicQueue, int]]:
        """Ask where the group goes on, or begins, in each queue."""
        document: dict[str, object] = {"client_id": client_id, "queues": _places(places)}
        if consume_from is not None:
            document["consume_from"] = str(consume_from)
        if consume_from_ms is not None:
            document["consume_from_time"] = consume_from_ms
        return self._json("POST", f"{_group(group)}/offsets:begin", document, _begins)

    def commit(
        self,
        group: str,
        offsets: Iterable[QueueOffset],
        *,
        client_id: str = "",
        generation: int | None = None,
        epochs: Mapping[TopicQueue, int] | None = None,
    ) -> Call[None]:
        """Say that a group is done with everything below the offsets; all of them or none.

        With a `generation` the queues must be assigned to the client, with an epoch be locked so.
        """
        items: list[dict[str, object]] = []
        for item in offsets:
            if item.committed is None:
                continue
            fields = {"topic": item.topic, "queue": item.queue, "offset": str(item.committed)}
            epoch = (epochs or {}).get(TopicQueue(item.topic, item.queue))
            items.append(fields if epoch is None else {**fields, "epoch": epoch})
        document: dict[str, object] = {"offsets": items}
        if client_id:
            document["client_id"] = client_id
        if generation is not None:
            document["generation"] = generation
        target = f"{_group(group)}/offsets:commit"
        return Call(self._json_buffers("POST", target, document, JSON), nothing)

    def group_offsets(
        self, group: str, cursor: str | None = None
    ) -> Call[tuple[list[QueueOffset], str | None]]:
        """Read a page of a group's progress, and the cursor of the next page."""
        return self._get(f"{_group(group)}/offsets{page(cursor)}", _offset_page)

    def group_lag(self, group: str) -> Call[GroupLag]:
        """Read a group's backlog in what it reads; an unknown group has none."""
        checked_name(group, "group")
        return self._get(f"{_group(group)}/lag", _group_lag)

    def list_groups(self, cursor: str | None = None) -> Call[tuple[list[str], str | None]]:
        """Read a page of the groups' names, and the cursor of the next page."""
        return self._get(f"{API}/groups{page(cursor)}", _group_page)

    def describe_group(self, group: str) -> Call[GroupInfo]:
        """Read a group's members and its assignment."""
        checked_name(group, "group")
        return self._get(_group(group), _group_info)

    def offset_at(self, topic: str, queue: int, time_ms: int) -> Call[int]:
        """Ask for the first offset stored at or after a wall time."""
        target = f"{API}/topics/{path_part(topic)}/queues/{queue}/offset?time={time_ms}"
        return self._get(target, lambda document: int(document["offset"]))

    def _locks(
        self,
        group: str,
        client_id: str,
        places: Iterable[TopicQueue],
        verb: str,
        epochs: Mapping[TopicQueue, int] | None = None,
    ) -> Call[LockAnswer]:
        queues = [
            {**item, "epoch": epochs[place]} if epochs and place in epochs else item
            for place in places
            for item in _places([place])
        ]
        document = {"client_id": client_id, "queues": queues}
        return self._json("POST", f"{_group(group)}/locks:{verb}", document, _lock_answer)


def filter_fields(wanted: Filter) -> dict[str, str]:
    """Return a filter as requests carry it."""
    if isinstance(wanted, Sql):
        return {"filter": wanted.expression, "filter_type": "SQL92"}
    return {"filter": wanted}


def page(cursor: str | None) -> str:
    """Return the query of a list's page."""
    return "" if cursor is None else "?" + urlencode({"cursor": cursor})


def _group(group: str) -> str:
    return f"{API}/groups/{path_part(group)}"


def _places(places: Iterable[TopicQueue]) -> list[dict[str, object]]:
    return [{"topic": place.topic, "queue": place.queue} for place in places]


def _place(item: Any) -> TopicQueue:  # A JSON document.
    return TopicQueue(item["topic"], int(item["queue"]))


def _assigned(document: Any) -> Iterable[TopicQueue]:  # A JSON document.
    for topic, queues in document.items():
        for queue in queues:
            yield TopicQueue(topic, int(queue))


def _member_answer(document: Any) -> MemberAnswer:  # A JSON document.
    return MemberAnswer(
        generation=int(document["generation"]),
        queues=frozenset(_assigned(document["assignment"])),
        heartbeat_ms=int(document["heartbeat_ms"]),
        retry_max=document.get("retry_max"),
    )


def _lock_answer(document: Any) -> LockAnswer:  # A JSON document.
    return LockAnswer(
        locked=tuple(
            LockGrant(
                place=_place(item),
                epoch=int(item["epoch"]),
                expires_in_ms=int(item["expires_in_ms"]),
            )
            for item in document["locked"]
        ),
        refused=tuple((_place(item), str(item.get("owner"))) for item in document["refused"]),
    )


def _begins(document: Any) -> dict[TopicQueue, int]:  # A JSON document.
    return {_place(item): int(item["offset"]) for item in document["offsets"]}


def _offset_page(document: Any) -> tuple[list[QueueOffset], str | None]:  # A JSON document.
    items = [
        QueueOffset(
            topic=item["topic"],
            queue=int(item["queue"]),
            committed=number(item.get("committed")),
            delivered=number(item.get("delivered")),
            max_offset=number(item.get("max_offset")),
        )
        for item in document["items"]
    ]
    return items, document.get("next_cursor")


def _group_lag(document: Any) -> GroupLag:  # A JSON document.
    total = document["total"]
    return GroupLag(
        queues=tuple(
            QueueLag(
                topic=item["topic"],
                queue=int(item["queue"]),
                lag=int(item["lag"]),
                in_flight=int(item["in_flight"]),
                ready=number(item["ready"]),
                oldest_age_ms=item["oldest_age_ms"],
            )
            for item in document["items"]
        ),
        lites=tuple(
            LiteLag(
                topic=item["topic"],
                lag=number(item["lag"]),
                topics_behind=item["topics_behind"],
                in_flight=item["in_flight"],
                ready=number(item["ready"]),
                oldest_age_ms=item["oldest_age_ms"],
            )
            for item in document["lites"]
        ),
        lag=number(total["lag"]),
        retry_lag=int(total["retry_lag"]),
        lite_lag=number(total["lite_lag"]),
        oldest_age_ms=total["oldest_age_ms"],
    )


def _group_page(document: Any) -> tuple[list[str], str | None]:  # A JSON document.
    return [item["group"] for item in document["items"]], document.get("next_cursor")


def _group_info(document: Any) -> GroupInfo:  # A JSON document.
    assignment = document.get("assignment") or {}
    return GroupInfo(
        group=document["group"],
        generation=number(document.get("generation")),
        members=tuple(
            GroupMember(
                client_id=item["client_id"],
                subscriptions=tuple(
                    (wanted["topic"], wanted.get("filter") or "*")
                    for wanted in item.get("subscriptions") or ()
                ),
                queues=tuple(sorted(_assigned(assignment.get(item["client_id"]) or {}))),
            )
            for item in document.get("members") or ()
        ),
    )
