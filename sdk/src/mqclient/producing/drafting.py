"""From what a caller says to a parcel, with interceptors and limits. Knows no queues or sockets."""

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial

from mqclient.clock import Clock
from mqclient.errors import InvalidArgument, MessageTooLarge
from mqclient.limits import BODY_BYTES_MAX
from mqclient.names import checked_name
from mqclient.producing.parcels import Parcel, Route
from mqclient.producing.settings import ProducerSettings
from mqclient.producing.stamping import SEQUENCE_BYTES_MAX, new_producer_id
from mqclient.times import milliseconds_of
from mqclient.values import AckMode, OutgoingMessage
from mqclient.wire.ids import IDS
from mqclient.wire.properties import (
    DELAY_LEVEL,
    DELAY_MS,
    DELIVER_AT_MS,
    PRIORITY,
    PRODUCER_ID,
    UNIQUE_KEY_START,
    pack_properties,
    with_unique_key,
)
from mqclient.wire.records import SMALLEST_BYTES

logger = logging.getLogger("mqclient")

# RocketMQ's clients have ids of 34 characters, and ours of 32.
_MESSAGE_ID_CHARACTERS_MAX = 255
_PRIORITY_MAX = 2**31 - 1

_checked_topic = lru_cache(maxsize=4096)(partial(checked_name, what="topic"))
_packed_tag = lru_cache(maxsize=4096)(lambda tag: pack_properties(tag=tag))


def outgoing(
    topic: str,
    body: bytes | str,
    *,
    tag: str | None = None,
    keys: Sequence[str] | str = (),
    properties: Mapping[str, str] | None = None,
    sharding_key: str | None = None,
    queue: int | None = None,
    priority: int | None = None,
    delay_level: int | None = None,
    delay_ms: int | None = None,
    deliver_at: datetime | int | None = None,
) -> OutgoingMessage:
    """Return the message a caller describes; raise InvalidArgument for what cannot be sent."""
    if isinstance(body, str):
        body = body.encode()
    elif not isinstance(body, bytes):
        body = bytes(memoryview(body))
    if queue is not None and (queue < 0 or sharding_key is not None):
        raise InvalidArgument("a queue is a number from 0 on, and excludes a sharding key")
    _check_priority(priority, queue, sharding_key)
    _check_delay(delay_level, delay_ms, deliver_at)
    return OutgoingMessage(
        topic=_checked_topic(topic),
        body=body,
        tag=tag,
        keys=(keys,) if isinstance(keys, str) else tuple(keys),
        properties=properties or {},
        sharding_key=sharding_key,
        queue=queue,
        priority=priority,
        delay_level=delay_level,
        delay_ms=delay_ms,
        deliver_at_ms=None if deliver_at is None else milliseconds_of(deliver_at),
    )


