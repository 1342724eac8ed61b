"""Which lanes are bound to which exchange, kept in a topic that every publisher reads.

A record is one JSON object: `op` (bind, unbind, private, forget_queue, forget_exchange), `exchange`
with its `type` and `durable`, `routing_key`, `queue`. Knows lanes and exchanges by name only.
"""

import json
import logging
import threading
from typing import Any

from mqclient.celery.client import Client
from mqclient.celery.names import Names
from mqclient.celery.routing import ExchangeKind
from mqclient.errors import UnknownTopic
from mqclient.values import AckMode, PullStatus

logger = logging.getLogger("mqclient")

_PULL_MESSAGES_MAX = 1_000


class Table:
    """The bindings as the records say; `private` exchanges have readers of their broadcasts."""

    def __init__(self) -> None:
        """Know no binding."""
        self.kinds: dict[str, ExchangeKind] = {}
        self.private: set[str] = set()
        self._bound: dict[str, dict[tuple[str, str], None]] = {}

    def apply(self, record: dict[str, Any]) -> None:
        """Take a record; raise KeyError or TypeError for one of another shape."""
        operation = record["op"]
        if operation == "forget_queue":
            for bound in self._bound.values():
                for key in [key for key in bound if key[1] == record["queue"]]:
                    del bound[key]
            return
        exchange = record["exchange"]
        if operation == "forget_exchange":
            self._bound.pop(exchange, None)
            self.kinds.pop(exchange, None)
            self.private.discard(exchange)
        elif operation == "unbind":
            self._bound.get(exchange, {}).pop((record["routing_key"], record["queue"]), None)
        elif operation in ("bind", "private"):
            self.kinds[exchange] = ExchangeKind(record["type"], record["durable"])
            if operation == "private":
                self.private.add(exchange)
            else:
                key = (record["routing_key"], record["queue"])
                self._bound.setdefault(exchange, {})[key] = None

    def has(self, exchange: str, routing_key: str, queue: str) -> bool:
        """Tell whether a lane is bound so."""
        return (routing_key, queue) in self._bound.get(exchange, {})

    def binds(self, queue: str) -> bool:
        """Tell whether a lane is bound to anything."""
        return any(key[1] == queue for bound in list(self._bound.values()) for key in list(bound))

    def lanes(self, exchange: str, kind: ExchangeKind, routing_key: str) -> list[str]:
        """Return the lanes a message goes to, each once."""
        # A copy: another thread may be reading on.
        bound = list(self._bound.get(exchange, ()))
        return list(dict.fromkeys(queue for key, queue in bound if kind.routes(key, routing_key)))


class Bindings:
    """The table, read up to the topic's end at every look; written when something is new."""

    def __init__(self, client: Client, names: Names) -> None:
        """Have read nothing yet."""
        self._client = client
        self._topic = names.bindings
        self._lock = threading.Lock()
        self._table = Table()
        self._offset = 0

    def look(self) -> Table:
        """Return the table as it is now; raise MqError."""
        with self._lock:
            self._refresh()
            return self._table

    def bind(self, exchange: str, kind: ExchangeKind, routing_key: str, queue: str) -> None:
        """Bind a lane, unless it is bound so."""
        if not self.look().has(exchange, routing_key, queue):
            self._append(op="bind", routing_key=routing_key, queue=queue, **_named(exchange, kind))

    def unbind(self, exchange: str, routing_key: str, queue: str) -> None:
        """Take a binding back, if there is one."""
        if self.look().has(exchange, routing_key, queue):
            self._append(op="unbind", exchange=exchange, routing_key=routing_key, queue=queue)

    def mark_private(self, exchange: str, kind: ExchangeKind) -> None:
        """Have publishers broadcast what they send to this exchange."""
        if exchange not in self.look().private:
            self._append(op="private", **_named(exchange, kind))

    def forget_queue(self, queue: str) -> None:
        """Take back every binding of a lane."""
        self._append(op="forget_queue", queue=queue)

    def forget_exchange(self, exchange: str) -> None:
        """Take back every binding to an exchange."""
        self._append(op="forget_exchange", exchange=exchange)

    def _refresh(self) -> None:
        while True:
            try:
                pulled = self._client.pull(
                    self._topic, self._offset, messages_max=_PULL_MESSAGES_MAX
                )
            except UnknownTopic:
                # Nobody bound anything, or somebody deleted it all: whoever declares binds again.
                self._table, self._offset = Table(), 0
                return
            if pulled.status is PullStatus.OFFSET_ILLEGAL and self._offset > pulled.max_offset:
                # Another store took this one's place.
                self._table, self._offset = Table(), pulled.min_offset
                continue
            for message in pulled.messages:
                self._apply(message.body)
            self._offset = pulled.next_offset
            if self._offset >= pulled.max_offset:
                return

    def _apply(self, body: bytes) -> None:
        try:
            self._table.apply(json.loads(body))
        except (ValueError, KeyError, TypeError) as error:
            logger.error("a record of %s is no binding and is passed over: %r", self._topic, error)

    def _append(self, **record: object) -> None:
        body = json.dumps(record, separators=(",", ":")).encode()
        for is_first in (True, False):
            try:
                # Synced, because readers see nothing before.
                self._client.put(self._topic, 0, body, ack=AckMode.SYNC)
            except UnknownTopic:
                if not is_first:
                    raise
                self._client.run(self._client.calls.create_topic(self._topic, queue_count=1))
            else:
                break
        with self._lock:
            self._apply(body)


def _named(exchange: str, kind: ExchangeKind) -> dict[str, object]:
    return {"exchange": exchange, "type": kind.type, "durable": kind.is_durable}
