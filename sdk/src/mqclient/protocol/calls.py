"""Every request of the contract, described once with the reading of its answer.

Knows addresses, documents and media types; who carries the bytes is the transports' affair.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from mqclient.errors import ProtocolViolation
from mqclient.names import checked_name, path_part
from mqclient.protocol.care_calls import CareCalls
from mqclient.protocol.endpoint import API, Endpoint, end_head
from mqclient.protocol.failure_calls import FailureCalls, cut
from mqclient.protocol.group_calls import filter_fields, page
from mqclient.protocol.later_calls import LaterCalls
from mqclient.protocol.life_calls import LifeCalls
from mqclient.protocol.requests import JSON, Call, from_json, nothing, number, problem_of
from mqclient.protocol.search_calls import SearchCalls
from mqclient.times import parsed_ms
from mqclient.values import (
    AckMode,
    BatchReceipt,
    Filter,
    LiteTopic,
    QueueRange,
    Reader,
    Settled,
    Settlement,
    TopicInfo,
)
from mqclient.wire.batches import (
    MEDIA_TYPE,
    Pulled,
    Received,
    pack_batch,
    unpack_appended,
    unpack_pulled,
    unpack_received,
)
from mqclient.wire.http1 import Response
from mqclient.wire.lane import LaneSend, send_flags

__all__ = ["Call", "Calls", "problem_of"]

# The broker's most: it looks at all of a parent's for each page.
_LITES_OF_PAGE = 1_000


def _topic_info(item: Any) -> TopicInfo:  # A JSON document.
    return TopicInfo(
        topic=item["topic"],
        type=item["type"],
        queue_count=int(item["queue_count"]),
        perm=item.get("perm"),
        queues=tuple(
            QueueRange(
                queue=int(queue["queue"]),
                min_offset=number(queue.get("min_offset")),
                max_offset=number(queue.get("max_offset")),
                kept_messages=number(queue.get("kept_messages")),
                compacted_at=queue.get("compacted_at"),
            )
            for queue in item.get("queues") or ()
        ),
        write_queue_count=number(item.get("write_queue_count")),
        retention_ms=number(item.get("retention_ms")),
        cleanup=item.get("cleanup") or "delete",
    )


def _topic_page(document: Any) -> tuple[list[TopicInfo], str | None]:  # A JSON document.
    return [_topic_info(item) for item in document["items"]], document.get("next_cursor")


def _lite_page(document: Any) -> tuple[list[LiteTopic], str | None]:  # A JSON document.
    items = [
        LiteTopic(
            name=item["name"],
            topic=item["topic"],
            min_offset=int(item["min_offset"]),
            max_offset=int(item["max_offset"]),
            newest_at=item["newest_at"],
            subscribers=int(item["subscribers"]),
        )
        for item in document["items"]
    ]
    return items, document["next_cursor"]


def _settlements(document: Any) -> list[Settlement]:  # A JSON document.
    return [
        Settlement(
            index=int(item["index"]),
            status=Settled(item["status"]),
            receipt_handle=item.get("receipt_handle"),
        )
        for item in document["results"]
    ]


def _reader_fields(reader: Reader) -> dict[str, object]:
    fields: dict[str, object] = {"group": reader.group, "client_id": reader.client_id}
    if reader.generation is not None:
        fields["generation"] = reader.generation
    if reader.epoch is not None:
        fields["epoch"] = reader.epoch
    return fields


def _delayed(document: Any) -> BatchReceipt:  # A JSON document.
    count = int(document["count"])
    handles = document.get("recall_handles") or [None] * count
    moments = document.get("deliver_at")
    # A repeat is answered with what it was; its times may not be known any more.
    due_ms = [None] * count if moments is None else [parsed_ms(text) for text in moments]
    if len(handles) != count or len(due_ms) != count:
        raise ValueError(f"{count} messages with {len(handles)} handles and {len(due_ms)} times")
    return BatchReceipt(
        count=count,
        queue_offset=number(document["offset"]),
        store_time_ms=parsed_ms(document["store_time"]),
        recall_handles=tuple(handles),
        deliver_at_ms=tuple(due_ms),
    )


_read_delayed = from_json(_delayed)


def _appended(count: int, *, is_delayed: bool, response: Response) -> BatchReceipt:
    receipt = _read_delayed(response) if is_delayed else unpack_appended(response.body)
    if receipt.count != count:
        raise ProtocolViolation(f"{count} messages were sent, {receipt.count} confirmed")
    return receipt


_ReadReceipt = Callable[[Response], BatchReceipt | None]


class _SendTarget(NamedTuple):
    """How HTTP and the lane say where a batch goes, and how one message's answer is read."""

    head_start: bytes
    lane: LaneSend
    read_one: _ReadReceipt