class Drafting:
    """Makes parcels for one producer."""

    def __init__(self, settings: ProducerSettings, *, clock: Clock, lock: threading.Lock) -> None:
        self._producer_id = new_producer_id() if settings.idempotent else None
        self._settings = settings
        self._clock = clock
        self._lock = lock
        self._ack = settings.ack
        self._timeout_s = settings.timeout_s
        self._is_plain = not settings.idempotent and settings.selector is None

    def draft(
        self,
        topic: str,
        body: bytes | str,
        tag: str | None,
        keys: Sequence[str] | str,
        properties: Mapping[str, str] | None,
        sharding_key: str | None,
        queue: int | None,
        priority: int | None,
        delay_level: int | None,
        delay_ms: int | None,
        deliver_at: datetime | int | None,
    ) -> Parcel:
        """Return a parcel of the one message a caller describes, as `parcel` of `outgoing` does.

        What most messages are is made without a description in between, which costs less.
        """
        if isinstance(body, str):
            body = body.encode()
        if (
            not self._is_plain
            or self._settings.interceptors
            or type(body) is not bytes
            or len(body) > BODY_BYTES_MAX
            or priority is not None
            or not (delay_level is None and delay_ms is None and deliver_at is None)
            or (queue is not None and (queue < 0 or sharding_key is not None))
        ):
            return self.parcel(
                outgoing(
                    topic, body, tag=tag, keys=keys, properties=properties,
                    sharding_key=sharding_key, queue=queue, priority=priority,
                    delay_level=delay_level, delay_ms=delay_ms, deliver_at=deliver_at,
                )
            )  # fmt: skip
        _checked_topic(topic)
        if type(keys) is tuple and not keys and not properties and sharding_key is None:
            shared = _packed_tag(tag)
        else:
            shared = pack_properties(
                tag=tag,
                keys=(keys,) if isinstance(keys, str) else tuple(keys),
                sharding_key=sharding_key,
                properties=properties,
            )
        wall_ms = self._clock.wall_ms()
        message_id = IDS.next(wall_ms)
        section = with_unique_key(shared, message_id)
        return Parcel(
            topic,
            ((body, section),),
            (message_id,),
            route=sharding_key if queue is None else queue,
            ack=self._ack,
            born_ms=wall_ms,
            deadline_s=self._clock.steady_s() + self._timeout_s,
            size_bytes=len(body) + SMALLEST_BYTES + len(topic) + len(section),
            lock=self._lock,
        )

    def parcel(self, message: OutgoingMessage, ack: AckMode | None = None) -> Parcel:
        """Return a parcel of one message; interceptors have seen it and are told its end."""
        for interceptor in self._settings.interceptors:
            try:
                message = interceptor.before_send(message)
            except Exception:
                # Foreign code must not break the send.
                logger.exception("an interceptor raised before a send")
        parcel = self._pack([message.body], message, ack)
        if self._settings.interceptors:
            parcel.when_done(partial(self._tell, message, parcel))
        return parcel

    def parcels(
        self, bodies: Iterable[bytes | str], like: OutgoingMessage, ack: AckMode | None = None
    ) -> Iterator[Parcel]:
        """Yield parcels of at most a batch each, for bodies that share everything else.

        All bodies are checked before the first parcel. Interceptors see each message, one parcel
        for each then. Raise MessageTooLarge.
        """
        encoded = [body.encode() if isinstance(body, str) else body for body in bodies]
        _check_length(max(map(len, encoded), default=0))
        if self._settings.interceptors or self._settings.selector is not None:
            for body in encoded:
                yield self.parcel(_with_body(like, body), ack)
            return
        chosen: list[bytes] = []
        size_bytes = 0
        for body in encoded:
            if chosen and (
                len(chosen) >= self._settings.batch_messages_max
                or size_bytes + len(body) > self._settings.batch_bytes_max
            ):
                yield self._pack(chosen, like, ack)
                chosen, size_bytes = [], 0
            chosen.append(body)
            size_bytes += len(body)
        if chosen:
            yield self._pack(chosen, like, ack)

    def _pack(self, bodies: list[bytes], like: OutgoingMessage, ack: AckMode | None) -> Parcel:
        system = self._system(like, ack or self._settings.ack)
        if system or like.keys or like.properties or like.sharding_key is not None:
            shared = pack_properties(
                tag=like.tag,
                keys=like.keys,
                sharding_key=like.sharding_key,
                properties=like.properties,
                system=system,
            )
        else:
            shared = b"" if like.tag is None else _packed_tag(like.tag)
        wall_ms = self._clock.wall_ms()
        ids = IDS.many(wall_ms, len(bodies)) if like.message_id is None else [_id_of(like)]
        # Ids are of one length, so the check of the first section stands for all.
        room_bytes = SEQUENCE_BYTES_MAX if PRODUCER_ID in system else 0
        section = with_unique_key(shared, ids[0], room_bytes=room_bytes)
        section_bytes = len(section) + room_bytes
        if len(bodies) == 1:
            drafts = [(bodies[0], section)]
            body_bytes = longest_bytes = len(bodies[0])
        else:
            start = shared + UNIQUE_KEY_START
            drafts = [
                (body, b"%b%b\x02" % (start, message_id))
                for body, message_id in zip(bodies, ids, strict=True)
            ]
            lengths = list(map(len, bodies))
            body_bytes, longest_bytes = sum(lengths), max(lengths)
        _check_length(longest_bytes)
        fixed_bytes = SMALLEST_BYTES + len(like.topic) + section_bytes
        return Parcel(
            like.topic,
            drafts,
            ids,
            route=self._route(like),
            ack=ack or self._settings.ack,
            born_ms=wall_ms if like.born_time_ms is None else like.born_time_ms,
            deadline_s=self._clock.steady_s() + self._settings.timeout_s,
            size_bytes=body_bytes + fixed_bytes * len(bodies),
            lock=self._lock,
            is_delayed=like.is_delayed,
        )

    def _system(self, message: OutgoingMessage, ack: AckMode) -> dict[str, str]:
        """Return the properties of reserved names; the number of a message comes when it goes."""
        found = {}
        if message.priority is not None:
            # An interceptor or a maker of copies may have said it, whom `outgoing` did not check.
            _check_priority(message.priority, message.queue, message.sharding_key)
            found[PRIORITY] = str(message.priority)
        if message.delay_level is not None:
            found[DELAY_LEVEL] = str(message.delay_level)
        if message.delay_ms is not None:
            found[DELAY_MS] = str(message.delay_ms)
        if message.deliver_at_ms is not None:
            found[DELIVER_AT_MS] = str(message.deliver_at_ms)
        if self._producer_id is not None and ack is not AckMode.ONEWAY:
            found[PRODUCER_ID] = self._producer_id
        return found

    def _route(self, message: OutgoingMessage) -> Route:
        if message.queue is not None:
            return message.queue
        if message.priority is not None:
            return partial(_queue_of_priority, message.priority)
        if self._settings.selector is not None:
            return partial(self._settings.selector, message)
        return message.sharding_key

    def _tell(self, message: OutgoingMessage, parcel: Parcel) -> None:
        error = parcel.error
        result = None if error is not None else parcel.results()[0]
        for interceptor in self._settings.interceptors:
            try:
                interceptor.after_send(message, result, error)
            except Exception:
                # Foreign code must not break the send.
                logger.exception("an interceptor raised after a send")


