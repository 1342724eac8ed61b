"""Every request of the contract, described once with the reading of its answer.

Knows addresses, documents and media types; who carries the bytes is the transports' affair.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from mqclient.errors import MqError, ProtocolViolation, error_of
from mqclient.names import checked_name, path_part
from mqclient.protocol.endpoint import API, Endpoint
from mqclient.values import (
    AckMode,
    BatchReceipt,
    QueueLag,
    QueueOffset,
    QueueRange,
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

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """One request and how its answer is read.

    `is_repeatable` says that carrying it out twice does no harm; `wait_ms` is how long the broker
    may hold it.
    """

    buffers: tuple[bytes, ...]
    read: Callable[[Response], T_co]
    is_repeatable: bool = True
    wait_ms: int = 0

    def answer(self, response: Response) -> T_co:
        """Return what the answer says; raise the error it carries."""
        if 200 <= response.status < 300:
            return self.read(response)
        raise problem_of(response)


def problem_of(response: Response) -> MqError:
    """Build the error of an answer; a body that is no problem document leaves the status."""
    document: object = None
    if b"json" in response.headers.get(b"content-type", b""):
        try:
            document = json.loads(response.body)
        except ValueError:
            document = None
    fields: dict[str, Any] = document if isinstance(document, dict) else {}
    retriable = fields.get("retriable")
    try:
        retry_after_s = float(response.header(b"retry-after") or "")
    except ValueError:
        retry_after_s = None
    return error_of(
        response.status,
        code=_text(fields.get("code")),
        detail=_text(fields.get("detail")) or _text(fields.get("title")) or "",
        retriable=retriable if isinstance(retriable, bool) else None,
        request_id=_text(fields.get("request_id")) or response.header(b"x-request-id"),
        retry_after_s=retry_after_s,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _document(response: Response) -> Any:  # JSON has no narrower type before it is read.
    try:
        return json.loads(response.body)
    except ValueError as error:
        raise ProtocolViolation(f"the answer is no JSON: {error}") from error


def _from_json(read: Callable[[Any], T]) -> Callable[[Response], T]:
    """Turn every wrong shape into one error; `read` then may index freely."""

    def parse(response: Response) -> T:
        document = _document(response)
        try:
            return read(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolViolation(f"the answer has another shape: {error!r}") from error

    return parse


def _nothing(_response: Response) -> None:
    return None


def _number(value: str | int | None) -> int | None:
    return None if value is None else int(value)


def _topic_info(item: Any) -> TopicInfo:  # A JSON document.
    return TopicInfo(
        topic=item["topic"],
        type=item["type"],
        queue_count=int(item["queue_count"]),
        perm=item.get("perm"),
        queues=tuple(
            QueueRange(
                queue=int(queue["queue"]),
                min_offset=_number(queue.get("min_offset")),
                max_offset=_number(queue.get("max_offset")),
            )
            for queue in item.get("queues") or ()
        ),
    )


def _topic_page(document: Any) -> tuple[list[TopicInfo], str | None]:  # A JSON document.
    return [_topic_info(item) for item in document["items"]], document.get("next_cursor")


def _offset_page(document: Any) -> tuple[list[QueueOffset], str | None]:  # A JSON document.
    items = [
        QueueOffset(
            topic=item["topic"],
            queue=int(item["queue"]),
            committed=_number(item.get("committed")),
            delivered=_number(item.get("delivered")),
            max_offset=_number(item.get("max_offset")),
        )
        for item in document["items"]
    ]
    return items, document.get("next_cursor")


def _lags(document: Any) -> list[QueueLag]:  # A JSON document.
    return [
        QueueLag(
            topic=item["topic"],
            queue=int(item["queue"]),
            lag=int(item["lag"]),
            in_flight=int(item["in_flight"]),
            ready=int(item["ready"]),
        )
        for item in document["items"]
    ]


def _settlements(document: Any) -> list[Settlement]:  # A JSON document.
    return [
        Settlement(
            index=int(item["index"]),
            status=Settled(item["status"]),
            receipt_handle=item.get("receipt_handle"),
        )
        for item in document["results"]
    ]


def _appended(count: int, response: Response) -> BatchReceipt:
    receipt = unpack_appended(response.body)
    if receipt.count != count:
        raise ProtocolViolation(f"{count} messages were sent, {receipt.count} confirmed")
    return receipt


class Calls:
    """Builds the requests to one broker."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._send_targets: dict[tuple[str, int, AckMode | None], str] = {}

    def ready(self) -> Call[None]:
        """Ask whether the broker serves."""
        head = self._endpoint.head("GET", "/readyz", accept=_JSON, content_type="", body_bytes=0)
        return Call((head,), _nothing)

    def send_batch(
        self, topic: str, queue: int, records: Sequence[bytes], ack: AckMode | None
    ) -> Call[BatchReceipt | None]:
        """Store packed records of one topic and queue; None after a one-way send.

        With `ack` None the store's own mode holds.
        """
        target = self._send_targets.get((topic, queue, ack))
        if target is None:
            target = f"{API}/topics/{path_part(topic)}/messages?queue={queue}"
            if ack is not None:
                target += f"&ack={ack}"
            self._send_targets[topic, queue, ack] = target
        first, payload = pack_batch(records)
        head = self._endpoint.head(
            "POST",
            target,
            accept=MEDIA_TYPE,
            content_type=MEDIA_TYPE,
            body_bytes=len(first) + len(payload),
        )
        read: Callable[[Response], BatchReceipt | None] = (
            _nothing if ack is AckMode.ONEWAY else partial(_appended, len(records))
        )
        return Call((head, first, payload), read, is_repeatable=False)

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
        filter_text: str = "*",
    ) -> Call[Pulled]:
        """Read a queue from an offset."""
        query = f"offset={queue_offset}&max={messages_max}&max_bytes={bytes_max}&wait_ms={wait_ms}"
        if filter_text != "*":
            query += f"&filter={quote(filter_text, safe='')}"
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
        filter_text: str = "*",
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
            "filter": filter_text,
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
        self, group: str, handles: Sequence[str], *, delay_ms: int, reason: str
    ) -> Call[list[Settlement]]:
        """Give messages back, visible after `delay_ms`."""
        document = {"receipt_handles": list(handles), "delay_ms": delay_ms, "reason": reason}
        return self._settle(group, "nack", document)

    def extend(
        self, group: str, handles: Sequence[str], *, invisible_ms: int
    ) -> Call[list[Settlement]]:
        """Keep messages for `invisible_ms` from here on; the answer has new handles.

        Not repeatable: the first carrying out retires the handles the second would name.
        """
        document = {"receipt_handles": list(handles), "invisible_ms": invisible_ms}
        return self._settle(group, "extend", document, is_repeatable=False)

    def commit(self, group: str, offsets: Iterable[QueueOffset], *, client_id: str) -> Call[None]:
        """Say that a group is done with everything below the offsets."""
        document = {
            "client_id": client_id,
            "offsets": [
                {"topic": item.topic, "queue": item.queue, "offset": str(item.committed)}
                for item in offsets
                if item.committed is not None
            ],
        }
        target = f"{API}/groups/{path_part(group)}/offsets:commit"
        return Call(self._json_buffers("POST", target, document, _JSON), _nothing)

    def group_offsets(
        self, group: str, cursor: str | None = None
    ) -> Call[tuple[list[QueueOffset], str | None]]:
        """Read a page of a group's progress, and the cursor of the next page."""
        target = f"{API}/groups/{path_part(group)}/offsets{_page(cursor)}"
        return self._get(target, _offset_page)

    def group_lag(self, group: str) -> Call[list[QueueLag]]:
        """Read a group's backlog in every queue it has progress in."""
        return self._get(f"{API}/groups/{path_part(group)}/lag", _lags)

    def create_topic(
        self,
        topic: str,
        *,
        queue_count: int = 4,
        topic_type: str = "MIXED",
        expires_ms: int | None = None,
    ) -> Call[None]:
        """Create or change a topic; one unused for `expires_ms` is deleted by the broker."""
        checked_name(topic, "topic")
        document: dict[str, object] = {"queue_count": queue_count, "type": topic_type}
        if expires_ms is not None:
            document["expires_ms"] = expires_ms
        target = f"{API}/topics/{path_part(topic)}"
        return Call(self._json_buffers("PUT", target, document, _JSON), _nothing)

    def describe_topic(self, topic: str) -> Call[TopicInfo]:
        """Read a topic's description with the range of each queue."""
        checked_name(topic, "topic")
        return self._get(f"{API}/topics/{path_part(topic)}", _topic_info)

    def list_topics(self, cursor: str | None = None) -> Call[tuple[list[TopicInfo], str | None]]:
        """Read a page of topics, and the cursor of the next page."""
        return self._get(f"{API}/topics{_page(cursor)}", _topic_page)

    def delete_topic(self, topic: str) -> Call[None]:
        """Delete a topic with its messages."""
        checked_name(topic, "topic")
        target = f"{API}/topics/{path_part(topic)}"
        head = self._endpoint.head("DELETE", target, accept=_JSON, content_type="", body_bytes=0)
        return Call((head,), _nothing)

    def _settle(
        self, group: str, verb: str, document: dict[str, object], *, is_repeatable: bool = True
    ) -> Call[list[Settlement]]:
        target = f"{API}/groups/{path_part(group)}/messages:{verb}"
        return self._json("POST", target, document, _settlements, is_repeatable=is_repeatable)

    def _get(self, target: str, read: Callable[[Any], T]) -> Call[T]:
        head = self._endpoint.head("GET", target, accept=_JSON, content_type="", body_bytes=0)
        return Call((head,), _from_json(read))

    def _json(
        self,
        method: str,
        target: str,
        document: dict[str, object],
        read: Callable[[Any], T],
        *,
        is_repeatable: bool,
    ) -> Call[T]:
        buffers = self._json_buffers(method, target, document, _JSON)
        return Call(buffers, _from_json(read), is_repeatable=is_repeatable)

    def _json_buffers(
        self, method: str, target: str, document: object, accept: str
    ) -> tuple[bytes, ...]:
        body = json.dumps(document, separators=(",", ":")).encode()
        head = self._endpoint.head(
            method, target, accept=accept, content_type=_JSON, body_bytes=len(body)
        )
        return head, body


def _page(cursor: str | None) -> str:
    return "" if cursor is None else "?" + urlencode({"cursor": cursor})


def _results(document: Any) -> list[dict[str, Any]]:  # A JSON document.
    return list(document["results"])
