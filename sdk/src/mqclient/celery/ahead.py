"""Publishes whose answer is read by the next one. Knows one exchange; no lanes and no kombu.

One at a time, so that messages are stored in the order they were published in. The broker works on
a message while Celery makes the next one.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mqclient.celery.client import Client
from mqclient.errors import MqError, UnknownQueue, UnknownTopic
from mqclient.protocol.calls import Call
from mqclient.transport.blocking import Exchange

logger = logging.getLogger("mqclient")

# Who publishes nothing for this long has the last answer read by a thread.
_QUIET_S = 0.05

Send = Callable[[str, Call[object]], None]


@dataclass(frozen=True, slots=True)
class _Sent:
    lane: str
    call: Call[object]
    exchange: Exchange[object]


class Ahead:
    """Writes a publish and returns; its answer is read later. Any thread may use it."""

    def __init__(self, client: Client, send: Send) -> None:
        """Have what failed sent by `send`, which waits for the answer."""
        self._client = client
        self._send = send
        self._sent: _Sent | None = None
        self._lock = threading.Lock()
        self._has_sent = threading.Event()
        self._is_ended = threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, lane: str, call: Call[object]) -> None:
        """Write a publish when the one before it is stored; raise what became of that one.

        The new one is not sent then. Each failed publish is logged, whoever learns of it.
        """
        with self._lock:
            self._settle()
            try:
                exchange = self._client.pool.begin(call, self._client.options.timeout_s)
            except MqError:
                self._send(lane, call)
                return
            self._sent = _Sent(lane, call, exchange)
            self._watch()
        self._has_sent.set()

    def settle(self) -> None:
        """Wait until everything is stored; raise what became of the last publish."""
        with self._lock:
            self._settle()

    def end(self) -> None:
        """Wait until everything is stored, and end the thread."""
        self._is_ended.set()
        self._has_sent.set()
        with contextlib.suppress(MqError):
            self.settle()

    def _settle(self) -> None:
        sent, self._sent = self._sent, None
        if sent is None:
            return
        with _logging_failure(sent.lane):
            try:
                sent.exchange.finish()
            except MqError as error:
                if not (error.retriable or isinstance(error, (UnknownTopic, UnknownQueue))):
                    raise
                self._send(sent.lane, sent.call)

    def _watch(self) -> None:
        if self._thread is None and not self._is_ended.is_set():
            self._thread = threading.Thread(
                target=self._loop, name="mqclient-celery-publishing", daemon=True
            )
            self._thread.start()

    def _loop(self) -> None:
        while self._has_sent.wait() and not self._is_ended.is_set():
            seen = self._sent
            self._is_ended.wait(_QUIET_S)
            with self._lock, contextlib.suppress(MqError):
                if self._sent is seen:
                    self._settle()
                if self._sent is None:
                    self._has_sent.clear()


@contextlib.contextmanager
def _logging_failure(lane: str) -> Iterator[None]:
    try:
        yield
    except MqError as error:
        logger.error("a message published ahead to lane %s was not stored: %s", lane, error)
        raise
