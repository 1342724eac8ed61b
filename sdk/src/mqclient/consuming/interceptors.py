"""What sees messages on their way to a consumer's code. Knows messages only."""

import logging
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from mqclient.values import TopicQueue
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")


class ConsumerInterceptor(Protocol):
    """Sees messages when they have arrived, before the consumer's code does.

    Those of one queue are seen in its order. A push consumer's pulls call it, from a thread of
    theirs each, others the thread or task that receives: be quick, and safe where threads share
    it. What an interceptor raises is logged, and the messages go on without it.
    """

    def after_receive(self, messages: Sequence[Message]) -> None:
        """See messages; what comes again after a failure is seen again."""


@runtime_checkable
class QueueFollower(ConsumerInterceptor, Protocol):
    """An interceptor that knows queue by queue how far it is."""

    def queue_begins(self, topic: str, queue: int) -> None:
        """Take that the next messages of a queue may follow any others: it is newly assigned."""


def tell_received(interceptors: Sequence[ConsumerInterceptor], messages: Sequence[Message]) -> None:
    """Show messages to every interceptor."""
    if not messages:
        return
    for interceptor in interceptors:
        try:
            interceptor.after_receive(messages)
        except Exception:
            # Foreign code must not keep messages from their listener.
            logger.exception("an interceptor raised after messages arrived")


def tell_begun(interceptors: Sequence[ConsumerInterceptor], place: TopicQueue) -> None:
    """Say that a queue begins here."""
    for interceptor in interceptors:
        if isinstance(interceptor, QueueFollower):
            try:
                interceptor.queue_begins(place.topic, place.queue)
            except Exception:
                # Foreign code again.
                logger.exception("an interceptor raised where a queue begins")
