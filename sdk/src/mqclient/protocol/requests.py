"""One request with the reading of its answer, and how JSON travels. Knows no address but the API's.

Every wrong shape of an answer becomes one error, so that a reader may index freely.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mqclient.errors import MqError, ProtocolViolation, error_of
from mqclient.protocol.endpoint import Endpoint
from mqclient.wire.http1 import Response
from mqclient.wire.lane import LaneSend

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """One request and how its answer is read.

    `is_repeatable` says that carrying it out twice does no harm; `wait_ms` is how long the broker
    may hold it. `lane` is what the lane says in place of the first buffer, the head of HTTP; None
    where it does not carry the request.
    """

    buffers: tuple[bytes, ...]
    read: Callable[[Response], T_co]
    is_repeatable: bool = True
    wait_ms: int = 0
    lane: LaneSend | None = None

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


def from_json(read: Callable[[Any], T]) -> Callable[[Response], T]:
    """Make a reader of answers of a reader of documents; it raises ProtocolViolation."""

    def parse(response: Response) -> T:
        document = _document(response)
        try:
            return read(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolViolation(f"the answer has another shape: {error!r}") from error

    return parse


def nothing(_response: Response) -> None:
    """Read an answer that says nothing but that it was done."""


def number(value: str | int | None) -> int | None:
    """Return an offset, which travels as a string; None is unknown."""
    return None if value is None else int(value)


class Requests:
    """Writes requests to one broker."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def _bare(self, method: str, target: str, read: Callable[[Response], T]) -> Call[T]:
        head = self._endpoint.head(method, target, accept=JSON, content_type="", body_bytes=0)
        return Call((head,), read)

    def _get(self, target: str, read: Callable[[Any], T]) -> Call[T]:
        return self._bare("GET", target, from_json(read))

    def _json(
        self,
        method: str,
        target: str,
        document: object,
        read: Callable[[Any], T],
        *,
        is_repeatable: bool = True,
        wait_ms: int = 0,
    ) -> Call[T]:
        buffers = self._json_buffers(method, target, document, JSON)
        return Call(buffers, from_json(read), is_repeatable, wait_ms)

    def _json_buffers(
        self, method: str, target: str, document: object, accept: str
    ) -> tuple[bytes, ...]:
        body = json.dumps(document, separators=(",", ":")).encode()
        head = self._endpoint.head(
            method, target, accept=accept, content_type=JSON, body_bytes=len(body)
        )
        return head, body


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _document(response: Response) -> Any:  # JSON has no narrower type before it is read.
    try:
        return json.loads(response.body)
    except ValueError as error:
        raise ProtocolViolation(f"the answer is no JSON: {error}") from error
