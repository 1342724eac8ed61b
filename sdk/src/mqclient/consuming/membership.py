"""Being a member of a group: heartbeats that wait for a new assignment. Knows no sockets.

The broker assigns; a member only says that it is there and what it wants. It keeps what it was
assigned while the broker is away, since nobody else can be told anything meanwhile.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mqclient.clock import Clock
from mqclient.errors import MqError
from mqclient.protocol.backoff import Backoff
from mqclient.protocol.calls import Call, Calls
from mqclient.values import BlockedHead, MemberAnswer, MessageModel, Subscription, TopicQueue

logger = logging.getLogger("mqclient")

# An answer that says nothing new and came before its time is not asked for again at once.
_EARLY_PAUSE_S = 0.5
# A heartbeat lost on its way must be repeated well within what the broker gives a silent member.
_PAUSE_S_MAX = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdentity:
    """Who a member is and what it asks for. `wait_ms` is how long a heartbeat may be held."""

    group: str
    client_id: str
    model: MessageModel = MessageModel.CLUSTERING
    ordered: bool = False
    strategy: str | None = None
    site: str = ""
    wait_ms: int = 10_000


class Membership:
    """The errand of heartbeats. `on_assigned` is called with the queues whenever they change."""

    def __init__(
        self,
        identity: MemberIdentity,
        calls: Calls,
        *,
        clock: Clock,
        on_assigned: Callable[[frozenset[TopicQueue]], None],
        blocked: Callable[[], Iterable[BlockedHead]] = tuple,
        backoff: Backoff | None = None,
    ) -> None:
        self.identity = identity
        self.generation = 0
        self.queues: frozenset[TopicQueue] = frozenset()
        self.retry_max: int | None = None
        self.failure: MqError | None = None
        self._subscriptions: tuple[Subscription, ...] = ()
        self._calls = calls
        self._clock = clock
        self._on_assigned = on_assigned
        self._blocked = blocked
        self._backoff = backoff or Backoff(first_s=0.1, longest_s=_PAUSE_S_MAX)
        self._attempt = 0
        self._next_s: float | None = None
        self._sent_s = 0.0
        self._wait_s = 0.0
        self._is_hurried = False

    def subscribe(self, subscriptions: Iterable[Subscription]) -> None:
        """Want these topics from now on; none of them ends the heartbeats."""
        self._subscriptions = tuple(subscriptions)
        if not self._subscriptions:
            self._next_s = None
            # Who comes back starts anew; a heartbeat with a generation is one from before it left.
            self.generation = 0
            return
        self.hurry()

    def hurry(self) -> None:
        """Ask at once what the assignment is: there is reason to believe that it changed.

        Who wants nothing does not ask: a heartbeat would make it a member again.
        """
        if not self._subscriptions:
            return
        self._is_hurried = True
        self._next_s = self._clock.steady_s()

    def next_s(self) -> float | None:
        """Return the moment of the next heartbeat, None while one is under way."""
        return self._next_s

    def begin(self, now_s: float) -> Call[MemberAnswer]:
        """Make a heartbeat; the first, and a hurried one, is not held."""
        identity = self.identity
        is_held = self.generation > 0 and not self._is_hurried
        self._next_s = None
        self._is_hurried = False
        self._sent_s = now_s
        self._wait_s = identity.wait_ms / 1000 if is_held else 0.0
        return self._calls.heartbeat(
            identity.group,
            identity.client_id,
            self._subscriptions,
            generation=self.generation,
            wait_ms=identity.wait_ms if is_held else 0,
            model=identity.model,
            ordered=identity.ordered,
            strategy=identity.strategy,
            site=identity.site,
            blocked=self._blocked(),
        )

    def done(self, answer: MemberAnswer | None, error: MqError | None, now_s: float) -> None:
        """Take a heartbeat's answer, or go on with what is known when there is none."""
        if not self._subscriptions:
            return
        if answer is None:
            self._failed(error or MqError("no answer"), now_s)
            return
        if self.failure is not None:
            logger.info("%s is a member of %s again", self.identity.client_id, self.identity.group)
        self._attempt = 0
        self.failure = None
        is_new = self._take(answer)
        # The broker holds a heartbeat that brings nothing new. Where it does not, this side waits.
        is_early = not is_new and now_s - self._sent_s < self._wait_s / 2
        if self._next_s is None:
            self._next_s = now_s + (_EARLY_PAUSE_S if is_early else 0.0)

    def _take(self, answer: MemberAnswer) -> bool:
        # An answer to the newest request is the newest state, also where its number is lower: then
        # the broker has another store.
        is_new = answer.generation != self.generation
        self.generation = answer.generation
        self.retry_max = answer.retry_max
        if answer.queues != self.queues:
            self.queues = answer.queues
            self._on_assigned(answer.queues)
        return is_new

    def _failed(self, error: MqError, now_s: float) -> None:
        self._attempt += 1
        if self.failure is None or self.failure.problem_code != error.problem_code:
            logger.warning(
                "%s cannot reach its group %s, trying on: %s",
                self.identity.client_id, self.identity.group, error,
            )  # fmt: skip
        self.failure = error
        pause_s = self._backoff.pause_s(self._attempt, error) if error.retriable else _PAUSE_S_MAX
        if self._next_s is None:
            self._next_s = now_s + pause_s
