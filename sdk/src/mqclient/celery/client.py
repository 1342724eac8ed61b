"""Requests to the broker from the thread that needs their answer. Knows calls and patience.

A publish whose answer was lost is sent again: a message may be stored twice, never not at all.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from mqclient.celery.options import Options
from mqclient.clock import Clock
from mqclient.limits import MIB
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Call, Calls
from mqclient.protocol.endpoint import Endpoint
from mqclient.protocol.plans import Patience, persistently
from mqclient.transport.blocking import Pool
from mqclient.values import AckMode
from mqclient.wire.batches import Pulled
from mqclient.wire.ids import IDS, local_address
from mqclient.wire.properties import pack_properties, with_unique_key
from mqclient.wire.records import pack_record, topic_part

T = TypeVar("T")

# Past every end: the broker's answer then says where the end is.
_BEYOND = (1 << 63) - 1
PULL_BYTES_MAX = 4 * MIB


class Client:
    """Blocking requests, each repeated within its time. Any thread may use it."""

    def __init__(self, endpoint: Endpoint, options: Options, *, clock: Clock) -> None:
        """Connect to nothing yet."""
        self.endpoint = endpoint
        self.options = options
        self.clock = clock
        self.calls = Calls(endpoint)
        self.pool = Pool(endpoint, clock=clock)
        self._backoff = Backoff()
        self._born_host = local_address() + bytes(4)

    def run(self, call: Call[T], *, timeout_s: float | None = None) -> T:
        """Carry out a call, again and again while that may help; raise MqError."""
        patience = Patience(
            clock=self.clock,
            backoff=self._backoff,
            timeout_s=self.options.timeout_s if timeout_s is None else timeout_s,
        )
        return self.pool.run(persistently(call, patience))

    def check(self, *, timeout_s: float) -> None:
        """Return when the broker serves; raise MqError after one try."""
        self.pool.call(self.calls.ready(), timeout_s)

    def record(
        self,
        topic: str,
        queue: int,
        body: bytes,
        *,
        tag: str | None = None,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return a message as it is stored, with an id of its own."""
        wall_ms = self.clock.wall_ms()
        keys = () if key is None else (key,)
        shared = pack_properties(tag=tag, keys=keys, properties=properties)
        return pack_record(
            topic_part(topic),
            queue,
            body,
            with_unique_key(shared, IDS.next(wall_ms)),
            wall_ms,
            self._born_host,
        )

    def storing(
        self, topic: str, queue: int, records: Sequence[bytes], *, ack: AckMode | None
    ) -> Call[object]:
        """Return the call that stores records; it may be repeated."""
        return self.calls.send_batch(topic, queue, records, ack, is_repeatable=True)

    def put(
        self,
        topic: str,
        queue: int,
        body: bytes,
        *,
        ack: AckMode | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Store a message and wait for the broker's answer; raise MqError."""
        record = self.record(topic, queue, body)
        self.run(self.storing(topic, queue, [record], ack=ack), timeout_s=timeout_s)

    def pull(self, topic: str, queue_offset: int, *, messages_max: int) -> Pulled:
        """Read queue 0 of a topic from an offset, without waiting; raise MqError."""
        return self.run(
            self.calls.pull(
                topic, 0, queue_offset, messages_max=messages_max, bytes_max=PULL_BYTES_MAX
            )
        )

    def end_offset(self, topic: str, queue: int = 0) -> int:
        """Return the offset the next message will have; raise UnknownTopic or UnknownQueue."""
        call = self.calls.pull(topic, queue, _BEYOND, messages_max=1, bytes_max=1)
        return self.run(call).max_offset
