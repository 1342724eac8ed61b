"""Publishing many messages on pika's asynchronous connection, which does not write one by one."""

import time
from collections.abc import Sequence
from typing import Any

_WINDOW = 1000
_TURN = 200


class Publication:
    """One connection that publishes everything, and ends when the broker has it all."""

    def __init__(
        self,
        parameters: Any,  # pika has no annotations to check.
        topic: str,
        bodies: Sequence[bytes],
        *,
        is_confirmed: bool,
        window: int = _WINDOW,
    ) -> None:
        """Connect when `run` is called; `is_confirmed` keeps `window` confirms outstanding."""
        import pika

        self._topic = topic
        self._bodies = bodies
        self._is_confirmed = is_confirmed
        self._window = window
        self._properties = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
        self._sent = 0
        # Tags count from 1; confirms come in any order, singly or for all up to a tag.
        self._unconfirmed: set[int] = set()
        self._unconfirmed_first = 1
        self._started_s = self._ended_s = 0.0
        self._failure = ""
        self._channel: Any = None
        self._connection = pika.SelectConnection(
            parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=self._closed,
            on_close_callback=self._closed,
        )

    def run(self) -> float:
        """Publish; return the seconds until the last message was confirmed or counted."""
        self._connection.ioloop.start()
        if not self._ended_s:
            raise ConnectionError(self._failure)
        return self._ended_s - self._started_s

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        if self._is_confirmed:
            channel.confirm_delivery(self._answered, callback=lambda _: self._begin())
        else:
            self._begin()

    def _begin(self) -> None:
        self._started_s = time.perf_counter()
        if self._is_confirmed:
            self._fill_window()
        else:
            self._publish_turn()

    def _publish_turn(self) -> None:
        """Publish a few and let the loop write them."""
        self._publish(min(_TURN, len(self._bodies) - self._sent))
        if self._sent < len(self._bodies):
            self._connection.ioloop.add_callback_threadsafe(self._publish_turn)
        else:
            self._count()

    def _fill_window(self) -> None:
        start = self._sent
        self._publish(min(self._window - len(self._unconfirmed), len(self._bodies) - start))
        self._unconfirmed.update(range(start + 1, self._sent + 1))

    def _publish(self, count: int) -> None:
        for body in self._bodies[self._sent : self._sent + count]:
            self._channel.basic_publish("", self._topic, body, self._properties)
        self._sent += count

    def _answered(self, frame: Any) -> None:
        if frame.method.NAME != "Basic.Ack":
            self._failure = f"not confirmed: {frame.method}"
            self._connection.close()
            return
        tag = frame.method.delivery_tag
        if frame.method.multiple:
            self._unconfirmed.difference_update(range(self._unconfirmed_first, tag + 1))
            self._unconfirmed_first = tag + 1
        else:
            self._unconfirmed.discard(tag)
        if self._sent < len(self._bodies):
            self._fill_window()
        elif not self._unconfirmed:
            self._end()

    def _count(self) -> None:
        """Ask how long the queue is until it holds everything."""
        self._channel.queue_declare(self._topic, passive=True, callback=self._counted)

    def _counted(self, frame: Any) -> None:
        if frame.method.message_count >= len(self._bodies):
            self._end()
        else:
            self._count()

    def _end(self) -> None:
        self._ended_s = time.perf_counter()
        self._connection.close()

    def _closed(self, connection: Any, reason: object) -> None:
        self._failure = self._failure or str(reason)
        connection.ioloop.stop()
