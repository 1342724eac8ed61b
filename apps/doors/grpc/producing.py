"""SendMessage: messages in, one append, and where each went. Translates only.

What is stored, when it is safe and what is refused is the engine's to say.
"""

import numpy as np

from apps.access.policy import Action, topic
from apps.doors.grpc import drafts, names, transactions
from apps.doors.grpc.calls import Call, GrpcDoor
from apps.doors.grpc.drafts import Draft
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.statuses import OK, Illegal
from apps.doors.http import places
from apps.engine import limits
from apps.engine.codec.litenames import lite_topic
from apps.engine.codec.record import encode_record
from apps.engine.codec.tags import tag_hash
from apps.engine.errors import NotPermitted
from apps.engine.types import (
    PERM_WRITE,
    AckMode,
    Appended,
    RecordBatch,
    Special,
    TopicSpec,
)


async def send_message(door: GrpcDoor, call: Call, request: pb.SendMessageRequest) -> object:
    """Store the messages of one request, all or none; one entry each, in order."""
    name = _topic_of(call, request)
    call.rights.require(topic(name), Action.PUB)
    spec = places.writable_topic(call.engine.catalog, name)
    if not spec.perm & PERM_WRITE:
        raise NotPermitted(f"topic {name} takes no messages")
    now_ms = door.door.clock.wall_ms()
    made = [
        drafts.draft_of(message, spec, door.door.settings, client_id=call.client_id, now_ms=now_ms)
        for message in request.messages
    ]
    call.session.sends_to(name)
    if any(draft.kind == pb.TRANSACTION for draft in made):
        if len(made) > 1:
            raise Illegal(pb.BAD_REQUEST, "a transaction has one message")
        entries = [await transactions.begin(door, call, spec, made[0])]
    else:
        entries = await _stored(door, call, spec, made)
    return pb.SendMessageResponse(status=OK, entries=entries)


def _topic_of(call: Call, request: pb.SendMessageRequest) -> str:
    """Return the topic that all messages are for; raise Illegal."""
    if not request.messages:
        raise Illegal(pb.MESSAGE_CORRUPTED, "the request has no message")
    if len(request.messages) > limits.BATCH_MESSAGES_MAX:
        raise Illegal(
            pb.PAYLOAD_TOO_LARGE, f"a request has at most {limits.BATCH_MESSAGES_MAX} messages"
        )
    found = {(message.topic.resource_namespace, message.topic.name) for message in request.messages}
    if len(found) > 1:
        raise Illegal(pb.MESSAGE_CORRUPTED, "the messages of a request are for one topic")
    return names.writable_topic_of(request.messages[0].topic, call.namespace)


async def _stored(
    door: GrpcDoor, call: Call, spec: TopicSpec, made: list[Draft]
) -> list[pb.SendResultEntry]:
    turn = -1
    runs: dict[tuple[str, int, bool], list[int]] = {}
    for place, draft in enumerate(made):
        queue = draft.queue
        if queue is None:
            if turn < 0:
                turn = door.door.next_turn(spec)
            queue = turn
        name = lite_topic(spec.name, draft.lite_name) if draft.lite_name else spec.name
        runs.setdefault((name, queue, draft.is_delayed), []).append(place)
    batches = [
        batch_of(name, queue, [made[place] for place in run], call.born_host())
        for (name, queue, _), run in runs.items()
    ]
    ack = door.door.settings.default_ack
    ack = AckMode.ASYNC if ack is AckMode.ONEWAY else ack
    appended = await call.engine.append(batches, ack=ack)
    entries: dict[int, pb.SendResultEntry] = {}
    for run, stored in zip(runs.values(), appended, strict=True):
        for index, place in enumerate(run):
            entries[place] = _entry_of(made[place], stored, index)
    return [entries[place] for place in range(len(made))]


def _entry_of(draft: Draft, stored: Appended, index: int) -> pb.SendResultEntry:
    if stored.is_delayed:
        handle = stored.handles[index] if stored.handles else ""
        return pb.SendResultEntry(status=OK, message_id=draft.message_id, recall_handle=handle)
    return pb.SendResultEntry(
        status=OK, message_id=draft.message_id, offset=stored.queue_offset + index
    )


def batch_of(name: str, queue: int, made: list[Draft], born_host: bytes) -> RecordBatch:
    """Return messages for one queue, that wait alike, as the engine takes them."""
    topic_name = name.encode()
    records = [
        encode_record(
            topic=topic_name,
            queue=queue,
            body=draft.body,
            properties=draft.properties,
            born_time_ms=draft.born_time_ms,
            born_host=born_host,
        )
        for draft in made
    ]
    return RecordBatch(
        topic=name,
        queue=queue,
        payload=bytearray().join(records),
        sizes=np.array([len(record) for record in records], dtype=np.int32),
        tag_hashes=np.array([tag_hash(draft.tag) for draft in made], dtype=np.int64),
        special=Special.DELAY if made[0].is_delayed else Special.NOTHING,
    )
