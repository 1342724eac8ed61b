"""The half of kombu's channel that declares: exchanges, queues, and what binds them.

Decides whether a queue is a lane or private. Knows kombu's signatures; delivers nothing.
"""

from abc import abstractmethod
from typing import Any

from amqp.exceptions import NotFound, PreconditionFailed
from amqp.protocol import queue_declare_ok_t
from kombu.transport import base
from kombu.utils.uuid import uuid

from mqclient.celery.link import Declared, Link
from mqclient.celery.private import PrivateQueue
from mqclient.celery.routing import EXCHANGE_TYPES, ExchangeKind
from mqclient.errors import Closed, UnknownTopic, Unsupported

# A lane for one consumer's answers, when nobody says how long it lives.
_TEMPORARY_LANE_MS = 3_600_000

_EXCHANGE_DECLARE = (40, 10)
_QUEUE_DECLARE = (50, 10)
_QUEUE_DELETE = (50, 40)

# kombu's arguments, and what comes with them in future versions, have any type.
Arguments = dict[str, Any]


class DeclaringChannel(base.StdChannel):
    """A channel of a link, as far as it makes and unmakes."""

    def __init__(self, link: Link) -> None:
        """Belong to a link until `connection` is taken away."""
        self.connection: Link | None = link

    @abstractmethod
    def consumes(self, queue: str) -> bool:
        """Tell whether a consumer of this channel reads a queue."""

    # --- exchanges -----------------------------------------------------------------------------

    def exchange_declare(
        self,
        exchange: str | None = None,
        type: str | None = None,  # noqa: A002
        durable: bool = False,
        passive: bool = False,
        **_more: Any,
    ) -> None:
        """Remember an exchange; raise NotFound for an unknown passive one, or PreconditionFailed.

        Only its bindings are stored: an exchange without them has nothing to tell others.
        """
        link = self._link()
        name, kind = exchange or f"amq.{type or 'direct'}", ExchangeKind(type or "direct", durable)
        if passive:
            if name not in link.kinds and name not in link.bindings.look().kinds:
                raise NotFound(f"NOT_FOUND - no exchange {name!r}", _EXCHANGE_DECLARE)
            return
        if kind.type not in EXCHANGE_TYPES:
            raise Unsupported(f"exchanges are direct, topic or fanout, not {kind.type!r}")
        before = link.kinds.setdefault(name, kind)
        if before != kind:
            raise PreconditionFailed(
                f"PRECONDITION_FAILED - exchange {name!r} was declared as {before}, not {kind}",
                _EXCHANGE_DECLARE,
            )

    def exchange_delete(self, exchange: str, **_more: Any) -> None:
        """Forget an exchange with all its bindings."""
        link = self._link()
        link.kinds.pop(exchange, None)
        if exchange in link.bindings.look().kinds:
            link.bindings.forget_exchange(exchange)

    def exchange_bind(self, *_arguments: Any, **_more: Any) -> None:
        """Raise NotImplementedError: exchanges are not bound to each other."""
        raise NotImplementedError("mqweb:// binds queues to exchanges, not exchanges")

    exchange_unbind = exchange_bind

    # --- queues --------------------------------------------------------------------------------

    def prepare_queue_arguments(
        self, arguments: Arguments | None, expires: float | None = None, **_more: Any
    ) -> Arguments:
        """Return a queue's life, in seconds, under its AMQP name; nothing else is supported."""
        life = {} if expires is None else {"x-expires": int(expires * 1000)}
        return {**(arguments or {}), **life}

    def queue_declare(
        self,
        queue: str | None = None,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Arguments | None = None,
        **_more: Any,
    ) -> queue_declare_ok_t:
        """Make a lane, or remember a queue that may become private; return what waits in it."""
        link = self._link()
        name = queue or f"amq.gen-{uuid()}"
        if passive:
            return queue_declare_ok_t(name, self._size(name, _QUEUE_DECLARE), 0)
        expires_ms = (arguments or {}).get("x-expires")
        link.declared[name] = Declared(
            is_durable=durable,
            is_exclusive=exclusive,
            is_auto_delete=auto_delete,
            expires_ms=None if expires_ms is None else int(expires_ms),
        )
        if exclusive or auto_delete:
            # Its bindings will say whether it is private; a lane is made when it is needed.
            waiting = link.private.get(name)
            return queue_declare_ok_t(name, 0 if waiting is None else len(waiting.inbox), 0)
        is_new = self._declare_lane(link, name)
        return queue_declare_ok_t(name, 0 if is_new else link.lanes.size(name), 0)

    def queue_bind(
        self, queue: str, exchange: str | None = None, routing_key: str = "", **_more: Any
    ) -> None:
        """Have a queue get what is sent to an exchange from here on."""
        if not exchange:
            return
        link = self._link()
        kind = link.kind_of(exchange)
        declared = link.declared.get(queue)
        if declared is None or not declared.is_private(kind):
            self._declare_lane(link, queue)
            link.bindings.bind(exchange, kind, routing_key, queue)
            return
        if kind.is_durable:
            link.bindings.mark_private(exchange, kind)
        private = link.private.setdefault(queue, PrivateQueue(queue))
        link.broadcasts.bind(private, exchange, kind, routing_key)

    def queue_unbind(
        self, queue: str, exchange: str | None = None, routing_key: str = "", **_more: Any
    ) -> None:
        """Take a binding back."""
        link = self._link()
        private = link.private.get(queue)
        if private is not None:
            link.broadcasts.unbind(private, exchange or "", routing_key)
        elif exchange:
            link.bindings.unbind(exchange, routing_key, queue)

    def queue_purge(self, queue: str, **_more: Any) -> int:
        """Drop what waits in a queue, and return how many messages; raise NotFound."""
        link = self._link()
        private = link.private.get(queue)
        if private is not None:
            with link.news.lock:
                count = len(private.inbox)
                private.inbox.clear()
            return count
        try:
            return link.lanes.purge(queue)
        except UnknownTopic as error:
            raise NotFound(f"NOT_FOUND - no queue {queue!r}", _QUEUE_DELETE) from error

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **_more: Any
    ) -> int:
        """Delete a queue, and return how many messages waited; raise PreconditionFailed.

        `if_unused` knows of the consumers of this connection only.
        """
        link = self._link()
        if if_unused and any(channel.consumes(queue) for channel in link.channels):
            raise PreconditionFailed(f"PRECONDITION_FAILED - {queue!r} is consumed", _QUEUE_DELETE)
        if if_empty and link.exists(queue) and self._size(queue, _QUEUE_DELETE):
            raise PreconditionFailed(f"PRECONDITION_FAILED - {queue!r} has messages", _QUEUE_DELETE)
        link.declared.pop(queue, None)
        private = link.private.pop(queue, None)
        if private is not None:
            count = len(private.inbox)
            link.broadcasts.end(private)
            return count
        count = link.lanes.delete(queue)
        if link.bindings.look().binds(queue):
            link.bindings.forget_queue(queue)
        return count

    def after_reply_message_received(self, queue: str) -> None:
        """Delete a queue that was made for one answer."""
        self.queue_delete(queue)

    # --- within ---------------------------------------------------------------------------------

    def _link(self) -> Link:
        if self.connection is None:
            raise Closed("the channel is closed")
        self.connection.check()
        return self.connection

    def _declare_lane(self, link: Link, queue: str) -> bool:
        """Make a lane unless it is known; return whether it may be new."""
        declared = link.declared.get(queue)
        expires_ms = None if declared is None else declared.expires_ms
        if declared is not None and (declared.is_exclusive or declared.is_auto_delete):
            expires_ms = expires_ms or _TEMPORARY_LANE_MS
            if declared.is_exclusive:
                link.exclusive_lanes.add(queue)
        return link.lanes.declare(queue, expires_ms=expires_ms)

    def _size(self, queue: str, method: tuple[int, int]) -> int:
        link = self._link()
        private = link.private.get(queue)
        if private is not None:
            return len(private.inbox)
        try:
            return link.lanes.size(queue)
        except UnknownTopic as error:
            raise NotFound(f"NOT_FOUND - no queue {queue!r}", method) from error
