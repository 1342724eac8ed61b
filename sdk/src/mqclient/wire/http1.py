"""HTTP/1.1 answers: bytes in, one response out. Knows no sockets, requests or JSON."""

from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from mqclient.errors import ProtocolViolation
from mqclient.limits import ANSWER_BYTES_MAX, HEAD_BYTES_MAX

_HEAD_END = b"\r\n\r\n"
_REQUEST_ID = b"\r\nx-request-id:"
# Longer bodies do not come whole with their head.
_KNOWN_DIGITS_MAX = 6
_DIGITS = frozenset(b"0123456789")
_READ_BYTES_MIN = 64 * 1024
_READ_BYTES_MAX = 1024 * 1024
# A chunk's length in hex: 16 digits hold 64 bits.
_CHUNK_DIGITS_MAX = 16


class Response:
    """A whole answer. Header names are lower-case bytes."""

    __slots__ = ("body", "headers", "keep_alive", "status")

    def __init__(self, status: int, headers: dict[bytes, bytes], keep_alive: bool) -> None:
        self.status = status
        self.headers = headers
        self.keep_alive = keep_alive
        self.body = b""

    def header(self, name: bytes) -> str | None:
        """Return a header's value as text, None without it; the name in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


class _State(Enum):
    HEAD = auto()
    LENGTH = auto()
    CHUNKS = auto()
    UNTIL_CLOSE = auto()


class _KnownHead(NamedTuple):
    """A head of which the next answer's differs in the request's id only, as most do."""

    start: bytes
    rest: bytes
    status: int
    headers: dict[bytes, bytes]
    keep_alive: bool
    body_bytes: int

    @classmethod
    def of(cls, head: bytes, response: Response) -> "_KnownHead | None":
        """Return what is to be known of a head; None where the body's end takes more to find."""
        headers = response.headers
        length = headers.get(b"content-length", b"")
        name = head.find(_REQUEST_ID)
        if (
            not 200 <= response.status < 204
            or b"transfer-encoding" in headers
            or not 0 < len(length) < _KNOWN_DIGITS_MAX
            or not _DIGITS.issuperset(length)
            or name < 0
            or head.lower().count(_REQUEST_ID) > 1
        ):
            return None
        start = name + len(_REQUEST_ID)
        end = head.find(b"\r\n", start)
        rest = head[end:] if end >= 0 else b""
        return cls(
            head[:start], rest + _HEAD_END, response.status, headers, response.keep_alive,
            int(length),
        )  # fmt: skip

    def whole(self, data: bytes) -> Response | None:
        """Return the answer when this head and its body are just these bytes, else None."""
        if not data.startswith(self.start):
            return None
        start = len(self.start)
        end = data.find(b"\r\n", start)
        body = end + len(self.rest)
        if (
            not data.startswith(self.rest, end)
            or len(data) - body != self.body_bytes
            or body > HEAD_BYTES_MAX
        ):
            return None
        request_id = data[start:end].strip(b" \t")
        headers = {**self.headers, b"x-request-id": request_id}
        response = Response(self.status, headers, self.keep_alive)
        response.body = data[body:]
        return response


