"""One connection of the lane: frames in, requests begun, answers out. Knows no verb's inside.

What comes in one turn of the event loop is begun in that turn, and what is answered in one turn is
written with one call. Nothing here is a task.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

from apps.access.gate import Rights, Watch
from apps.bridge.serving import Upgraded
from apps.doors.http.calls import Door
from apps.doors.http.inflight import Share
from apps.doors.http.refusals import Refusal
from apps.doors.lane import sending
from apps.doors.lane.frames import BadFrame, FrameReader, Request
from apps.doors.lane.limits import Limits
from apps.engine.api import EngineAPI
from apps.engine.codec import wire

# A connection with so many requests unanswered is not read from.
_UNANSWERED_MAX = 1_024
# A connection without a request for this long is closed, as an idle one of HTTP is.
IDLE_S = 75.0
# A client that takes none of its answers for this long is gone, or might as well be.
STALLED_S = 30.0


class Connection(Upgraded, asyncio.BufferedProtocol):
    """A client's connection, after HTTP has handed it over."""

    def __init__(
        self,
        door: Door,
        engine_of: Callable[[], EngineAPI | None],
        *,
        limits: Limits | None = None,
        rights: Rights | None = None,
    ) -> None:
        """Wait for the connection; `limits` are its client's, None where there are none.

        `rights` are those of the token it was opened with; raises ValueError for a door that has
        a gate and a connection without them.
        """
        if (door.gate is None) != (rights is None):
            raise ValueError("a lane has rights exactly where its door has a gate")
        self._rights = rights
        self._watch: Watch | None = None
        self._door = door
        self._limits = limits
        self._engine_of = engine_of
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        # Head and name are little beside the batch itself.
        bytes_max = door.settings.batch_bytes_max + wire.BATCH_TABLE_BYTES_MAX + 1024
        self._reader = FrameReader(bytes_max=bytes_max, admit=self._why_no_room)
        self._large_share = Share(door.in_flight)
        self._answers: list[bytes] = []
        self._unanswered = 0
        self._request_count = 0
        self._is_reading_turn = False
        self._is_flush_due = False
        self._is_large_due = False
        self._is_paused = False
        self._is_stalled = False
        self._is_ending = False
        self._idle: asyncio.TimerHandle
        self._stall: asyncio.TimerHandle | None = None

    # --- what the loop calls -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._idle = self._loop.call_later(IDLE_S, self._look_idle, 0)
        if self._rights is not None:
            # A token that is revoked takes its connection along, busy or idle.
            self._watch = self._rights.watched(lambda _denied: self.shutdown())

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go."""
        del sizehint
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Begin the requests that are whole now."""
        if self._is_ending:
            # Read and dropped; what was asked before is still being answered.
            return
        try:
            requests = self._received(nbytes)
        except BadFrame as bad:
            self._write(sending.failure(self._door, bad.number, bad.reason))
            self.shutdown()
            return
        if requests:
            self._is_reading_turn = True
            for request in requests:
                self._begin(request)
            self._is_reading_turn = False
            if self._answers:
                self._flush()
        if self._reader.is_large_whole:
            # The loop still holds a view of the buffer. Nothing may be read until it is taken.
            self._is_large_due = True
            self._loop.call_soon(self._begin_large)
            self._regulate()

    def eof_received(self) -> bool:
        """Answer what was asked, and close."""
        self.shutdown()
        return True

    def pause_writing(self) -> None:
        """Read no more requests of a client that does not read its answers."""
        self._is_stalled = True
        self._stall = self._loop.call_later(STALLED_S, self._give_up)
        self._regulate()

    def resume_writing(self) -> None:
        """Read again."""
        self._is_stalled = False
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        self._regulate()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; what is under way is carried out all the same."""
        del exc
        self._is_ending = True
        if self._watch is not None:
            self._watch.rights.unwatch(self._watch)
        self._idle.cancel()
        if self._stall is not None:
            self._stall.cancel()
        self._answers.clear()
        self._large_share.release()
        self.gone()

    # --- what the server calls -----------------------------------------------------------------

    def shutdown(self) -> None:
        """Take no more requests, answer those under way, and close."""
        self._is_ending = True
        self._close_when_answered()

    # --- requests and answers ------------------------------------------------------------------

    def _received(self, count: int) -> list[Request]:
        """Take bytes; a large frame counts as it comes, and is dropped when that is too much."""
        if self._reader.is_large:
            try:
                self._large_share.take(count)
            except Refusal as refusal:
                self._large_share.release()
                return self._reader.drop_large(count, refusal)
        return self._reader.received(count)

    def _begin_large(self) -> None:
        self._is_large_due = False
        self._large_share.release()
        if not self._transport.is_closing():
            # It was whole before the end came, if that has come.
            self._begin(self._reader.take_large())
        self._regulate()

    def _begin(self, request: Request) -> None:
        self._unanswered += 1
        self._request_count += 1
        share = Share(self._door.in_flight)
        entered = None
        if request.refused is None:
            try:
                if self._limits is not None:
                    self._limits.enter(len(request.body))
                    entered = self._limits
                share.take(len(request.body))
            except Refusal as refusal:
                request = request._replace(refused=refusal)
        respond = partial(self._respond, share, entered)
        sending.begin(self._door, self._engine_of, request, respond, self._rights)
        if self._unanswered >= _UNANSWERED_MAX:
            self._regulate()

    def _respond(self, share: Share, entered: Limits | None, answer: bytes) -> None:
        share.release()
        if entered is not None:
            entered.leave()
        self._unanswered -= 1
        self._write(answer)
        if self._is_paused:
            self._regulate()

    def _write(self, answer: bytes) -> None:
        if self._transport.is_closing():
            return
        self._answers.append(answer)
        if not (self._is_reading_turn or self._is_flush_due):
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        answers = self._answers
        if answers and not self._transport.is_closing():
            self._transport.write(answers[0] if len(answers) == 1 else b"".join(answers))
        answers.clear()
        if self._is_ending:
            self._close_when_answered()

    def _close_when_answered(self) -> None:
        # What is written and not sent yet is sent by the closing transport.
        is_busy = self._unanswered or self._answers or self._is_large_due
        if not (is_busy or self._transport.is_closing()):
            self._transport.close()

    # --- bounds --------------------------------------------------------------------------------

    def _why_no_room(self, frame_bytes: int) -> Exception | None:
        try:
            self._door.in_flight.check(frame_bytes)
        except Refusal as refusal:
            return refusal
        return None

    def _regulate(self) -> None:
        """Read from the connection, or let its client wait."""
        is_much = self._unanswered >= _UNANSWERED_MAX
        is_paused = self._is_stalled or self._is_large_due or is_much
        if is_paused != self._is_paused and not self._transport.is_closing():
            self._is_paused = is_paused
            if is_paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _look_idle(self, seen_count: int) -> None:
        if self._request_count == seen_count and not self._unanswered:
            self.shutdown()
        self._idle = self._loop.call_later(IDLE_S, self._look_idle, self._request_count)

    def _give_up(self) -> None:
        self._stall = None
        self._transport.abort()
