"""One table from engine errors to HTTP statuses. Pure: knows engine errors, nothing of Django."""

from collections.abc import Mapping
from types import MappingProxyType

from apps.engine import errors

# A class that is missing here takes the status of its nearest ancestor.
STATUSES: Mapping[type[errors.EngineError], int] = MappingProxyType(
    {
        errors.EngineError: 500,
        errors.Refused: 422,
        errors.InvalidFilter: 400,
        errors.UnknownTopic: 404,
        errors.UnknownQueue: 404,
        errors.NotPermitted: 403,
        errors.MessageTooLarge: 413,
        errors.BatchTooLarge: 413,
        errors.HandleExpired: 410,
        errors.LockLost: 409,
        errors.StaleGeneration: 409,
        errors.HeadMoved: 409,
        errors.NotOrdered: 409,
        errors.OffsetsMoved: 409,
        errors.SequenceTooOld: 409,
        errors.UnknownTransaction: 404,
        errors.TransactionDecided: 409,
        errors.Unsupported: 501,
        errors.Busy: 503,
        errors.StoreFull: 507,
        errors.CannotOpen: 500,
        errors.Damaged: 500,
    }
)

# What a client is asked to wait before it repeats a request that was refused as busy.
RETRY_AFTER_S = 1


def status_of(error: errors.EngineError | type[errors.EngineError]) -> int:
    """Return the HTTP status of an engine error, or of a class of them."""
    kind = error if isinstance(error, type) else type(error)
    for ancestor in kind.__mro__:
        status = STATUSES.get(ancestor)
        if status is not None:
            return status
    raise TypeError(f"{kind.__name__} is no engine error")
