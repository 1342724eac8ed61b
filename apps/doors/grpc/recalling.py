"""RecallMessage: take a delayed message back. Translates only."""

import base64
import binascii

from apps.access.policy import Action, topic
from apps.doors.grpc import names
from apps.doors.grpc.calls import Call, GrpcDoor
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.statuses import OK, Illegal
from apps.doors.http.calls import settled
from apps.engine.delaytypes import Recall

_HANDLE_CHARACTERS_MAX = 64 * 1024


async def recall_message(_door: GrpcDoor, call: Call, request: pb.RecallMessageRequest) -> object:
    """Cancel a delayed message, for good when the answer is OK; safe to repeat."""
    name = names.writable_topic_of(request.topic, call.namespace)
    call.rights.require(topic(name), Action.PUB, Action.DECIDE)
    told = _told_by(request.recall_handle)
    if told is None or told[0] != name:
        raise Illegal(pb.BAD_REQUEST, "the recall handle is none of a message of this topic")
    outcome = await settled(call.engine.recall(request.recall_handle))
    if outcome is Recall.CANCELLED:
        return pb.RecallMessageResponse(status=OK, message_id=told[1])
    if outcome is Recall.DELIVERED:
        raise Illegal(pb.PRECONDITION_FAILED, "the message was delivered before")
    raise Illegal(pb.MESSAGE_NOT_FOUND, "nothing is known of a message of this handle")


def _told_by(handle: str) -> tuple[str, str] | None:
    """Return the topic and the message id a handle tells of; None for what no store has issued.

    `v1 topic broker due message-id number epoch check`, where only the id may have blanks. Whether
    it was issued the engine checks.
    """
    if len(handle) > _HANDLE_CHARACTERS_MAX:
        return None
    try:
        padded = handle.encode("ascii") + b"=" * (-len(handle) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        return None
    words = text.split(" ", 4)
    if len(words) != 5 or words[0] != "v1":
        return None
    return words[1], words[4].rsplit(" ", 3)[0]