class ResponseReader:
    """Reads the answer to one request after the other on one connection.

    Everything that is not exactly one well-formed answer raises ProtocolViolation; the connection
    must then be closed.
    """

    __slots__ = ("_buffer", "_known", "_parts", "_response", "_state", "_wanted", "has_begun")

    def __init__(self) -> None:
        self._buffer = b""
        self._parts: list[bytes] = []
        self._response: Response | None = None
        self._state = _State.HEAD
        self._wanted = 0
        self._known: _KnownHead | None = None
        self.has_begun = False

    @property
    def read_bytes(self) -> int:
        """Return how many bytes are worth reading at once."""
        if self._wanted <= _READ_BYTES_MIN:
            return _READ_BYTES_MIN
        return min(self._wanted, _READ_BYTES_MAX)

    def feed(self, data: bytes) -> Response | None:
        """Take bytes from the connection; return the answer once it is whole."""
        if self._known is not None and self._state is _State.HEAD and not self._buffer:
            response = self._known.whole(data)
            if response is not None:
                self.has_begun = False
                return response
        self.has_begun = True
        if self._state is _State.LENGTH:
            return self._length(data)
        if self._state is _State.UNTIL_CLOSE:
            self._keep(data)
            return None
        self._buffer = self._buffer + data if self._buffer else data
        if self._state is _State.CHUNKS:
            return self._chunks()
        return self._head()

    def feed_end(self) -> Response:
        """Take the connection's end; return an answer that ends with it, else raise."""
        if self._state is not _State.UNTIL_CLOSE:
            raise ProtocolViolation("the connection ended inside an answer")
        return self._finish(b"")

    def _head(self) -> Response | None:
        while True:
            end = self._buffer.find(_HEAD_END)
            if end > HEAD_BYTES_MAX or (end < 0 and len(self._buffer) > HEAD_BYTES_MAX):
                raise ProtocolViolation(f"an answer's head is longer than {HEAD_BYTES_MAX} bytes")
            if end < 0:
                return None
            head, rest = self._buffer[:end], self._buffer[end + 4 :]
            self._buffer = b""
            response = parse_head(head)
            if response.status >= 200:
                self._known = _KnownHead.of(head, response)
                return self._begin_body(response, rest)
            if response.status == 101:
                raise ProtocolViolation("the server switched protocols unasked")
            # An interim answer says only that the real one is on its way.
            self._buffer = rest

    def _begin_body(self, response: Response, rest: bytes) -> Response | None:
        self._response = response
        headers = response.headers
        length = headers.get(b"content-length")
        encoding = headers.get(b"transfer-encoding")
        if encoding is not None:
            if length is not None or encoding.lower() != b"chunked":
                raise ProtocolViolation("an answer's length is ambiguous")
            self._state = _State.CHUNKS
            self._buffer = rest
            return self._chunks()
        if response.status in (204, 304):
            return self._finish(rest)
        if length is None:
            response.keep_alive = False
            self._state = _State.UNTIL_CLOSE
            self._keep(rest)
            return None
        if not 0 < len(length) < 20 or not _DIGITS.issuperset(length):
            raise ProtocolViolation(f"{length!r} is no content length")
        self._wanted = int(length)
        if self._wanted > ANSWER_BYTES_MAX:
            raise ProtocolViolation(f"an answer is longer than {ANSWER_BYTES_MAX} bytes")
        self._state = _State.LENGTH
        return self._length(rest)

    def _length(self, data: bytes) -> Response | None:
        missing = self._wanted - len(data)
        if missing > 0:
            self._parts.append(data)
            self._wanted = missing
            return None
        self._parts.append(data[: self._wanted] if missing else data)
        return self._finish(data[self._wanted :] if missing else b"")

    def _chunks(self) -> Response | None:
        buffer, position = self._buffer, 0
        while True:
            line_end = buffer.find(b"\r\n", position)
            if line_end < 0:
                if len(buffer) - position > HEAD_BYTES_MAX:
                    raise ProtocolViolation("a chunk's head is too long")
                break
            size_bytes = _chunk_size(buffer[position:line_end])
            if size_bytes == 0:
                return self._trailer(buffer, position, line_end)
            end = line_end + 2 + size_bytes
            if len(buffer) < end + 2:
                break
            if buffer[end : end + 2] != b"\r\n":
                raise ProtocolViolation("a chunk is longer than it says")
            self._keep(buffer[line_end + 2 : end])
            position = end + 2
        self._buffer = buffer[position:]
        if len(self._buffer) > ANSWER_BYTES_MAX:
            raise ProtocolViolation(f"a chunk is longer than {ANSWER_BYTES_MAX} bytes")
        return None

    def _trailer(self, buffer: bytes, position: int, line_end: int) -> Response | None:
        # Trailer fields are allowed and mean nothing here; an empty line ends them.
        end = buffer.find(_HEAD_END, line_end)
        if end >= 0:
            return self._finish(buffer[end + 4 :])
        if len(buffer) - position > HEAD_BYTES_MAX:
            raise ProtocolViolation("a trailer is too long")
        self._buffer = buffer[position:]
        return None

    def _keep(self, data: bytes) -> None:
        self._wanted += len(data)
        if self._wanted > ANSWER_BYTES_MAX:
            raise ProtocolViolation(f"an answer is longer than {ANSWER_BYTES_MAX} bytes")
        self._parts.append(data)

    def _finish(self, excess: bytes) -> Response:
        if excess:
            raise ProtocolViolation("bytes came that no request asked for")
        response = self._response
        assert response is not None
        parts = self._parts
        response.body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._buffer = b""
        self._parts = []
        self._response = None
        self._state = _State.HEAD
        self._wanted = 0
        self.has_begun = False
        return response


def parse_head(head: bytes) -> Response:
    """Return an answer without its body; raise ProtocolViolation."""
    first, *lines = head.split(b"\r\n")
    version, status = _parse_status(first)
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, value = _parse_header(line)
        if name in headers:
            if name == b"content-length" and headers[name] != value:
                raise ProtocolViolation("an answer has two lengths")
            if name != b"content-length":
                value = headers[name] + b", " + value
        headers[name] = value
    connection = headers.get(b"connection", b"").lower()
    if version == b"HTTP/1.1 ":
        keep_alive = b"close" not in connection
    else:
        keep_alive = b"keep-alive" in connection
    return Response(status, headers, keep_alive)


# A broker's answers differ in a line or two; the others need not be read again.
@lru_cache(maxsize=256)
def _parse_status(line: bytes) -> tuple[bytes, int]:
    version = line[:9]
    status = line[9:12]
    if (
        version not in (b"HTTP/1.1 ", b"HTTP/1.0 ")
        or len(status) != 3
        or not _DIGITS.issuperset(status)
        or line[12:13] not in (b"", b" ")
    ):
        raise ProtocolViolation(f"{line[:80]!r} is no status line")
    return version, int(status)


@lru_cache(maxsize=256)
def _parse_header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not name or name.strip() != name:
        raise ProtocolViolation(f"{line[:80]!r} is no header")
    return name.lower(), value.strip(b" \t")


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip(b" \t")
    if not 0 < len(digits) <= _CHUNK_DIGITS_MAX:
        raise ProtocolViolation(f"{line[:40]!r} is no chunk length")
    try:
        size_bytes = int(digits, 16)
    except ValueError as error:
        raise ProtocolViolation(f"{line[:40]!r} is no chunk length") from error
    if not 0 <= size_bytes <= ANSWER_BYTES_MAX or digits[:1] in b"+-" or b"_" in digits:
        raise ProtocolViolation(f"{line[:40]!r} is no chunk length")
    return size_bytes
