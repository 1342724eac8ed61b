"""Sends on their way into frames they share, and what makes the answer to each afterwards.

Knows what a send asks for; neither stores nor answers. What asks for more than to be stored has no
place in a shared frame.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from apps.access.policy import Action
from apps.access.policy import topic as topic_named
from apps.doors.http import answers, drafts, places, send
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Door, host_of
from apps.doors.http.inflight import Share
from apps.doors.http.shapes import SendAnswer, SendResult, budget, send_decoder
from apps.doors.http.times import rfc3339
from apps.engine import limits
from apps.engine.codec import wire
from apps.engine.codec.record import encode_record
from apps.engine.codec.tags import tag_hash
from apps.engine.types import AckMode, Appended, CatalogSnapshot, RecordBatch, TopicSpec

# A frame of this size takes the loop a millisecond.
_FRAME_BYTES = 512 * 1024


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

    __slots__ = ("ack", "digest", "queue", "topic", "wants_records")

    def __init__(
        self,
        topic: str,
        queue: int,
        ack: AckMode | None,
        *,
        wants_records: bool,
        digest: bytes | None = None,
    ) -> None:
        """Keep it; `queue` is -1 for JSON, `digest` that of the sender's token."""
        self.topic = topic
        self.queue = queue
        self.ack = ack
        self.wants_records = wants_records
        self.digest = digest


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


class Frame:
    """Requests that are stored in one frame, and what tells each what became of it."""

    __slots__ = (
        "ack", "answers", "message_count", "parts", "requests", "runs", "share", "size_bytes",
    )  # fmt: skip

    def __init__(self, ack: AckMode, share: Share) -> None:
        """Start without a request; `share` is what the requests hold of the memory."""
        self.ack = ack
        self.share = share
        self.requests: list[Request] = []
        self.answers: list[Callable[[], Answer]] = []
        self.parts: list[_Run | _Records] = []
        self.runs: dict[tuple[str, int], _Run] = {}
        self.size_bytes = 0
        self.message_count = 0

    def run(self, topic: str, queue: int) -> _Run:
        """Return the run of a queue."""
        run = self.runs.get((topic, queue))
        if run is None:
            run = self.runs[topic, queue] = _Run(topic, queue)
            self.parts.append(run)
        return run

    def has_room(self) -> bool:
        """Say whether another request may come into it."""
        return self.size_bytes < _FRAME_BYTES and self.message_count < limits.BATCH_MESSAGES_MAX


class NotPlain(Exception):
    """The request asks for more than to be stored."""


class Turn:
    """The requests of one turn on their way into frames."""

    def __init__(self, door: Door, catalog: CatalogSnapshot) -> None:
        """Start without a frame."""
        self._door = door
        self._catalog = catalog
        self._now_ms = door.clock.wall_ms()
        self._topics: dict[str, TopicSpec] = {}
        self._open: dict[bool, Frame] = {}
        self.frames: list[Frame] = []

    def take(self, request: Request) -> None:
        """Put a request into a frame. Raises what `send` would, or NotPlain, with nothing done."""
        if not self._may_send(request):
            raise NotPlain  # To be refused in one place.
        size_bytes = len(request.body)
        in_flight = self._door.in_flight
        if in_flight.bytes + size_bytes > in_flight.bytes_max:
            raise NotPlain  # To be refused, and counted, in one place.
        if request.meaning.queue < 0:
            frame = self._take_json(request, request.meaning.topic)
        else:
            frame = self._take_records(request, request.meaning)
        frame.requests.append(request)
        frame.size_bytes += size_bytes
        frame.share.add(size_bytes)

    def _may_send(self, request: Request) -> bool:
        gate = self._door.gate
        if gate is None:
            return True
        source = request.client[0] if request.client else ""
        return gate.may(
            request.meaning.digest, source, Action.PUB, topic_named(request.meaning.topic)
        )

    def _frame(self, ack: AckMode) -> Frame:
        is_synced = ack is AckMode.SYNC
        frame = self._open.get(is_synced)
        if frame is None or not frame.has_room():
            frame = self._open[is_synced] = Frame(
                AckMode.SYNC if is_synced else AckMode.ASYNC, Share(self._door.in_flight)
            )
            self.frames.append(frame)
        return frame

    def _topic(self, name: str) -> TopicSpec:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = places.plain_topic(self._catalog, name)
        return topic

    def _take_json(self, request: Request, name: str) -> Frame:
        door = self._door
        settings = door.settings
        budget.renew()
        document = send_decoder.decode(request.body)
        topic = self._topic(name)
        encoded_name = name.encode()
        lite_name = places.lite_name(name)
        born_host = host_of(request.client)
        turn = -1
        made = []
        for message in document.messages:
            if drafts.is_delayed(message) or message.producer_id is not None:
                raise NotPlain
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
                properties=drafts.properties_of(message, message_id, settings, lite_name=lite_name),
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

    def _take_records(self, request: Request, meaning: Meaning) -> Frame:
        places.check_takes_messages(self._catalog, meaning.topic)
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
