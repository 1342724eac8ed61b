"""Sends that came in one turn of the event loop, stored in one frame and answered together.

Knows when an answer is safe. Whatever is no plain send, or does not succeed, is declined and
answered by `send` itself; so there is one place that refuses.
"""

from collections.abc import Callable, Sequence
from functools import partial

from apps.access.gate import Denied, digest_in
from apps.doors import steps
from apps.doors.hosts import host_check
from apps.doors.http import answers, send
from apps.doors.http.answers import Answer, Header
from apps.doors.http.calls import Door, Scope
from apps.doors.http.refusals import Refusal
from apps.doors.http.routing import Verb, resolve
from apps.doors.http.shared import Frame, Meaning, Request, Turn
from apps.engine.api import EngineAPI
from apps.engine.codec import wire
from apps.engine.errors import Busy, EngineError, FlushTimeout, OutOfMeans, Refused

_JSON = b"application/json"
_RECORDS = wire.MEDIA_TYPE.encode()


class TurnsOfSends:
    """Answers sends promptly: the clerk of a desk of `apps.bridge.prompt`."""

    def __init__(self, door: Door, engine_of: Callable[[], EngineAPI | None]) -> None:
        """Answer for the application that was created with the same door."""
        self._door = door
        self._engine_of = engine_of
        self._is_allowed_host = host_check(door.settings.allowed_hosts)

    def meaning_of(self, scope: Scope) -> Meaning | None:
        """Return what a head says, None for one that is not surely that of a good send."""
        fields: dict[bytes, bytes] = dict(scope["headers"])
        match = resolve(scope["raw_path"])
        if (
            match is None
            or match.refusal is not None
            or match.row.verbs.get(scope["method"]) is not Verb.SEND
            or not self._is_allowed_host(fields.get(b"host", b""))
            # A request with a name of its own has a head that comes once.
            or b"x-request-id" in fields
            or b"content-encoding" in fields
        ):
            return None
        digest = None
        if self._door.gate is not None:
            # Who is not let in is told so by `send`. Each request asks again: a head is known for
            # longer than a token is good.
            try:
                digest = digest_in(fields.get(b"authorization"))
            except Denied:
                return None
        content_type = fields.get(b"content-type")
        if content_type == _JSON:
            if scope["query_string"]:
                return None
            return Meaning(match.name, -1, None, wants_records=False, digest=digest)
        if content_type != _RECORDS:
            return None
        try:
            queue, ack = send.target_of(scope["query_string"])
        except Refusal:
            return None
        wants_records = _RECORDS in fields.get(b"accept", b"")
        return Meaning(match.name, queue, ack, wants_records=wants_records, digest=digest)

    def answer(self, requests: Sequence[Request]) -> None:
        """Store what the requests of a turn bring, and answer each when that is safe."""
        engine = self._engine_of()
        if engine is None:
            _decline(requests)
            return
        turn = Turn(self._door, engine.catalog)
        for request in requests:
            try:
                turn.take(request)
            except Exception:  # Whatever is wrong with it, `send` finds it again and says so.
                request.decline()
        # What waits for the disk must not keep the rest from being answered.
        for frame in turn.frames:
            steps.run(self._store(engine, frame), _ended)

    async def _store(self, engine: EngineAPI, frame: Frame) -> None:
        try:
            batches = [part.batch() for part in frame.parts]
            appended = await engine.append(batches, ack=frame.ack)
            for part, where in zip(frame.parts, appended, strict=True):
                part.appended = where
            told = [answer_of() for answer_of in frame.answers]
        except FlushTimeout as error:
            # Stored, so sending it again would store it twice.
            self._refuse(frame, partial(answers.of_engine_error, error))
        except (Refused, Busy):
            # Nothing is stored, whichever of them is to blame; each alone may be.
            _decline(frame.requests)
        except MemoryError:
            refusal = OutOfMeans("no memory is left for these requests")
            self._refuse(frame, partial(answers.of_engine_error, refusal))
        except EngineError as error:
            self._refuse(frame, partial(answers.of_engine_error, error))
        except Exception as error:  # The main loop of the door: requests end, the door does not.
            self._refuse(frame, partial(answers.of_bug, error))
        else:
            for request, answer in zip(frame.requests, told, strict=True):
                self._reply(request, answer)
        finally:
            frame.share.release()

    def _refuse(
        self, frame: Frame, refusal: Callable[[bytes], tuple[Answer, Sequence[Header]]]
    ) -> None:
        for request in frame.requests:
            name = self._door.request_ids.of(None)
            answer, headers = refusal(name)
            lines = [b"x-request-id: %b\r\n" % name]
            lines += [b"%b: %b\r\n" % header for header in (*headers, answer[1])]
            assert isinstance(answer[2], bytes)
            request.answer(answer[0], b"".join(lines), answer[2])

    def _reply(self, request: Request, answer: Answer) -> None:
        status, content_type, body = answer
        assert isinstance(body, bytes)
        name = self._door.request_ids.of(None)
        if body:
            lines = b"x-request-id: %b\r\n%b: %b\r\n" % (name, *content_type)
        else:
            lines = b"x-request-id: %b\r\n" % name
        request.answer(status, lines, body)


def _ended(_nothing: None, error: BaseException | None) -> None:
    """Let the loop report what is no answer of the engine's; at the end waits are cancelled."""
    if isinstance(error, Exception):
        raise error


def _decline(requests: Sequence[Request]) -> None:
    for request in requests:
        request.decline()
