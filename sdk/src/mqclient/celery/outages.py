"""How long the broker has been away, as one thread sees it, and who is told. Knows time only."""

import logging
import threading
from collections.abc import Callable

from mqclient.celery.client import Client
from mqclient.errors import MqError, Refused
from mqclient.protocol.backoff import Backoff

logger = logging.getLogger("mqclient")


class Outage:
    """Counts from the first failure on; a request that succeeds ends it."""

    def __init__(self, client: Client, what: str, *, on_failure: Callable[[MqError], None]) -> None:
        """Tell `on_failure` of an outage longer than `outage_s`, and of a refusal at once."""
        self._clock = client.clock
        self._limit_s = client.options.outage_s
        self._what = what
        self._on_failure = on_failure
        self._backoff = Backoff()
        self._since_s: float | None = None
        self._count = 0
        self._given_up = threading.Event()

    def has_failed(self, error: MqError) -> bool:
        """Take note of a failed request, and wait; return whether to make it again."""
        now_s = self._clock.steady_s()
        if isinstance(error, Refused) and not error.retriable:
            logger.error("%s: the broker refused: %s", self._what, error)
            self._on_failure(error)
            return False
        if self._since_s is None:
            self._since_s = now_s
            logger.warning("%s: %s; trying again", self._what, error)
        elif now_s - self._since_s >= self._limit_s:
            self._on_failure(error)
        self._count += 1
        return not self._given_up.wait(self._backoff.pause_s(self._count, error))

    def is_over(self) -> None:
        """Take note of a request that succeeded."""
        if self._since_s is not None:
            away_s = self._clock.steady_s() - self._since_s
            logger.info("%s: the broker answers again after %.1f s", self._what, away_s)
            self._since_s = None
            self._count = 0

    def give_up(self) -> None:
        """End the waiting, now and from here on."""
        self._given_up.set()
