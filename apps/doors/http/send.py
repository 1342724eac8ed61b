"""POST /topics/{topic}/messages: JSON messages or a binary batch in, one append each.

Translates only: what is stored, when it is safe and what is refused is the engine's to say.
"""

import dataclasses
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from apps.doors.http import answers, drafts, places, reading
from apps.doors.http.answers import Answer
from apps.doors.http.calls import Call, Door
from apps.doors.http.drafts import Waiting
from apps.doors.http.refusals import invalid
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
from apps.engine.api import EngineAPI
from apps.engine.codec import wire
from apps.engine.codec.record import encode_record
from apps.engine.codec.tags import tag_hash
from apps.engine.errors import BatchTooLarge, EngineError
from apps.engine.types import AckMode, Appended, Cleanup, RecordBatch, Special, TopicSpec

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
    if call.query:
        # To ignore an `ack` there would promise less than was asked for.
        raise invalid("?", "messages in JSON say themselves what the query says of a binary batch")
    settings = door.settings
    body = await reading.body_of(call, settings.request_bytes_max)
    budget.renew()
    request = reading.decode(send_decoder, body)
    ack = request.ack or settings.default_ack
    sender = Sender(call.born_host(), call.request_id)
    results, has_failures = await stored(
        door, call.engine, call.name, request.messages, ack=ack, sender=sender
    )
    if has_failures:
        return answers.json(207, SendAnswer(results))
    return answers.empty(202) if ack is AckMode.ONEWAY else answers.json(201, SendAnswer(results))


class Sender(NamedTuple):
    """Where messages come from, as a record keeps it, and the id of the request with them."""

    born_host: bytes
    request_id: bytes


async def stored(
    door: Door,
    engine: EngineAPI,
    name: str,
    messages: list[OutgoingMessage],
    *,
    ack: AckMode,
    sender: Sender,
) -> tuple[list[SendResult], bool]:
    """Store the good ones of some messages in one append; one result each, and whether any is bad.

    Whoever sends messages to a topic does it by this. Raises Refusal for a delay that is none, and
    what the engine raises, with nothing stored.
    """
    topic = places.plain_topic(engine.catalog, name)
    results: list[SendResult] = [_NOTHING] * len(messages)
    runs, has_failures = _runs_of(door, sender, topic, messages, results)
    if runs:
        appended = await engine.append([_batch_of(topic.name, run) for run in runs], ack=ack)
        _fill(results, runs, appended, ack)
    return results, has_failures


# Stands where a message's result will be; every one is replaced before the answer.
_NOTHING = SendResult(-1, 500)
# Before the first run: no message is for such a queue.
_NO_RUN = drafts.Run(-1, Waiting.NOT, [], [], [], [], [], Special.NOTHING)


def _runs_of(
    door: Door,
    sender: Sender,
    topic: TopicSpec,
    messages: list[OutgoingMessage],
    results: list[SendResult],
) -> tuple[list[drafts.Run], bool]:
    """Encode the messages, consecutive ones for a queue together; put failures into `results`.

    Return the runs, and whether any message failed. Raises Refusal for a delay that is none.
    """
    settings = door.settings
    now_ms = door.clock.wall_ms()
    born_host = sender.born_host
    name = topic.name.encode()
    writable_count = topic.writable_count
    needs_key = topic.cleanup is Cleanup.COMPACT
    lite_name = places.lite_name(topic.name)
    turn = -1
    runs: list[drafts.Run] = []
    run = _NO_RUN
    has_failures = False
    for index, message in enumerate(messages):
        delay = None
        if drafts.is_delayed(message):
            delay = drafts.delay_of(message, f"/messages/{index}")
        try:
            if delay is not None:
                drafts.check_delay(delay, now_ms, settings)
            if needs_key:
                drafts.check_key(message)
            queue = drafts.queue_for(message, writable_count)
            body = drafts.body_of(message, settings)
            message_id = door.message_ids.new(wall_ms=now_ms)
            properties = drafts.properties_of(
                message, message_id, settings, delay, lite_name=lite_name
            )
        except EngineError as error:
            results[index] = _failure(index, error, sender)
            has_failures = True
            continue
        if queue is None:
            if turn < 0:
                turn = door.next_turn(topic)
            queue = turn
        record = encode_record(
            topic=name,
            queue=queue,
            body=body,
            properties=properties,
            born_time_ms=now_ms,
            born_host=born_host,
        )
        waiting = Waiting.NOT if delay is None else delay.waiting
        if queue != run.queue or waiting is not run.waiting:
            special = Special.NOTHING if delay is None else Special.DELAY
            run = drafts.Run(queue, waiting, [], [], [], [], [], special)
            runs.append(run)
        if message.producer_id is not None:
            run.special |= Special.SEQUENCE
        run.records.append(record)
        run.sizes.append(len(record))
        run.tag_hashes.append(tag_hash(message.tag or ""))
        run.indexes.append(index)
        run.message_ids.append(message_id)
    return runs, has_failures