def _receipt_reader(count: int, ack: AckMode | None, *, is_delayed: bool) -> _ReadReceipt:
    if ack is AckMode.ONEWAY:
        return nothing
    return lambda response: _appended(count, is_delayed=is_delayed, response=response)


class Calls(FailureCalls, CareCalls, LaterCalls, LifeCalls, SearchCalls):
    """Builds the requests to one broker."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._send_targets: dict[tuple[str, int, AckMode | None, bool], _SendTarget] = {}

    def ready(self) -> Call[None]:
        """Ask whether the broker serves."""
        return self._bare("GET", "/readyz", nothing)

    def send_batch(
        self,
        topic: str,
        queue: int,
        records: Sequence[bytes],
        ack: AckMode | None,
        *,
        is_repeatable: bool = False,
        is_delayed: bool = False,
    ) -> Call[BatchReceipt | None]:
        """Store packed records of one topic and queue; None after a one-way send.

        With `ack` None the store's own mode holds. A caller that bears to have them stored twice
        says that they are repeatable. All are delayed or none.
        """
        key = topic, queue, ack, is_delayed
        target = self._send_targets.get(key)
        if target is None:
            target = self._send_targets[key] = self._send_target(*key)
        first, payload = pack_batch(records)
        head = end_head(target.head_start, len(first) + len(payload))
        count = len(records)
        read = target.read_one if count == 1 else _receipt_reader(count, ack, is_delayed=is_delayed)
        return Call((head, first, payload), read, is_repeatable, 0, target.lane)

    def send_json(
        self, topic: str, messages: Sequence[dict[str, object]], ack: AckMode = AckMode.SYNC
    ) -> Call[list[dict[str, Any]]]:
        """Store messages described in JSON; the answer's `results`, one for each."""
        target = f"{API}/topics/{path_part(topic)}/messages"
        document: dict[str, object] = {"messages": list(messages), "ack": str(ack)}
        return self._json("POST", target, document, _results, is_repeatable=False)

    def pull(
        self,
        topic: str,
        queue: int,
        queue_offset: int,
        *,
        messages_max: int,
        bytes_max: int,
        wait_ms: int = 0,
        wanted: Filter = "*",
        reader: Reader | None = None,
    ) -> Call[Pulled]:
        """Read a queue from an offset, for a member of a group or for nobody."""
        query = f"offset={queue_offset}&max={messages_max}&max_bytes={bytes_max}&wait_ms={wait_ms}"
        if wanted != "*":
            query += "&" + urlencode(filter_fields(wanted), quote_via=quote, safe="")
        if reader is not None:
            query += "&" + urlencode(_reader_fields(reader), quote_via=quote, safe="")
        target = f"{API}/topics/{path_part(topic)}/queues/{queue}/messages?{query}"
        head = self._endpoint.head("GET", target, accept=MEDIA_TYPE, content_type="", body_bytes=0)
        return Call((head,), lambda response: unpack_pulled(response.body), wait_ms=wait_ms)

    def receive(
        self,
        group: str,
        topics: Sequence[str],
        *,
        messages_max: int,
        wait_ms: int,
        invisible_ms: int,
        wanted: Filter = "*",
        client_id: str = "",
        ordered: bool = False,
        high_queue_first: bool = False,
    ) -> Call[Received]:
        """Take messages of a group for a while; with `high_queue_first` a queue is a priority."""
        document: dict[str, object] = {
            "topics": [checked_name(topic, "topic") for topic in topics],
            "max": messages_max,
            "wait_ms": wait_ms,
            "invisible_ms": invisible_ms,
            **filter_fields(wanted),
            "client_id": client_id,
            "ordered": ordered,
            "high_queue_first": high_queue_first,
        }
        buffers = self._json_buffers(
            "POST", f"{API}/groups/{path_part(group)}/messages:receive", document, MEDIA_TYPE
        )
        return Call(
            buffers,
            lambda response: unpack_received(response.body),
            is_repeatable=False,
            wait_ms=wait_ms,
        )

    def ack(self, group: str, handles: Sequence[str]) -> Call[list[Settlement]]:
        """Settle messages for good."""
        return self._settle(group, "ack", {"receipt_handles": list(handles)})

    def nack(
        self,
        group: str,
        handles: Sequence[str],
        *,
        delay_ms: int | None = None,
        delay_level: int | None = None,
        reason: str = "",
    ) -> Call[list[Settlement]]:
        """Give messages back, visible after `delay_ms` or that of a level, else as the group says.

        Level -1 makes them dead letters.
        """
        document: dict[str, object] = {"receipt_handles": list(handles), "reason": cut(reason)}
        if delay_ms is not None:
            document["delay_ms"] = delay_ms
        if delay_level is not None:
            document["delay_level"] = delay_level
        return self._settle(group, "nack", document)

    def extend(
        self, group: str, handles: Sequence[str], *, invisible_ms: int
    ) -> Call[list[Settlement]]:
        """Keep messages for `invisible_ms` from here on; the answer has new handles.

        Not repeatable: the first carrying out retires the handles the second would name.
        """
        document = {"receipt_handles": list(handles), "invisible_ms": invisible_ms}
        return self._settle(group, "extend", document, is_repeatable=False)

    def create_topic(
        self,
        topic: str,
        *,
        queue_count: int = 4,
        topic_type: str = "MIXED",
        expires_ms: int | None = None,
        retention_ms: int | None = None,
        cleanup: str | None = None,
    ) -> Call[None]:
        """Create or change a topic; one unused for `expires_ms` is deleted by the broker."""
        return self.update_topic(
            topic,
            queue_count=queue_count,
            topic_type=topic_type,
            expires_ms=expires_ms,
            retention_ms=retention_ms,
            cleanup=cleanup,
        )

    def update_topic(
        self,
        topic: str,
        *,
        queue_count: int | None = None,
        topic_type: str | None = None,
        expires_ms: int | None = None,
        retention_ms: int | None = None,
        cleanup: str | None = None,
    ) -> Call[None]:
        """Give a topic the values that are not None; a time of 0 is none of its own."""
        checked_name(topic, "topic")
        document: dict[str, object] = {}
        if queue_count is not None:
            document["queue_count"] = queue_count
        if topic_type is not None:
            document["type"] = topic_type
        if expires_ms is not None:
            document["expires_ms"] = expires_ms or None
        if retention_ms is not None:
            document["retention_ms"] = retention_ms or None
        if cleanup is not None:
            document["cleanup"] = cleanup
        target = f"{API}/topics/{path_part(topic)}"
        return Call(self._json_buffers("PUT", target, document, JSON), nothing)

    def describe_topic(self, topic: str) -> Call[TopicInfo]:
        """Read a topic's description with the range of each queue."""
        checked_name(topic, "topic")
        return self._get(f"{API}/topics/{path_part(topic)}", _topic_info)

    def list_topics(self, cursor: str | None = None) -> Call[tuple[list[TopicInfo], str | None]]:
        """Read a page of topics, and the cursor of the next page."""
        return self._get(f"{API}/topics{page(cursor)}", _topic_page)

    def lite_topics(
        self, topic: str, cursor: str | None = None
    ) -> Call[tuple[list[LiteTopic], str | None]]:
        """Read a page of a parent's lite topics, and the cursor of the next page."""
        checked_name(topic, "topic")
        query = {"limit": str(_LITES_OF_PAGE)} | ({} if cursor is None else {"cursor": cursor})
        target = f"{API}/topics/{path_part(topic)}/lite-topics?{urlencode(query)}"
        return self._get(target, _lite_page)

    def delete_topic(
        self, topic: str, *, reason: str = "", even_in_use: bool = False
    ) -> Call[None]:
        """Delete a topic with its messages."""
        checked_name(topic, "topic")
        said = {"reason": reason} if reason else {}
        if even_in_use:
            said["even_in_use"] = "true"
        query = f"?{urlencode(said)}" if said else ""
        return self._bare("DELETE", f"{API}/topics/{path_part(topic)}{query}", nothing)

    def _send_target(
        self, topic: str, queue: int, ack: AckMode | None, is_delayed: bool
    ) -> _SendTarget:
        target = f"{API}/topics/{path_part(topic)}/messages?queue={queue}"
        if ack is not None:
            target += f"&ack={ack}"
        # Only JSON has room for recall handles.
        accept = JSON if is_delayed else MEDIA_TYPE
        return _SendTarget(
            self._endpoint.head_start("POST", target, accept=accept, content_type=MEDIA_TYPE),
            LaneSend(topic.encode(), queue, send_flags(ack, is_delayed=is_delayed)),
            _receipt_reader(1, ack, is_delayed=is_delayed),
        )

    def _settle(
        self, group: str, verb: str, document: dict[str, object], *, is_repeatable: bool = True
    ) -> Call[list[Settlement]]:
        target = f"{API}/groups/{path_part(group)}/messages:{verb}"
        return self._json("POST", target, document, _settlements, is_repeatable=is_repeatable)


def _results(document: Any) -> list[dict[str, Any]]:  # A JSON document.
    return list(document["results"])
