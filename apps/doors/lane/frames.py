"""The lane's frames: bytes in, requests out; answers as bytes. Knows no socket and no verb.

docs/LANE.md has the tables. Numbers are big-endian.
"""

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from apps.engine import limits
from apps.engine.errors import BatchTooLarge, MalformedBatch
from apps.engine.types import AckMode

PROTOCOL = b"mqweb-lane/1"

# Length, number, verb, flags, bytes of the name, queue.
_REQUEST = struct.Struct(">IIBBHI")
# Length, number, status, kind of the body, seconds to wait.
_ANSWER = struct.Struct(">IIHBB")
# A length counts what comes behind it.
_LENGTH_BYTES = 4
HEAD_BYTES = _REQUEST.size
NAME_BYTES_MAX = 3 * limits.NAME_CHARACTERS_MAX

# What is longer than this is read into a buffer of its own, and not copied after that.
_SMALL_BYTES = 64 * 1024

ACKS = (None, AckMode.SYNC, AckMode.ASYNC, AckMode.ONEWAY)
"""The acknowledge mode by the lowest two flags; None is the store's own."""
WANTS_JSON = 4
"""The flag that asks for a JSON answer, which has room for recall handles."""
KNOWN_FLAGS = 7

assert HEAD_BYTES == 16
assert _ANSWER.size == 12


class Verb(IntEnum):
    """What a request asks for."""

    SEND = 1


class Kind(IntEnum):
    """What the body of an answer is."""

    NOTHING = 0
    RECORDS = 1
    JSON = 2
    PROBLEM = 3


class Request(NamedTuple):
    """One frame of a client. `verb` and `flags` are as they came, known or not.

    `refused` says that there was no room for the body, which was dropped then.
    """

    number: int
    verb: int
    flags: int
    queue: int
    name: bytes
    body: bytearray
    refused: Exception | None = None


class BadFrame(Exception):
    """A frame after which nobody can tell where the next begins; `number` is its request's.

    `reason` is what its sender is told.
    """

    def __init__(self, number: int, reason: MalformedBatch | BatchTooLarge) -> None:
        """Keep what the answer says."""
        super().__init__(str(reason))
        self.number = number
        self.reason = reason


class FrameReader:
    """Cuts what a connection receives into requests.

    The connection reads into `buffer()` and says how much came. Small frames are copied out of one
    buffer; a large one is received where it will lie until it is written.
    """

    __slots__ = ("_admit", "_bytes_max", "_filled", "_large", "_large_filled", "_skipped", "_small")

    def __init__(self, *, bytes_max: int, admit: Callable[[int], Exception | None]) -> None:
        """Refuse frames over `bytes_max`; `admit` says why a large one of a size has no room."""
        self._bytes_max = bytes_max
        self._admit = admit
        self._small = bytearray(_SMALL_BYTES)
        self._filled = 0
        self._large: bytearray | None = None
        self._large_filled = 0
        # The head of a frame without room, and how many bytes of it are still to come.
        self._skipped: tuple[Request, int] | None = None

    def buffer(self) -> memoryview:
        """Return where the next bytes belong; it is never empty."""
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        return memoryview(self._small)[self._filled :]

    @property
    def is_large(self) -> bool:
        """Say whether what comes next belongs to a large frame."""
        return self._large is not None

    @property
    def is_large_whole(self) -> bool:
        """Say whether a large frame is complete, to be taken by `take_large`."""
        return self._large is not None and self._large_filled == len(self._large)

    def received(self, count: int) -> list[Request]:
        """Take so many bytes of the buffer; return the small requests that are whole now.

        Raises BadFrame; what came before it is lost, and the connection must be closed.
        """
        if self._large is not None:
            self._large_filled += count
            return []
        self._filled += count
        found: list[Request] = []
        at = self._skip(found)
        small, filled = self._small, self._filled
        while filled - at >= HEAD_BYTES:
            length, number, verb, flags, name_bytes, queue = _REQUEST.unpack_from(small, at)
            self._check(length, number, name_bytes)
            end = at + _LENGTH_BYTES + length
            if end <= filled:
                body_at = at + HEAD_BYTES + name_bytes
                name = bytes(small[at + HEAD_BYTES : body_at])
                found.append(Request(number, verb, flags, queue, name, small[body_at:end]))
                at = end
                continue
            if _LENGTH_BYTES + length > _SMALL_BYTES:
                at = self._begin_large(at, _LENGTH_BYTES + length)
            break
        if at:
            small[: filled - at] = small[at:filled]
            self._filled = filled - at
        return found

    def take_large(self) -> Request:
        """Return the large request that is whole. No view of the buffer may be held any more."""
        data, self._large = self._large, None
        assert data is not None
        _, number, verb, flags, name_bytes, queue = _REQUEST.unpack_from(data)
        body_at = HEAD_BYTES + name_bytes
        name = bytes(data[HEAD_BYTES:body_at])
        # Cutting the front of a bytearray moves its start; nothing is copied.
        del data[:body_at]
        return Request(number, verb, flags, queue, name, data)

    def drop_large(self, count: int, why: Exception) -> list[Request]:
        """Take so many bytes and drop the large frame they are of; return it if this is its end."""
        data, self._large = self._large, None
        assert data is not None
        _, number, verb, flags, _, queue = _REQUEST.unpack_from(data)
        request = Request(number, verb, flags, queue, b"", bytearray(), why)
        self._filled = 0
        left = len(data) - self._large_filled - count
        if not left:
            return [request]
        self._skipped = request, left
        return []

    def _begin_large(self, at: int, frame_bytes: int) -> int:
        """Go on in a buffer for one frame; return where the small buffer is not taken yet."""
        came = self._filled - at
        why = self._admit(frame_bytes)
        if why is not None:
            _, number, verb, flags, _, queue = _REQUEST.unpack_from(self._small, at)
            request = Request(number, verb, flags, queue, b"", bytearray(), why)
            self._skipped = request, frame_bytes - came
        else:
            self._large = bytearray(frame_bytes)
            self._large[:came] = self._small[at : self._filled]
            self._large_filled = came
        return self._filled

    def _skip(self, found: list[Request]) -> int:
        """Drop what belongs to a frame without room; return where the next one begins."""
        if self._skipped is None:
            return 0
        request, left = self._skipped
        if left > self._filled:
            self._skipped = request, left - self._filled
            return self._filled
        self._skipped = None
        found.append(request)
        return left

    def _check(self, length: int, number: int, name_bytes: int) -> None:
        if length < HEAD_BYTES - _LENGTH_BYTES + name_bytes:
            raise BadFrame(number, MalformedBatch("a frame is shorter than its head and name"))
        if length > self._bytes_max:
            raise BadFrame(number, BatchTooLarge(f"a frame is at most {self._bytes_max} bytes"))
        if name_bytes > NAME_BYTES_MAX:
            raise BadFrame(number, MalformedBatch(f"a name is at most {NAME_BYTES_MAX} bytes"))


def build_answer(
    number: int, status: int, kind: Kind, body: bytes = b"", *, retry_after_s: int = 0
) -> bytes:
    """Return one answer's frame."""
    length = _ANSWER.size - _LENGTH_BYTES + len(body)
    return _ANSWER.pack(length, number, status, kind, retry_after_s) + body
