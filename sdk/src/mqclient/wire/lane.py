"""The lane's frames: a send as bytes, bytes as answers. Knows no sockets (docs/LANE.md)."""

import struct
from typing import NamedTuple

from mqclient.errors import ProtocolViolation
from mqclient.limits import ANSWER_BYTES_MAX, HEAD_BYTES_MAX
from mqclient.values import AckMode
from mqclient.wire.batches import MEDIA_TYPE
from mqclient.wire.http1 import Response, parse_head

PROTOCOL = "mqweb-lane/1"
PATH = "/lane"

# Length, number, verb, flags, bytes of the name, queue.
_REQUEST = struct.Struct(">IIBBHI")
# Length, number, status, kind of the body, seconds to wait.
_ANSWER = struct.Struct(">IIHBB")
_LENGTH_BYTES = 4
_SEND = 1
_ACKS = {None: 0, AckMode.SYNC: 1, AckMode.ASYNC: 2, AckMode.ONEWAY: 3}
_WANTS_JSON = 4
_HEADERS: tuple[dict[bytes, bytes], ...] = (
    {},
    {b"content-type": MEDIA_TYPE.encode()},
    {b"content-type": b"application/json"},
    {b"content-type": b"application/problem+json"},
)
_NUMBER_MAX = 0xFFFFFFFF
_READ_BYTES = 64 * 1024

assert _REQUEST.size == 16
assert _ANSWER.size == 12


class LaneSend(NamedTuple):
    """What the lane says of a send besides its batch."""

    name: bytes
    queue: int
    flags: int


def send_flags(ack: AckMode | None, *, is_delayed: bool) -> int:
    """Return the flags of a send."""
    return _ACKS[ack] | (_WANTS_JSON if is_delayed else 0)


def send_frame(number: int, send: LaneSend, batch: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the frame of a send in parts; `batch` is not copied."""
    name, queue, flags = send
    length = _REQUEST.size - _LENGTH_BYTES + len(name) + sum(map(len, batch))
    return _REQUEST.pack(length, number, _SEND, flags, len(name), queue) + name, *batch


def handshake(data: bytes) -> Response | None:
    """Return the head of the answer to an upgrade once it is whole; raise ProtocolViolation."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > HEAD_BYTES_MAX:
            raise ProtocolViolation(f"an answer's head is longer than {HEAD_BYTES_MAX} bytes")
        return None
    response = parse_head(data[:end])
    if response.status == 101 and len(data) > end + 4:
        raise ProtocolViolation("the lane began with an answer")
    return response


class AnswerReader:
    """Reads the answer to one request after the other, with the methods of ResponseReader.

    Everything that is not exactly the answer to the last request raises ProtocolViolation.
    """

    __slots__ = ("_buffer", "number")

    def __init__(self) -> None:
        self.number = 0
        self._buffer = b""

    @property
    def has_begun(self) -> bool:
        """Tell whether any byte of the current answer came."""
        return bool(self._buffer)

    @property
    def read_bytes(self) -> int:
        """Return how many bytes are worth reading at once."""
        return _READ_BYTES

    def next_number(self) -> int:
        """Return the number of the request to be written now."""
        self.number = self.number + 1 if self.number < _NUMBER_MAX else 1
        return self.number

    def feed(self, data: bytes) -> Response | None:
        """Take bytes from the connection; return the answer once it is whole."""
        data = self._buffer + data if self._buffer else data
        if len(data) < _ANSWER.size:
            self._buffer = data
            return None
        length, number, status, kind, retry_after_s = _ANSWER.unpack_from(data)
        if number != self.number:
            raise ProtocolViolation(f"request {number} was answered, not {self.number}")
        end = length + _LENGTH_BYTES
        if not _ANSWER.size <= end <= ANSWER_BYTES_MAX or kind >= len(_HEADERS):
            raise ProtocolViolation(f"an answer of {length} bytes and kind {kind}")
        if len(data) < end:
            self._buffer = data
            return None
        if len(data) > end:
            raise ProtocolViolation("bytes came that no request asked for")
        self._buffer = b""
        headers = _HEADERS[kind]
        if retry_after_s:
            headers = {**headers, b"retry-after": b"%d" % retry_after_s}
        response = Response(status, headers, True)
        response.body = data[_ANSWER.size :]
        return response

    def feed_end(self) -> Response:
        """Take the connection's end: it is never the end of an answer."""
        raise ProtocolViolation("the connection ended inside an answer")
