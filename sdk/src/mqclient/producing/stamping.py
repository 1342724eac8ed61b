"""Properties a message gets when its queue is known, right before it is packed. Knows no sockets.

Two kinds: what interceptors say of a queue, and the number by which the broker knows a repeat.
"""

import logging
import secrets
from collections.abc import Iterator, Sequence

from mqclient.errors import InvalidArgument
from mqclient.producing.parcels import Draft, Parcel
from mqclient.producing.settings import Interceptor, QueueInterceptor
from mqclient.wire.properties import PRODUCER_SEQUENCE, pack_properties

logger = logging.getLogger("mqclient")

# A sequence number is of at most 19 digits.
SEQUENCE_BYTES_MAX = len(PRODUCER_SEQUENCE) + 2 + 19
_STAMP_BYTES_MAX = 1_024


def new_producer_id() -> str:
    """Return the name of one producer, of this and of every other process."""
    return secrets.token_hex(8)


class Stamping:
    """Completes drafts. Calls for one queue come one after the other, in the queue's order."""

    def __init__(self, interceptors: Sequence[Interceptor]) -> None:
        self._interceptors = [item for item in interceptors if isinstance(item, QueueInterceptor)]

    def drafts(self, parcel: Parcel, topic: str, queue: int) -> Iterator[Draft]:
        """Yield a parcel's bodies with the whole properties; the same ones whenever it is sent."""
        if parcel.stamp is None:
            # What is delayed comes in another order than it is sent.
            parcel.stamp = b"" if parcel.is_delayed else self._stamp(topic, queue)
        sequence = parcel.first_sequence
        for body, properties in parcel.drafts:
            if sequence is None:
                yield body, properties + parcel.stamp
            else:
                number = f"{PRODUCER_SEQUENCE}\x01{sequence}\x02".encode("ascii")
                yield body, properties + parcel.stamp + number
                sequence += 1

    def _stamp(self, topic: str, queue: int) -> bytes:
        stamp = b""
        for interceptor in self._interceptors:
            try:
                added = pack_properties(properties=interceptor.for_queue(topic, queue))
                if len(stamp) + len(added) > _STAMP_BYTES_MAX:
                    raise InvalidArgument(f"over {_STAMP_BYTES_MAX} bytes of properties")
            except Exception:
                # Foreign code must not break the send.
                logger.exception("an interceptor failed to say what belongs to a queue")
            else:
                stamp += added
        return stamp
