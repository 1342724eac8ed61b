"""What the other side said, as an error of this library. Knows codes, no requests."""

import grpc

from mqclient.errors import (
    ConnectionLost,
    Forbidden,
    HandleExpired,
    MessageIllegal,
    MessageTooLarge,
    MqError,
    Refused,
    ServerFailed,
    TimedOut,
    TooManyRequests,
    Unauthenticated,
    UnknownTopic,
    Unsupported,
)
from mqclient.rocketmq.protos import rocketmq_pb2 as pb

_ERRORS: dict[int, type[MqError]] = {
    pb.TOPIC_NOT_FOUND: UnknownTopic,
    pb.UNAUTHORIZED: Unauthenticated,
    pb.FORBIDDEN: Forbidden,
    pb.INVALID_RECEIPT_HANDLE: HandleExpired,
    pb.MESSAGE_BODY_TOO_LARGE: MessageTooLarge,
    pb.MESSAGE_PROPERTIES_TOO_LARGE: MessageTooLarge,
    pb.PAYLOAD_TOO_LARGE: MessageTooLarge,
    pb.MESSAGE_BODY_EMPTY: MessageIllegal,
    pb.ILLEGAL_MESSAGE_TAG: MessageIllegal,
    pb.ILLEGAL_MESSAGE_KEY: MessageIllegal,
    pb.ILLEGAL_MESSAGE_GROUP: MessageIllegal,
    pb.ILLEGAL_MESSAGE_PROPERTY_KEY: MessageIllegal,
    pb.ILLEGAL_MESSAGE_ID: MessageIllegal,
    pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE: MessageIllegal,
    pb.MESSAGE_CORRUPTED: MessageIllegal,
    pb.TOO_MANY_REQUESTS: TooManyRequests,
    pb.NOT_IMPLEMENTED: Unsupported,
    pb.UNSUPPORTED: Unsupported,
}
# As the REST API calls it.
LITES_EXHAUSTED = "lite_topics_exhausted"
_FIRST_FAILURE = 50_000
_FINE = frozenset({pb.OK, pb.MULTIPLE_RESULTS})


def check(status: pb.Status, what: str) -> None:
    """Return where a status is a success; raise MqError."""
    if status.code in _FINE:
        return
    name = pb.Code.Name(status.code) if status.code in pb.Code.values() else str(status.code)
    text = f"{what}: {name}: {status.message}" if status.message else f"{what}: {name}"
    kind = _ERRORS.get(status.code)
    if kind is None:
        # What the other side failed at may be done all the same, and may go well another time.
        kind = ServerFailed if status.code >= _FIRST_FAILURE or status.code == 0 else Refused
    if status.code == pb.LITE_TOPIC_QUOTA_EXCEEDED:
        raise Refused(text, code=LITES_EXHAUSTED)
    if kind is ServerFailed:
        raise ServerFailed(text, retriable=True, outcome="unknown")
    raise kind(text)


def lost(error: grpc.RpcError, what: str) -> MqError:
    """Return what became of a call that has no answer."""
    code = error.code()
    text = f"{what}: {error.details() or code.name}"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return TimedOut(text)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return Unsupported(text)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return MessageTooLarge(text)
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return ConnectionLost(text)
    return ServerFailed(text, retriable=True, outcome="unknown")
