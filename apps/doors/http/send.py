"""POST /topics/{topic}/messages: JSON messages or a binary batch in, one append each.

Translates only: what is stored, when it is safe and what is refused is the engine's to say.
"""

from functools import lru_cache

import msgspec
import numpy as np

from apps.doors.http import answers, drafts, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.refusals import Refusal, invalid
from apps.doors.http.shapes import (
    BatchAnswer,
    OutgoingMessage,
    Problem,
    SendAnswer,
    SendResult,
    budget,
    send_decoder,
)
from apps.doors.http.times import rfc3339
from apps.engine import limits
from apps.engine.codec import wire
from apps.engine.codec.record import encode_record
from apps.engine.codec.tags import tag_hash
from apps.engine.errors import BatchTooLarge, EngineError, UnknownQueue, UnknownTopic
from apps.engine.types import AckMode, Appended, RecordBatch, TopicSpec

_RECORDS = wire.MEDIA_TYPE.encode()
_JSON = b"application/json"


async def send(door: Door, call: Call) -> Answer:
    """Store the messages of one request in one append."""
    content_type = call.fields.get(b"content-type", b"")
    if content_type != _JSON:
        if content_type == _RECORDS:
            return await _send_records(door, call)
        if not reading.is_json(content_type):
            raise reading.unsupported_media_type(_JSON.decode(), wire.MEDIA_TYPE)
    settings = door.settings
    body = await reading.body_of(call, settings.request_bytes_max)
    budget.renew()
    request = reading.decode(send_decoder, body)
    messages = request.messages
    for index, message in enumerate(messages):
        field = drafts.is_delayed(message)
        if field is not None:
            raise _delay_unsupported(f"/messages/{index}/{field}")
    topic = _topic(call)
    results: list[SendResult] = [_NOTHING] * len(messages)
    runs, has_failures = _runs_of(door, call, topic, messages, results)
    ack = request.ack or settings.default_ack
    if runs:
        appended = await call.engine.append([_batch_of(topic.name, run) for run in runs], ack=ack)
        _fill(results, runs, appended, ack)
    if has_failures:
        return answers.json(207, SendAnswer(results))
    return answers.empty(202) if ack is AckMode.ONEWAY else answers.json(201, SendAnswer(results))


# Stands where a message's result will be; every one is replaced before the answer.
_NOTHING = SendResult(-1, 500)


def _delay_unsupported(pointer: str) -> Refusal:
    detail = "delayed messages do not exist in this version"
    return Refusal("unsupported", detail, errors=({"pointer": pointer, "detail": detail},))


def _topic(call: Call) -> TopicSpec:
    topic = call.engine.catalog.topics.get(call.name)
    if topic is None:
        raise UnknownTopic(f"there is no topic {call.name}")
    if topic.writable_count == 0:
        raise UnknownQueue("no queue of the topic takes messages")
    return topic


def _runs_of(
    door: Door,
    call: Call,
    topic: TopicSpec,
    messages: list[OutgoingMessage],
    results: list[SendResult],
) -> tuple[list[drafts.Run], bool]:
    """Encode the messages, consecutive ones for a queue together; put failures into `results`.

    Return the runs, and whether any message failed.
    """
    settings = door.settings
    now_ms = door.clock.wall_ms()
    born_host = call.born_host()
    name = topic.name.encode()
    writable_count = topic.writable_count
    turn = -1
    runs: list[drafts.Run] = []
    last_queue = -1
    has_failures = False
    for index, message in enumerate(messages):
        try:
            queue = drafts.queue_for(message, writable_count)
            body = drafts.body_of(message, settings)
            message_id = door.message_ids.new(wall_ms=now_ms)
            properties = drafts.properties_of(message, message_id, settings)
        except EngineError as error:
            results[index] = _failure(index, error, call)
            has_failures = True
            continue
        if queue is None:
            if turn < 0:
                turn = _next_turn(door, topic)
            queue = turn
        record = encode_record(
            topic=name,
            queue=queue,
            body=body,
            properties=properties,
            born_time_ms=now_ms,
            born_host=born_host,
        )
        if queue != last_queue:
            run = drafts.Run(queue, [], [], [], [], [])
            runs.append(run)
            last_queue = queue
        run.records.append(record)
        run.sizes.append(len(record))
        run.tag_hashes.append(tag_hash(message.tag or ""))
        run.indexes.append(index)
        run.message_ids.append(message_id)
    return runs, has_failures