def _batch_of(topic: str, run: drafts.Run) -> RecordBatch:
    return RecordBatch(
        topic=topic,
        queue=run.queue,
        payload=bytearray().join(run.records),
        sizes=np.array(run.sizes, dtype=np.int32),
        tag_hashes=np.array(run.tag_hashes, dtype=np.int64),
        special=run.special,
    )


def _fill(
    results: list[SendResult], runs: list[drafts.Run], appended: list[Appended], ack: AckMode
) -> None:
    """Put what became of the stored messages into `results`; oneway promises nothing of them."""
    for run, stored in zip(runs, appended, strict=True):
        if run.special and ack is not AckMode.ONEWAY:
            _fill_special(results, run, stored)
            continue
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


def _fill_special(results: list[SendResult], run: drafts.Run, stored: Appended) -> None:
    """Put what became of messages into `results` that wait, or that were stored before."""
    store_time = rfc3339(stored.store_time_ms)
    # Of a run that was stored before as a whole, the engine may know what it said of each message.
    are_all_told = len(stored.due_ms) == len(run.indexes)
    position = 0
    for place, index in enumerate(run.indexes):
        repeat = stored.repeats.get(place)
        if repeat is None:
            queue, queue_offset = stored.queue, stored.queue_offset + position
            result = SendResult(index, 201, run.message_ids[place], store_time=store_time)
        else:
            queue, queue_offset = repeat
            result = SendResult(index, 200, None, store_time=None, repeat=True)
        is_waiting = queue_offset < 0 if repeat else stored.is_delayed
        told_at = place if are_all_told else position
        is_told = is_waiting and (repeat is None or are_all_told)
        results[index] = replace(
            result,
            queue=queue,
            offset=None if is_waiting else str(queue_offset),
            recall_handle=stored.handles[told_at] if is_told and stored.handles else None,
            deliver_at=rfc3339(stored.due_ms[told_at]) if is_told else UNSET,
        )
        position += repeat is None


def _failure(index: int, error: EngineError, sender: Sender) -> SendResult:
    document = msgspec.convert(answers.problem_of(error, sender.request_id), Problem)
    return SendResult(index, document.status, problem=document)


async def _send_records(door: Door, call: Call) -> Answer:
    """Store a binary batch; the engine checks every record."""
    settings = door.settings
    queue, ack = target_of(call.query)
    ack = ack or settings.default_ack
    places.check_takes_messages(call.engine.catalog, call.name)
    data = await reading.body_of(call, settings.batch_bytes_max + wire.BATCH_TABLE_BYTES_MAX)
    payload, sizes = wire.parse_batch(data)
    if len(payload) > settings.batch_bytes_max:
        raise BatchTooLarge(f"the records are longer than {settings.batch_bytes_max} bytes")
    batch = RecordBatch(topic=call.name, queue=queue, payload=payload, sizes=sizes)
    (appended,) = await call.engine.append([batch], ack=ack)
    return records_answer(appended, len(sizes), ack, wants_records=reading.wants(call, _RECORDS))


def records_answer(appended: Appended, count: int, ack: AckMode, *, wants_records: bool) -> Answer:
    """Return the answer to a binary batch of `count` records."""
    if ack is AckMode.ONEWAY:
        return answers.empty(202)
    if appended.repeats:
        # All of it was stored before; the answer is about the whole batch, as the first one was.
        appended = dataclasses.replace(appended, count=count)
    if wants_records:
        return 201, answers.RECORDS, wire.build_appended(appended)
    return answers.json(201, batch_answer(appended))


def batch_answer(appended: Appended) -> BatchAnswer:
    """Return what a JSON answer says of a stored batch."""
    return BatchAnswer(
        queue=appended.queue,
        offset=None if appended.is_delayed else str(appended.queue_offset),
        count=appended.count,
        store_time=rfc3339(appended.store_time_ms),
        deliver_at=[rfc3339(due_ms) for due_ms in appended.due_ms] or UNSET,
        recall_handles=list(appended.handles) or UNSET,
        repeat=True if appended.repeats else UNSET,
    )


def target_of(query: bytes) -> tuple[int, AckMode | None]:
    """Return the queue a binary batch is for and the mode asked for; raise Refusal."""
    return (_kept_target if len(query) <= _QUERY_BYTES_KEPT else _target)(query)


def _target(query: bytes) -> tuple[int, AckMode | None]:
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
