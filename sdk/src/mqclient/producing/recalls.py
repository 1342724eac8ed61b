"""Taking a delayed message back, or sending it at once, as plans. Knows no sockets or loops."""

from mqclient.errors import AlreadyCancelled, AlreadyDelivered, InvalidArgument, UnknownHandle
from mqclient.protocol.calls import Call, Calls
from mqclient.protocol.plans import Patience, Plan, persistently
from mqclient.values import Recalled


def recall(calls: Calls, handle: str, patience: Patience) -> Plan[Recalled]:
    """Cancel a delayed message; raise MqError where the broker does not say what became of it."""
    answer = yield from _asked(calls.recall(_checked(handle)), patience)
    return answer or Recalled.CANCELLED


def deliver_now(calls: Calls, handle: str, patience: Patience) -> Plan[Recalled]:
    """Deliver a delayed message before its time; raise MqError as `recall` does."""
    answer = yield from _asked(calls.deliver_now(_checked(handle)), patience)
    return answer or Recalled.DELIVERED


def _asked(call: Call[None], patience: Patience) -> Plan[Recalled | None]:
    """Return what had become of the message before; None where the call did its work."""
    try:
        yield from persistently(call, patience)
    except AlreadyDelivered:
        return Recalled.DELIVERED
    except AlreadyCancelled:
        return Recalled.CANCELLED
    except UnknownHandle:
        return Recalled.UNKNOWN
    return None


def _checked(handle: str) -> str:
    if not handle:
        raise InvalidArgument("a recall handle is not empty; a delay level gives none")
    return handle
