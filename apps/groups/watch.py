"""Looks at what groups have left to do every few seconds: for rates, and for alarms.

Knows the engine's verbs and the log; no row, so it goes on while the database is away.
"""

import logging
from collections.abc import Iterable

from apps.engine.api import EngineControl
from apps.engine.clock import Clock
from apps.groups.blocked import BlockedQueue, blocked_queues
from apps.groups.rates import Looks, recent

# A look shares the engine's loop. Where it takes long looks come less often: they take one fiftieth
# of the loop's time.
REST_PER_LOOK = 50
# A thousand queues may block at once; their number is then told, and the first of them.
LINES_MAX = 100

_log = logging.getLogger("mqweb.groups")


class BacklogWatch:
    """Keeps the last looks, and says when a queue begins to be blocked and when it no longer is."""

    def __init__(self, clock: Clock, *, looks: Looks = recent) -> None:
        """Know of no blocked queue."""
        self._clock = clock
        self._looks = looks
        self._alarms = BlockedAlarms()
        self._rest_until_ms = 0

    def look(self, engine: EngineControl) -> None:
        """Take one look, unless the last one took so long that it is too early."""
        started_ms = self._clock.monotonic_ms()
        if started_ms < self._rest_until_ms:
            return
        backlog = engine.backlog()
        self._looks.take(backlog, engine.lite_backlog(), now_ms=started_ms)
        found = blocked_queues(backlog, engine.members(), now_ms=self._clock.wall_ms())
        self._alarms.take(found)
        ended_ms = self._clock.monotonic_ms()
        self._rest_until_ms = ended_ms + (ended_ms - started_ms) * REST_PER_LOOK


class BlockedAlarms:
    """Logs each blocked queue once when it begins and once when it ends.

    A queue that gets on and is then held up by a later message is told of again.
    """

    def __init__(self) -> None:
        """Know of no blocked queue."""
        self._known: dict[tuple[str, str, int, int], BlockedQueue] = {}

    def take(self, found: Iterable[BlockedQueue]) -> None:
        """Log what has changed since the call before."""
        now = {(f.group, f.topic, f.queue, f.queue_offset): f for f in found}
        begun = [queue for key, queue in now.items() if key not in self._known]
        ended = [queue for key, queue in self._known.items() if key not in now]
        self._known = now
        for queue in begun[:LINES_MAX]:
            extra = {**_place(queue), "since_ms": queue.since_ms, "attempts": queue.attempts}
            _log.warning(
                "queue_blocked", extra={**extra, "reason": queue.reason, "detail": queue.detail}
            )
        for queue in ended[:LINES_MAX]:
            _log.info("queue_unblocked", extra=_place(queue))
        if len(begun) > LINES_MAX or len(ended) > LINES_MAX:
            extra = {"begun": len(begun), "ended": len(ended), "blocked": len(now)}
            _log.warning("many_queues_blocked", extra=extra)


def _place(queue: BlockedQueue) -> dict[str, object]:
    return {
        "group": queue.group,
        "topic": queue.topic,
        "queue": queue.queue,
        "queue_offset": queue.queue_offset,
        "owner": queue.owner,
    }