def _id_of(message: OutgoingMessage) -> bytes:
    found = message.message_id or ""
    is_fine = found.isascii() and found.isprintable() and " " not in found
    if not is_fine or not 0 < len(found) <= _MESSAGE_ID_CHARACTERS_MAX:
        raise InvalidArgument(
            f"a message id is 1 to {_MESSAGE_ID_CHARACTERS_MAX} printable characters of ASCII"
            " without a blank"
        )
    return found.encode("ascii")


def _check_priority(priority: int | None, queue: int | None, sharding_key: str | None) -> None:
    if priority is None:
        return
    if not (queue is None and sharding_key is None):
        raise InvalidArgument("a message has one of sharding_key, queue and priority")
    if not 0 <= priority <= _PRIORITY_MAX:
        raise InvalidArgument(f"priority is 0 to {_PRIORITY_MAX}, not {priority}")


def _queue_of_priority(priority: int, queue_count: int) -> int:
    """Return the queue of a priority: that of its number, or the highest one."""
    return min(priority, queue_count - 1)


def _check_delay(level: int | None, delay_ms: int | None, at: datetime | int | None) -> None:
    if sum(value is not None for value in (level, delay_ms, at)) > 1:
        raise InvalidArgument("a message has one of delay_level, delay_ms and deliver_at")
    if level is not None and level < 1:
        raise InvalidArgument(f"delay_level is 1 or more, not {level}")
    if delay_ms is not None and delay_ms < 0:
        raise InvalidArgument(f"delay_ms is 0 or more, not {delay_ms}")
    if at is not None and milliseconds_of(at) < 0:
        raise InvalidArgument("deliver_at is not before 1970")


def _check_length(longest_bytes: int) -> None:
    if longest_bytes > BODY_BYTES_MAX:
        raise MessageTooLarge(f"body is {longest_bytes} bytes, at most {BODY_BYTES_MAX} allowed")


def _with_body(like: OutgoingMessage, body: bytes | str) -> OutgoingMessage:
    return outgoing(
        like.topic,
        body,
        tag=like.tag,
        keys=like.keys,
        properties=like.properties,
        sharding_key=like.sharding_key,
        queue=like.queue,
        priority=like.priority,
        delay_level=like.delay_level,
        delay_ms=like.delay_ms,
        deliver_at=like.deliver_at_ms,
    )
