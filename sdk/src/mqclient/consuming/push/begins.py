"""Where reading a queue begins: asked of the broker, or for a broadcasting member of itself.

Pure: knows no sockets, threads or files.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mqclient.consuming.errands import Errand, again_s
from mqclient.consuming.push.settings import PushSettings
from mqclient.consuming.push.snapshot import Snapshot
from mqclient.errors import MqError
from mqclient.protocol.calls import Call, Calls
from mqclient.values import ConsumeFrom, QueueRange, TopicInfo, TopicQueue
from mqclient.wire.records import RETRY_PREFIX

logger = logging.getLogger("mqclient")


class Beginner(Errand):
    """Asks while there are snapshots that may begin. `waiting` names those, by the time told."""

    def __init__(
        self,
        settings: PushSettings,
        calls: Calls,
        *,
        waiting: Callable[[float], list[Snapshot]],
    ) -> None:
        self._settings = settings
        self._calls = calls
        self._waiting = waiting
        self._asked: list[Snapshot] = []
        self._not_before_s = 0.0
        self._is_waited_for = False

    def look(self) -> None:
        """Something changed that may let a snapshot begin."""
        self._is_waited_for = True

    def next_s(self) -> float | None:
        """Return the moment of the next request, None while one is under way."""
        return self._not_before_s if self._is_waited_for and not self._asked else None

    def begin(self, now_s: float) -> Call[Any] | None:  # Each kind asks another question.
        """Ask for snapshots that may begin, all of one kind."""
        self._is_waited_for = False
        waiting = self._waiting(now_s)
        if not waiting:
            return None
        self._asked, call = self._question(waiting)
        # Those that are left out of this question need another.
        self._is_waited_for = len(self._asked) < len(waiting)
        return call

    def done(self, answer: Any, error: MqError | None, now_s: float) -> None:
        """Let the snapshots begin; where that failed, ask again after a while."""
        asked, self._asked = self._asked, []
        starts: Mapping[TopicQueue, int] = {}
        if error is None:
            starts = self._starts(asked, answer)
        else:
            logger.warning("it is unknown where %s begins: %s", asked[0].place, error)
        later_s = again_s(now_s, error)
        for snapshot in asked:
            start = starts.get(snapshot.place)
            if start is None:
                self._not_before_s = later_s
                self._is_waited_for = True
            elif not snapshot.is_dropped:
                snapshot.start(start)

    def _question(self, waiting: list[Snapshot]) -> tuple[list[Snapshot], Call[Any]]:
        raise NotImplementedError

    def _starts(self, asked: list[Snapshot], answer: Any) -> Mapping[TopicQueue, int]:
        raise NotImplementedError


class GroupBeginner(Beginner):
    """Begins where the group is, which the broker records: so a group begins once.

    Its failed messages are its own from the first on, wherever it begins in its topics.
    """

    def _question(self, waiting: list[Snapshot]) -> tuple[list[Snapshot], Call[Any]]:
        settings = self._settings
        ordinary = [item for item in waiting if not item.place.topic.startswith(RETRY_PREFIX)]
        asked = ordinary or waiting
        return asked, self._calls.begin_offsets(
            settings.group,
            settings.client_id,
            [snapshot.place for snapshot in asked],
            consume_from=settings.consume_from if ordinary else ConsumeFrom.FIRST,
            consume_from_ms=settings.consume_from_ms if ordinary else None,
        )

    def _starts(self, _asked: list[Snapshot], answer: Any) -> Mapping[TopicQueue, int]:
        starts: dict[TopicQueue, int] = answer
        return starts


class OwnBeginner(Beginner):
    """Begins where this member alone is; the group has no progress of its own."""

    def __init__(
        self,
        settings: PushSettings,
        calls: Calls,
        *,
        waiting: Callable[[float], list[Snapshot]],
        kept: Mapping[TopicQueue, int],
    ) -> None:
        super().__init__(settings, calls, waiting=waiting)
        self._kept = kept

    def _question(self, waiting: list[Snapshot]) -> tuple[list[Snapshot], Call[Any]]:
        first = waiting[0].place
        is_by_time = self._settings.consume_from is ConsumeFrom.TIMESTAMP
        if is_by_time and first not in self._kept:
            time_ms = self._settings.consume_from_ms or 0
            return waiting[:1], self._calls.offset_at(first.topic, first.queue, time_ms)
        of_topic = [
            snapshot
            for snapshot in waiting
            if snapshot.place.topic == first.topic
            and (not is_by_time or snapshot.place in self._kept)
        ]
        return of_topic, self._calls.describe_topic(first.topic)

    def _starts(self, asked: list[Snapshot], answer: Any) -> Mapping[TopicQueue, int]:
        if isinstance(answer, int):
            return {asked[0].place: answer}
        info: TopicInfo = answer
        ranges = {queue.queue: queue for queue in info.queues}
        return dict(self._of_ranges(asked, ranges))

    def _of_ranges(
        self, asked: list[Snapshot], ranges: Mapping[int, QueueRange]
    ) -> Iterable[tuple[TopicQueue, int]]:
        is_last = self._settings.consume_from is ConsumeFrom.LAST
        for snapshot in asked:
            place = snapshot.place
            queue = ranges.get(place.queue)
            if queue is None or queue.min_offset is None or queue.max_offset is None:
                continue
            begin = queue.max_offset if is_last else queue.min_offset
            # What was kept may be of a store that lost its end, or be deleted by now.
            kept = self._kept.get(place, begin)
            yield place, max(queue.min_offset, min(kept, queue.max_offset))
