"""Publishes that travel together, their answer read later. Knows lanes by name; nothing of kombu.

A lone message leaves at once. Those that follow within some milliseconds wait for each other and
share a request, so that neither side pays for one request a message. One request is under way at a
time, so messages are stored in the order they were published in.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from mqclient.celery.client import Client
from mqclient.errors import MqError
from mqclient.limits import MIB
from mqclient.protocol.calls import Call
from mqclient.transport.blocking import Exchange

logger = logging.getLogger("mqclient")

GATHER_S = 0.005
_TOGETHER_MAX = 64
_TOGETHER_BYTES_MAX = MIB
# An answer nobody has read for so long is read by the thread.
_UNREAD_S = 0.05

Send = Callable[[str, Call[object]], None]


@dataclass(slots=True)
class _Batch:
    """Records of one queue of a lane, in order. `since_s` is when the first came."""

    lane: str
    topic: str
    queue: int
    since_s: float
    records: list[bytes] = field(default_factory=list)
    bytes: int = 0


class Ahead:
    """Takes a message and returns. Any thread may use it."""

    def __init__(self, client: Client, send: Send) -> None:
        """Have what failed sent by `send`, which waits for the answer."""
        self._client = client
        self._send = send
        self._gathered: _Batch | None = None
        self._under_way: tuple[_Batch, Exchange[object]] | None = None
        self._sent_s = 0.0
        self._failure: MqError | None = None
        self._lock = threading.Lock()
        self._has_work = threading.Event()
        self._is_ended = threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, lane: str, topic: str, queue: int, record: bytes) -> None:
        """Take a message; raise what became of an earlier one, and do not take this one then.

        Each message that is not stored is logged, whoever learns of it.
        """
        with self._lock:
            self._raise_failure()
            now_s = self._client.clock.steady_s()
            batch = self._gathered
            if batch is not None and (batch.topic, batch.queue) != (topic, queue):
                self._send_off()
                batch = None
            if batch is None:
                batch = self._gathered = _Batch(lane, topic, queue, now_s)
            batch.records.append(record)
            batch.bytes += len(record)
            is_full = len(batch.records) >= _TOGETHER_MAX or batch.bytes >= _TOGETHER_BYTES_MAX
            # The first after a pause, and whoever finds that the time is over.
            if is_full or now_s - self._sent_s >= GATHER_S:
                self._send_off()
            self._watch()
        self._has_work.set()

    def settle(self) -> None:
        """Wait until everything is stored; raise what became of a message that is not."""
        with self._lock:
            self._send_off()
            self._read()
            self._raise_failure()

    def end(self) -> None:
        """Wait until everything is stored or refused, and end the thread."""
        self._is_ended.set()
        self._has_work.set()
        with self._lock:
            self._send_off()
            self._read()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _send_off(self) -> None:
        """Write the request of what is gathered, when the one before it is answered."""
        batch, self._gathered = self._gathered, None
        if batch is None:
            return
        self._read()
        self._sent_s = self._client.clock.steady_s()
        try:
            exchange = self._client.pool.begin(
                self._call(batch, batch.records), self._client.options.timeout_s
            )
        except MqError:
            self._send_each(batch)
        else:
            self._under_way = (batch, exchange)

    def _read(self) -> None:
        """Read the answer that is awaited; send again what it says is not stored."""
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            return
        batch, exchange = under_way
        try:
            exchange.finish()
        except MqError:
            self._send_each(batch)

    def _send_each(self, batch: _Batch) -> None:
        """Send messages one by one and wait: a request is refused whole for one bad message."""
        for record in batch.records:
            try:
                self._send(batch.lane, self._call(batch, [record]))
            except MqError as error:
                logger.error(
                    "a message published ahead to lane %s was not stored: %s", batch.lane, error
                )
                self._failure = error

    def _call(self, batch: _Batch, records: list[bytes]) -> Call[object]:
        client = self._client
        return client.storing(batch.topic, batch.queue, records, ack=client.options.ack)

    def _watch(self) -> None:
        if self._thread is None and not self._is_ended.is_set():
            self._thread = threading.Thread(
                target=self._loop, name="mqclient-celery-publishing", daemon=True
            )
            self._thread.start()

    def _loop(self) -> None:
        while self._has_work.wait() and not self._is_ended.wait(GATHER_S):
            with self._lock:
                now_s = self._client.clock.steady_s()
                if self._gathered is not None and now_s - self._gathered.since_s >= GATHER_S:
                    self._send_off()
                if self._under_way is not None and now_s - self._sent_s >= _UNREAD_S:
                    self._read()
                if self._gathered is None and self._under_way is None:
                    self._has_work.clear()
