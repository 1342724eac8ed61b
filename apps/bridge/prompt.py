"""Requests that are answered in the turn of the loop they came in, all of a turn together.

Knows uvicorn's protocol and heads of requests; not what a request means, which its desk's clerk
knows. A head that came before byte for byte is not parsed again, and the request needs no scope,
no event and no task of its own.
"""

from collections.abc import MutableMapping
from typing import Any, Protocol, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from apps.bridge import serving

# Clients repeat few heads, which differ in the length of the body. Longer ones are parsed.
_HEADS_MAX = 1024
_HEAD_BYTES_MAX = 1024
# A larger body seldom comes in one piece, and costs more than its head.
_BODY_BYTES_MAX = 64 * 1024
_HEAD_END = b"\r\n\r\n"
# With one of these a request is more than its head and its body, or ends the connection.
_NOT_PLAIN = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"trailer"})


class Head:
    """A head that was parsed before: how long the body is, and what the clerk makes of it."""

    __slots__ = ("body_bytes", "meaning")

    def __init__(self, body_bytes: int, meaning: Any) -> None:
        """Keep both."""
        self.body_bytes = body_bytes
        self.meaning = meaning


class Request(Protocol):
    """A whole request, to be answered or declined once; `meaning` is the clerk's own."""

    client: tuple[str, int] | None
    meaning: Any
    body: bytes

    def answer(self, status: int, lines: bytes, body: bytes) -> None:
        """Send an answer; `lines` are its header lines, each with its line end."""
        ...

    def decline(self) -> None:
        """Have it answered as every other request is."""
        ...


class Clerk(Protocol):
    """Whoever answers promptly."""

    def meaning_of(self, scope: MutableMapping[str, Any]) -> Any:
        """Return what a head means; None has all requests with it answered as every other is."""
        ...

    def answer(self, requests: list[Any]) -> None:
        """Answer or decline each `Request`, now or later. Raises nothing."""
        ...


class Desk:
    """The requests of one turn, and the heads that are known. An application has it as `desk`."""

    def __init__(self, clerk: Clerk) -> None:
        """Start with no head known."""
        self.heads: dict[bytes, Head] = {}
        self._clerk = clerk
        self._waiting: list[PromptProtocol] = []

    def take(self, request: "PromptProtocol") -> None:
        """Have the request answered when the turn ends in which it came."""
        if not self._waiting:
            request.loop.call_soon(self._end_turn)
        self._waiting.append(request)

    def learn(self, head: bytes, scope: MutableMapping[str, Any], body_bytes: int) -> None:
        """Take note of the head of a whole request, if the clerk answers such promptly."""
        meaning = self._clerk.meaning_of(scope)
        if meaning is None:
            return
        if len(self.heads) >= _HEADS_MAX:
            self.heads.clear()
        self.heads[head] = Head(body_bytes, meaning)

    def _end_turn(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._clerk.answer(waiting)


class PromptProtocol(serving.Protocol):
    """The HTTP protocol, and the request on it that waits for a prompt answer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # As uvicorn makes it.
        """Use the application's desk, if it has one."""
        super().__init__(*args, **kwargs)
        desk = getattr(self.app, "desk", None)
        # What uvicorn does on top of answering it does not do here.
        is_plain = not self.config.access_log and self.limit_concurrency is None
        self._desk: Desk | None = desk if is_plain else None
        self.meaning: Any = None
        self.body = b""
        self._is_waiting = False
        self._is_ending = False
        self._data = b""
        self._held = b""
        self._answered_s = 0.0
        # Whether the next byte begins a request, and how many have begun.
        self._is_between = True
        self._begun_count = 0

    def data_received(self, data: bytes) -> None:
        """Take bytes; a whole request with a known head goes to the desk."""
        if self._is_waiting:
            self._held += data
            self.flow.pause_reading()
            return
        if self._desk is None or not self._is_free():
            super().data_received(data)
            return
        end = data.find(_HEAD_END) + len(_HEAD_END)
        head = self._desk.heads.get(data[:end])
        if head is not None and len(data) - end == head.body_bytes:
            self._is_waiting = True
            self.meaning = head.meaning
            self.body = data[end:]
            self._data = data
            self._desk.take(self)
            return
        begun_count = self._begun_count
        super().data_received(data)
        is_whole = self._is_between and self._begun_count == begun_count + 1
        if is_whole and end <= _HEAD_BYTES_MAX and self.parser is not None:
            self._learn(data[:end], len(data) - end)

    def _is_free(self) -> bool:
        """Say whether a request may begin here that is answered at once."""
        return (
            self._is_between
            and (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and not self.server_state.default_headers
        )

    def _learn(self, head: bytes, body_bytes: int) -> None:
        """Take note of a head if nothing but its bytes decides how it is to be read."""
        assert self._desk is not None
        if self.scope["http_version"] != "1.1" or body_bytes > _BODY_BYTES_MAX:
            return
        lengths = []
        for name, value in self.headers:
            if name in _NOT_PLAIN or (name == b"connection" and value.lower() != b"keep-alive"):
                return
            if name == b"content-length":
                lengths.append(value)
        # Where the parser has seen another end of the head, the lengths do not agree.
        if lengths == [b"%d" % body_bytes]:
            scope = cast("MutableMapping[str, Any]", self.scope)
            self._desk.learn(head, scope, body_bytes)

    # --- for the clerk -------------------------------------------------------------------------

    def answer(self, status: int, lines: bytes, body: bytes) -> None:
        """Send an answer in one write; see Request."""
        self._is_waiting = False
        # An idle connection keeps nothing of what it brought.
        self.body = self._data = b""
        if self.transport.is_closing():
            return
        ending = b"connection: close\r\n" if self._is_ending else b""
        self.transport.write_whole(  # type: ignore[attr-defined]
            b"%b%b%bcontent-length: %d\r\n\r\n%b"
            % (STATUS_LINE[status], lines, ending, len(body), body)
        )
        self.server_state.total_requests += 1
        if self._is_ending:
            self.transport.close()
            return
        # One timer for many requests: it looks when the last of them was answered.
        self._answered_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._wait_idle(self.timeout_keep_alive)
        if self._held:
            held, self._held = self._held, b""
            self.flow.resume_reading()
            self.data_received(held)

    def decline(self) -> None:
        """Begin again with the bytes of the request, as of any other; see Request."""
        self._is_waiting = False
        data, held = self._data, self._held
        self.body = self._data = self._held = b""
        if self.parser is None:
            return  # The client is gone.
        if held:
            self.flow.resume_reading()
        super().data_received(data)
        if held:
            super().data_received(held)
        if self._is_ending:
            super().shutdown()

    # --- uvicorn's own calls -------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Note that the parser is inside a request."""
        self._is_between = False
        self._begun_count += 1
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """Note that the parser is between two requests."""
        super().on_message_complete()
        self._is_between = True

    def shutdown(self) -> None:
        """Close, or have the answer under way be the last."""
        if self._is_waiting:
            self._is_ending = True
        else:
            super().shutdown()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that has been idle, or look again when it may have been."""
        left_s = self._answered_s + self.timeout_keep_alive - self.loop.time()
        if self._is_waiting:
            left_s = self.timeout_keep_alive
        if left_s > 0:
            self._wait_idle(left_s)
        else:
            super().timeout_keep_alive_handler()

    def _wait_idle(self, left_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(left_s, self.timeout_keep_alive_handler)
