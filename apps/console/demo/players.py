"""Who sends and who reads in the demonstration: one step at a time. Knows the SDK; no thread.

A step that the broker could not carry out keeps what it has to do, and does it the next time.
"""

import contextlib
from collections.abc import Callable

from mqclient import Producer, SimpleConsumer
from mqclient.errors import HandleExpired, MqError

from apps.console.demo.orders import Ledger, OrderEvent, Shop

# A reader takes what a few seconds of the demonstration send, in one go.
READ_MAX = 500


class Seller:
    """Sends the events of a shop, each order's in order."""

    def __init__(self, producer: Producer, shop: Shop, *, topic: str) -> None:
        self.sent_count = 0
        self._producer = producer
        self._shop = shop
        self._topic = topic
        self._unsent: list[OrderEvent] = []

    def sell(self, count: int) -> None:
        """Send at most `count` new events, or again those that failed before.

        Raises the first MqError; an event whose outcome is unknown is sent again, which may store
        it twice. No order moves on before its last event is surely stored.
        """
        events, self._unsent = self._unsent or self._shop.events(count), []
        errors: list[MqError] = []
        results: list[tuple[OrderEvent, Callable[[], object]]] = []
        for event in events:
            try:
                results.append((event, self._send(event)))
            except MqError as error:
                self._unsent.append(event)
                errors.append(error)
        for event, result in results:
            try:
                result()
            except MqError as error:
                self._unsent.append(event)
                errors.append(error)
        self.sent_count += len(events) - len(self._unsent)
        if errors:
            raise errors[0]

    def _send(self, event: OrderEvent) -> Callable[[], object]:
        return self._producer.send_async(
            self._topic, event.encode(), tag=event.tag, sharding_key=event.key
        ).result


class Reader:
    """Reads for one group: judges each message, then acknowledges it."""

    def __init__(self, consumer: SimpleConsumer, ledger: Ledger) -> None:
        self.ledger = ledger
        self._consumer = consumer

    def read(self, *, wait_ms: int) -> int:
        """Take what is there, waiting for the first; return how many came. Raises MqError.

        Messages whose time was over before the acknowledgement come again, as duplicates.
        """
        messages = self._consumer.receive(READ_MAX, wait_ms=wait_ms)
        for message in messages:
            self.ledger.note(message.body)
        if messages:
            with contextlib.suppress(HandleExpired):
                self._consumer.ack(messages)
        return len(messages)