def _next_turn(door: Door, topic: TopicSpec) -> int:
    """Return the queue whose turn it is; a request's messages without a key stay together."""
    turn = door.turns.get(topic.name, 0)
    door.turns[topic.name] = turn + 1
    return turn % topic.writable_count


def _batch_of(topic: str, run: drafts.Run) -> RecordBatch:
    return RecordBatch(
        topic=topic,
        queue=run.queue,
        payload=bytearray().join(run.records),
        sizes=np.array(run.sizes, dtype=np.int32),
        tag_hashes=np.array(run.tag_hashes, dtype=np.int64),
    )


def _fill(
    results: list[SendResult], runs: list[drafts.Run], appended: list[Appended], ack: AckMode
) -> None:
    """Put what became of the stored messages into `results`; oneway promises nothing of them."""
    for run, stored in zip(runs, appended, strict=True):
        queue, first = stored.queue, stored.queue_offset
        store_time = rfc3339(stored.store_time_ms)
        for place, index in enumerate(run.indexes):
            results[index] = (
                SendResult(index, 202)
                if ack is AckMode.ONEWAY
                else SendResult(
                    index, 201, run.message_ids[place], queue, str(first + place), store_time, None
                )
            )


def _failure(index: int, error: EngineError, call: Call) -> SendResult:
    document = msgspec.convert(answers.problem_of(error, call.request_id), Problem)
    return SendResult(index, document.status, problem=document)


async def _send_records(door: Door, call: Call) -> Answer:
    """Store a binary batch; the engine checks every record."""
    settings = door.settings
    is_kept = len(call.query) <= _QUERY_BYTES_KEPT
    queue, ack = (_kept_target if is_kept else _target)(call.query)
    ack = ack or settings.default_ack
    data = await reading.body_of(call, settings.batch_bytes_max + wire.BATCH_TABLE_BYTES_MAX)
    payload, sizes = wire.parse_batch(data)
    if len(payload) > settings.batch_bytes_max:
        raise BatchTooLarge(f"the records are longer than {settings.batch_bytes_max} bytes")
    batch = RecordBatch(topic=call.name, queue=queue, payload=payload, sizes=sizes)
    (appended,) = await call.engine.append([batch], ack=ack)
    if ack is AckMode.ONEWAY:
        return answers.empty(202)
    if reading.wants(call, _RECORDS):
        return 201, answers.RECORDS, wire.build_appended(appended)
    return answers.json(
        201,
        BatchAnswer(
            queue=appended.queue,
            offset=str(appended.queue_offset),
            count=appended.count,
            store_time=rfc3339(appended.store_time_ms),
        ),
    )


def _target(query: bytes) -> tuple[int, AckMode | None]:
    """Return the queue a binary batch is for and the mode asked for; raise Refusal."""
    values = reading.parameters_of(query, ("queue", "ack"))
    queue = reading.number(values, "queue", default=None, high=limits.QUEUE_COUNT_MAX - 1)
    ack = values.get("ack")
    try:
        return queue, None if ack is None else AckMode(ack)
    except ValueError:
        raise invalid("?ack", f"must be one of {', '.join(AckMode)}") from None


# A client sends with the same few queries again and again; a longer one is read each time.
_QUERY_BYTES_KEPT = 64
_kept_target = lru_cache(maxsize=4096)(_target)
