"""Sends that came in one turn of the event loop, stored in one frame and answered together.

Knows what `send` knows of one request. Whatever is no plain send, or does not succeed, is declined
and answered by `send` itself; so there is one place that refuses.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from apps.doors.hosts import host_check
from apps.doors.http import answers, drafts, places, send
from apps.doors.http.answers import Answer, Header
from apps.doors.http.atonce import at_once
from apps.doors.http.calls import Door, Scope, host_of
from apps.doors.http.inflight import Share
from apps.doors.http.refusals import Refusal
from apps.doors.http.routing import Verb, resolve
from apps.doors.http.shapes import SendAnswer, SendResult, budget, send_decoder
from apps.doors.http.times import rfc3339
from apps.engine import limits
from apps.engine.api import EngineAPI
from apps.engine.codec import wire
from apps.engine.codec.record import encode_record
from apps.engine.codec.tags import tag_hash
from apps.engine.errors import Busy, EngineError, FlushTimeout, Refused
from apps.engine.types import AckMode, Appended, RecordBatch, TopicSpec

_log = logging.getLogger(__name__)

# A frame of this size takes the loop a millisecond.
_FRAME_BYTES = 512 * 1024
_JSON = b"application/json"
_RECORDS = wire.MEDIA_TYPE.encode()


class Request(Protocol):
    """A whole request with a known head; see apps.bridge.prompt."""

    client: tuple[str, int] | None
    meaning: Any
    body: bytes

    def answer(self, status: int, lines: bytes, body: bytes) -> None:
        """Send an answer; `lines` are its header lines, each with its line end."""
        ...

    def decline(self) -> None:
        """Have it answered as every other request is."""
        ...


class Meaning:
    """What the head of a send says. A binary batch has its queue and mode there, JSON has not."""

    __slots__ = ("ack", "queue", "topic", "wants_records")

    def __init__(self, topic: str, queue: int, ack: AckMode | None, *, wants_records: bool) -> None:
        """Keep it; `queue` is -1 for JSON."""
        self.topic = topic
        self.queue = queue
        self.ack = ack
        self.wants_records = wants_records


class _Run:
    """The messages of JSON sends for one queue; `appended` is set when they are stored."""

    __slots__ = ("appended", "hashes", "queue", "records", "topic")

    appended: Appended

    def __init__(self, topic: str, queue: int) -> None:
        self.topic = topic
        self.queue = queue
        self.records: list[bytes] = []
        self.hashes: list[int] = []

    def batch(self) -> RecordBatch:
        return RecordBatch(
            topic=self.topic,
            queue=self.queue,
            payload=bytearray().join(self.records),
            sizes=np.array([len(record) for record in self.records], dtype=np.int32),
            tag_hashes=np.array(self.hashes, dtype=np.int64),
        )


class _Records:
    """A binary batch, which stays one; `appended` is set when it is stored."""

    __slots__ = ("_batch", "appended")

    appended: Appended

    def __init__(self, batch: RecordBatch) -> None:
        self._batch = batch

    def batch(self) -> RecordBatch:
        return self._batch


class _Frame:
    """Requests that are stored in one frame, and what tells each what became of it."""

    __slots__ = ("ack", "answers", "message_count", "parts", "requests", "runs", "size_bytes")

    def __init__(self, ack: AckMode) -> None:
        self.ack = ack
        self.requests: list[Request] = []
        self.answers: list[Callable[[], Answer]] = []
        self.parts: list[_Run | _Records] = []
        self.runs: dict[tuple[str, int], _Run] = {}
        self.size_bytes = 0
        self.message_count = 0

    def run(self, topic: str, queue: int) -> _Run:
        run = self.runs.get((topic, queue))
        if run is None:
            run = self.runs[topic, queue] = _Run(topic, queue)
            self.parts.append(run)
        return run

    def has_room(self) -> bool:
        return self.size_bytes < _FRAME_BYTES and self.message_count < limits.BATCH_MESSAGES_MAX


class _Declined(Exception):
    """The request asks for more than to be stored."""


class _Turn:
    """The requests of one turn on their way into frames."""

    def __init__(self, door: Door, engine: EngineAPI, share: Share) -> None:
        self._door = door
        self._catalog = engine.catalog
        self._share = share
        self._now_ms = door.clock.wall_ms()
        self._topics: dict[str, TopicSpec] = {}
        self._open: dict[bool, _Frame] = {}
        self.frames: list[_Frame] = []

    def take(self, request: Request) -> None:
        """Put a request into a frame. Raises what `send` would, or _Declined, with nothing done."""
        size_bytes = len(request.body)
        self._share.take(size_bytes)
        if request.meaning.queue < 0:
            frame = self._take_json(request, request.meaning.topic)
        else:
            frame = self._take_records(request, request.meaning)
        frame.requests.append(request)
        frame.size_bytes += size_bytes

    def _frame(self, ack: AckMode) -> _Frame:
        is_synced = ack is AckMode.SYNC
        frame = self._open.get(is_synced)
        if frame is None or not frame.has_room():
            frame = self._open[is_synced] = _Frame(AckMode.SYNC if is_synced else AckMode.ASYNC)
            self.frames.append(frame)
        return frame

    def _topic(self, name: str) -> TopicSpec:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = places.writable_topic(self._catalog, name)
        return topic

    def _take_json(self, request: Request, name: str) -> _Frame:
        door = self._door
        settings = door.settings
        budget.renew()
        document = send_decoder.decode(request.body)
        topic = self._topic(name)
        encoded_name = name.encode()
        born_host = host_of(request.client)
        turn = -1
        made = []
        for message in document.messages:
            if drafts.is_delayed(message) or message.producer_id is not None:
                raise _Declined
            queue = drafts.queue_for(message, topic.writable_count)
            if queue is None:
                if turn < 0:
                    turn = door.next_turn(topic)
                queue = turn
            message_id = door.message_ids.new(wall_ms=self._now_ms)
            record = encode_record(
                topic=encoded_name,
                queue=queue,
                body=drafts.body_of(message, settings),
                properties=drafts.properties_of(message, message_id, settings),
                born_time_ms=self._now_ms,
                born_host=born_host,
            )
            made.append((queue, record, tag_hash(message.tag or ""), message_id))
        ack = document.ack or settings.default_ack
        frame = self._frame(ack)
        stored = []
        for queue, record, hashed, message_id in made:
            run = frame.run(name, queue)
            stored.append((run, len(run.records), message_id))
            run.records.append(record)
            run.hashes.append(hashed)
        frame.message_count += len(made)
        frame.answers.append(_Told(stored) if ack is not AckMode.ONEWAY else _nothing_told)
        return frame

    def _take_records(self, request: Request, meaning: Meaning) -> _Frame:
        payload, sizes = wire.parse_batch(request.body)
        ack = meaning.ack or self._door.settings.default_ack
        frame = self._frame(ack)
        part = _Records(
            RecordBatch(topic=meaning.topic, queue=meaning.queue, payload=payload, sizes=sizes)
        )
        frame.parts.append(part)
        frame.message_count += len(sizes)
        frame.answers.append(
            lambda: send.records_answer(
                part.appended, len(sizes), ack, wants_records=meaning.wants_records
            )
        )
        return frame


class _Told:
    """Makes the answer to a JSON send when its messages are stored."""

    __slots__ = ("_stored",)

    def __init__(self, stored: list[tuple[_Run, int, str]]) -> None:
        self._stored = stored

    def __call__(self) -> Answer:
        results = [
            SendResult(
                index,
                201,
                message_id,
                run.queue,
                str(run.appended.queue_offset + place),
                rfc3339(run.appended.store_time_ms),
                None,
            )
            for index, (run, place, message_id) in enumerate(self._stored)
        ]
        return answers.json(201, SendAnswer(results))


def _nothing_told() -> Answer:
    return answers.empty(202)


class TurnsOfSends:
    """Answers sends promptly: the clerk of a desk of `apps.bridge.prompt`."""

    def __init__(self, door: Door, engine_of: Callable[[], EngineAPI | None]) -> None:
        """Answer for the application that was created with the same door."""
        self._door = door
        self._engine_of = engine_of
        self._is_allowed_host = host_check(door.settings.allowed_hosts)
        self._waiting: set[asyncio.Task[None]] = set()

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
        ):
            return None
        content_type = fields.get(b"content-type")
        if content_type == _JSON:
            return Meaning(match.name, -1, None, wants_records=False)
        if content_type != _RECORDS:
            return None
        try:
            queue, ack = send.target_of(scope["query_string"])
        except Refusal:
            return None
        wants_records = _RECORDS in fields.get(b"accept", b"")
        return Meaning(match.name, queue, ack, wants_records=wants_records)

    def answer(self, requests: Sequence[Request]) -> None:
        """Store what the requests of a turn bring, and answer each when that is safe."""
        engine = self._engine_of()
        if engine is None:
            _decline(requests)
            return
        share = Share(self._door.in_flight)
        turn = _Turn(self._door, engine, share)
        for request in requests:
            try:
                turn.take(request)
            except Exception:  # Whatever is wrong with it, `send` finds it again and says so.
                request.decline()
        # What waits for the disk must not keep the rest from being answered.
        for frame in turn.frames:
            work = at_once(self._store(engine, frame))
            if work is not None:
                self._waiting.add(work)
                work.add_done_callback(self._waiting.discard)
        share.release()

    async def _store(self, engine: EngineAPI, frame: _Frame) -> None:
        try:
            batches = [part.batch() for part in frame.parts]
            appended = await engine.append(batches, ack=frame.ack)
            for part, where in zip(frame.parts, appended, strict=True):
                part.appended = where
            told = [answer_of() for answer_of in frame.answers]
        except FlushTimeout as error:
            # Stored, so sending it again would store it twice.
            self._refuse(frame, partial(answers.of_engine_error, error))
        except (Refused, Busy, MemoryError):
            # Nothing is stored, whichever of them is to blame; each alone may be.
            _decline(frame.requests)
        except EngineError as error:
            self._refuse(frame, partial(answers.of_engine_error, error))
        except Exception as error:  # The main loop of the door: requests end, the door does not.
            self._refuse(frame, partial(answers.of_bug, error))
        else:
            for request, answer in zip(frame.requests, told, strict=True):
                self._reply(request, answer)

    def _refuse(
        self, frame: _Frame, refusal: Callable[[bytes], tuple[Answer, Sequence[Header]]]
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


def _decline(requests: Sequence[Request]) -> None:
    for request in requests:
        request.decline()
