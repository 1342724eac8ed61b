"""Sends what consumers tell of their work, in a thread of its own. Knows sockets and threads."""

import logging
import os
import threading
from collections.abc import Iterable

from mqclient.clock import Clock
from mqclient.consuming.traces import (
    TRACE_QUEUE,
    TRACE_TOPIC,
    Teller,
    TraceBuffer,
    Work,
    body_of,
    keys_of,
)
from mqclient.errors import MqError
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Calls
from mqclient.protocol.endpoint import Endpoint
from mqclient.protocol.plans import Patience, persistently
from mqclient.transport.blocking import Pool
from mqclient.values import AckMode
from mqclient.wire.ids import IDS, local_address
from mqclient.wire.properties import pack_properties, with_unique_key
from mqclient.wire.records import pack_record, topic_part

logger = logging.getLogger("mqclient")

_TIMEOUT_S = 3.0
_CLOSE_S = 10.0
_YES = ("1", "true", "yes", "on")


def is_trace_wanted() -> bool:
    """Tell whether the environment asks for traces where a program does not say."""
    return os.environ.get("MQWEB_TRACE", "").lower() in _YES


class Tracer:
    """Tells the broker of one consumer's work. A consumer never waits for it.

    What cannot be sent in time, or has no room, is left out, counted and logged. A batch is sent
    again only where it is surely not stored, so that no work is told twice.
    """

    def __init__(self, endpoint: Endpoint, teller: Teller, *, clock: Clock) -> None:
        self._teller = teller
        self._clock = clock
        self._calls = Calls(endpoint)
        self._pool = Pool(endpoint, clock=clock, idle_max=1)
        self._patience = Patience(clock=clock, backoff=Backoff(), timeout_s=_TIMEOUT_S)
        self._buffer = TraceBuffer(clock=clock)
        self._born_host = local_address() + bytes(4)
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._is_failing = False

    @property
    def dropped_count(self) -> int:
        """Return how many records were left out up to now."""
        return self._buffer.dropped_count

    def tell(self, works: Iterable[Work]) -> None:
        """Have work told soon; return at once."""
        if self._buffer.add(works):
            self._start()
            self._news.set()

    def close(self) -> None:
        """Send what is left, for some seconds at the most, and end."""
        with self._lock:
            self._is_closing = True
            thread = self._thread
        self._news.set()
        if thread is not None:
            thread.join(_CLOSE_S)
            if thread.is_alive():
                self._pool.abort()
                thread.join()
        self._pool.close()
        if self.dropped_count:
            who = self._teller.client_id
            logger.warning("%d traces of %s were left out", self.dropped_count, who)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._is_closing:
                # A program that ends without closing must not wait for it.
                self._thread = threading.Thread(
                    target=self._run, name="mqclient-trace", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while True:
            due_s = self._buffer.due_in_s()
            if due_s is not None and (due_s == 0 or self._is_closing):
                self._send(self._buffer.take())
            elif self._is_closing:
                return
            else:
                self._news.wait(due_s)
                self._news.clear()

    def _send(self, works: list[Work]) -> None:
        wall_ms = self._clock.wall_ms()
        properties = pack_properties(keys=keys_of(works))
        record = pack_record(
            topic_part(TRACE_TOPIC),
            TRACE_QUEUE,
            body_of(self._teller, works),
            with_unique_key(properties, IDS.next(wall_ms)),
            wall_ms,
            self._born_host,
        )
        call = self._calls.send_batch(TRACE_TOPIC, TRACE_QUEUE, [record], AckMode.ASYNC)
        try:
            self._pool.run(persistently(call, self._patience))
        except MqError as error:
            self._failed(len(works), error)
        else:
            self._is_failing = False

    def _failed(self, count: int, error: MqError) -> None:
        self._buffer.drop(count)
        if self._is_closing:
            # Trying batch after batch would keep whoever closes from its end.
            while works := self._buffer.take():
                self._buffer.drop(len(works))
        if not self._is_failing:
            self._is_failing = True
            logger.warning("traces are left out: %s", error)
