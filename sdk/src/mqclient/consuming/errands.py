"""Requests a consumer makes again and again, each by rules of its own. Knows no sockets or threads.

An errand is pure: it says when its next request is due, makes it, and takes what came of it. Its
owner keeps one lock around every method, and drops the answer to a request that a later one of the
same errand has overtaken.
"""

from typing import Any, Protocol

from mqclient.errors import MqError
from mqclient.protocol.backoff import told_s
from mqclient.protocol.calls import Call

# What a broker refused once it would refuse again at once; a restart takes about as long.
RETRY_S = 1.0


def again_s(now_s: float, error: MqError | None) -> float:
    """Return when to ask again what was not answered: later where the broker said so."""
    return now_s + max(RETRY_S, told_s(error))


class Errand(Protocol):
    """One kind of request of one consumer."""

    def next_s(self) -> float | None:
        """Return the moment of the next request by the steady clock, None for not by itself.

        None too while one is under way, unless that one is to be overtaken.
        """

    def begin(self, now_s: float) -> Call[Any] | None:  # `done` knows the answer's type.
        """Make the request that is due; None when there is nothing to ask after all."""

    def done(self, answer: Any, error: MqError | None, now_s: float) -> None:
        """Take the answer or the error of the request made last."""
