"""Which code of the protocol each refusal has. Knows engine errors and codes, no method.

A refusal travels inside an answer, and the call itself succeeds: RocketMQ's clients hand an error
of gRPC to the application as it is.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType

from apps.access.gate import Denied
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.guard.clients import TooMany
from apps.doors.http.refusals import Refusal
from apps.engine import errors

_log = logging.getLogger("mqweb.grpc")

OK = pb.Status(code=pb.OK, message="ok")

# A class that is missing here has the code of its nearest ancestor.
CODES: Mapping[type[errors.EngineError], pb.Code] = MappingProxyType(
    {
        errors.EngineError: pb.INTERNAL_SERVER_ERROR,
        errors.Refused: pb.BAD_REQUEST,
        errors.InvalidFilter: pb.ILLEGAL_FILTER_EXPRESSION,
        errors.UnknownTopic: pb.TOPIC_NOT_FOUND,
        errors.UnknownQueue: pb.NOT_FOUND,
        errors.NotPermitted: pb.FORBIDDEN,
        errors.MessageTooLarge: pb.PAYLOAD_TOO_LARGE,
        errors.BatchTooLarge: pb.PAYLOAD_TOO_LARGE,
        errors.MalformedBatch: pb.MESSAGE_CORRUPTED,
        errors.ChecksumMismatch: pb.MESSAGE_CORRUPTED,
        errors.MessageIllegal: pb.ILLEGAL_MESSAGE_KEY,
        errors.InvalidLiteTopic: pb.ILLEGAL_LITE_TOPIC,
        errors.LiteTopicsExhausted: pb.LITE_TOPIC_QUOTA_EXCEEDED,
        errors.LiteSubscriptionsExhausted: pb.LITE_SUBSCRIPTION_QUOTA_EXCEEDED,
        errors.OffsetOutOfRange: pb.ILLEGAL_OFFSET,
        errors.InvalidHandle: pb.INVALID_RECEIPT_HANDLE,
        errors.HandleExpired: pb.INVALID_RECEIPT_HANDLE,
        errors.LockLost: pb.PRECONDITION_FAILED,
        errors.StaleGeneration: pb.PRECONDITION_FAILED,
        errors.HeadMoved: pb.PRECONDITION_FAILED,
        errors.NotOrdered: pb.PRECONDITION_FAILED,
        errors.OffsetsMoved: pb.PRECONDITION_FAILED,
        errors.DelayTooLong: pb.ILLEGAL_DELIVERY_TIME,
        errors.UnknownTransaction: pb.INVALID_TRANSACTION_ID,
        errors.TransactionDecided: pb.PRECONDITION_FAILED,
        errors.Unsupported: pb.UNSUPPORTED,
        errors.Busy: pb.HA_NOT_AVAILABLE,
        errors.OutOfMeans: pb.TOO_MANY_REQUESTS,
        errors.Overloaded: pb.TOO_MANY_REQUESTS,
        errors.SyncStuck: pb.MASTER_PERSISTENCE_TIMEOUT,
        errors.FlushTimeout: pb.MASTER_PERSISTENCE_TIMEOUT,
        errors.CannotOpen: pb.INTERNAL_SERVER_ERROR,
        errors.Damaged: pb.INTERNAL_SERVER_ERROR,
    }
)
_REFUSALS: Mapping[str, pb.Code] = MappingProxyType(
    {
        "overloaded": pb.TOO_MANY_REQUESTS,
        "unauthenticated": pb.UNAUTHORIZED,
        "forbidden": pb.FORBIDDEN,
        "database_unavailable": pb.HA_NOT_AVAILABLE,
    }
)


class Illegal(Exception):
    """A request that the door itself refuses, with a code of the protocol."""

    def __init__(self, code: pb.Code, detail: str) -> None:
        """Keep the code and the sentence."""
        super().__init__(detail)
        self.code = code


def code_of(error: errors.EngineError | type[errors.EngineError]) -> pb.Code:
    """Return the code of an engine error, or of a class of them."""
    kind = error if isinstance(error, type) else type(error)
    for ancestor in kind.__mro__:
        code = CODES.get(ancestor)
        if code is not None:
            return code
    raise TypeError(f"{kind.__name__} is no engine error")


def status_of(error: Exception, request_id: str) -> pb.Status:
    """Return what an answer says of an error, whatever it is.

    What the server is to blame for is logged; its text may name files, so callers get the id of
    their request to ask about.
    """
    if isinstance(error, Illegal):
        return pb.Status(code=error.code, message=str(error))
    if isinstance(error, Denied | Refusal):
        kind = error.code if isinstance(error, Denied) else error.kind.code
        return pb.Status(code=_REFUSALS.get(kind, pb.BAD_REQUEST), message=str(error))
    if isinstance(error, TooMany):
        return pb.Status(code=pb.TOO_MANY_REQUESTS, message=str(error))
    if isinstance(error, MemoryError):
        error = errors.OutOfMeans("no memory is left for this request")
    if isinstance(error, errors.EngineError):
        code = code_of(error)
        if code != pb.INTERNAL_SERVER_ERROR:
            return pb.Status(code=code, message=str(error))
    _log.error("grpc_call_failed", exc_info=error, extra={"request_id": request_id})
    return pb.Status(
        code=pb.INTERNAL_SERVER_ERROR,
        message=f"the server failed; its log has more about request {request_id}",
    )
