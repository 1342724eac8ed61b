"""What operators did to queues of groups, as the journal has it. Knows events; no clock, no rules.

Changed by applying journal events only, so a restart arrives at the same state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.engine.broker.operatorevents import HeadPassed, OffsetReset, QueueSuspended
from apps.engine.caretypes import Suspension

Key = tuple[str, str, int]
"""Group, topic and queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """The last message of a queue that was skipped or parked."""

    queue_offset: int
    is_parked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """The last reset of a queue: where the group was, and where it went on."""

    reset_id: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Whoever read a queue under a generation up to `fence` begins anew. `at_ms` is wall time."""

    fence: int
    at_ms: int


class OperatorState:
    """Suspensions, and the last skip, reset and fence of each queue of a group that had any."""

    def __init__(self) -> None:
        """Start with none."""
        self.suspensions: dict[Key, Suspension] = {}
        self.passed: dict[Key, Passed] = {}
        self.resets: dict[Key, Reset] = {}
        self._marks: dict[str, dict[tuple[str, int], Mark]] = {}

    def suspend(self, event: QueueSuspended, *, at_ms: int) -> None:
        """Suspend a queue or let it go on."""
        key = (event.group, event.topic, event.queue)
        if event.is_suspended:
            self.suspensions[key] = Suspension(at_ms=at_ms, by=event.by, reason=event.reason)
        else:
            self.suspensions.pop(key, None)

    def head_passed(self, event: HeadPassed, *, at_ms: int) -> None:
        """Remember what was skipped or parked."""
        key = (event.group, event.topic, event.queue)
        self.passed[key] = Passed(queue_offset=event.queue_offset, is_parked=event.is_parked)
        self._mark(key, Mark(fence=event.fence, at_ms=at_ms))

    def reset(self, event: OffsetReset, *, at_ms: int) -> None:
        """Remember where a group was."""
        key = (event.group, event.topic, event.queue)
        self.committed(key, event.queue_offset)
        self.resets[key] = Reset(
            reset_id=event.reset_id, before=event.before, after=event.queue_offset
        )
        self._mark(key, Mark(fence=event.fence, at_ms=at_ms))

    def committed(self, key: Key, queue_offset: int) -> None:
        """Forget what was skipped where a group goes back to it: it is to be read again."""
        passed = self.passed.get(key)
        if passed is not None and queue_offset <= passed.queue_offset:
            del self.passed[key]

    def forget(self, key: Key) -> None:
        """Forget all about a queue of a group: it is gone."""
        self.suspensions.pop(key, None)
        self.passed.pop(key, None)
        self.resets.pop(key, None)
        marks = self._marks.get(key[0])
        if marks is not None:
            marks.pop(key[1:], None)

    def mark(self, group: str, topic: str, queue: int) -> Mark | None:
        """Return the newest fence of a queue; None without one."""
        marks = self._marks.get(group)
        return None if marks is None else marks.get((topic, queue))

    def dump(self) -> dict[str, object]:
        """Return everything as plain values, for the checkpoint."""
        return {
            "suspensions": [
                [*key, one.at_ms, one.by, one.reason] for key, one in self.suspensions.items()
            ],
            "passed": [[*key, one.queue_offset, one.is_parked] for key, one in self.passed.items()],
            "resets": [
                [*key, one.reset_id, one.before, one.after] for key, one in self.resets.items()
            ],
            "marks": [
                [group, *place, mark.fence, mark.at_ms]
                for group, marks in self._marks.items()
                for place, mark in marks.items()
            ],
        }

    def load(self, content: Mapping[str, Any]) -> None:
        """Take up what `dump` gave. Raises KeyError, TypeError or ValueError for anything else."""
        for group, topic, queue, at_ms, by, reason in content["suspensions"]:
            self.suspensions[str(group), str(topic), int(queue)] = Suspension(
                at_ms=int(at_ms), by=str(by), reason=str(reason)
            )
        for group, topic, queue, offset, is_parked in content["passed"]:
            self.passed[str(group), str(topic), int(queue)] = Passed(
                queue_offset=int(offset), is_parked=bool(is_parked)
            )
        for group, topic, queue, reset_id, before, after in content["resets"]:
            self.resets[str(group), str(topic), int(queue)] = Reset(
                reset_id=str(reset_id), before=int(before), after=int(after)
            )
        for group, topic, queue, fence, at_ms in content["marks"]:
            key = (str(group), str(topic), int(queue))
            self._mark(key, Mark(fence=int(fence), at_ms=int(at_ms)))

    def _mark(self, key: Key, mark: Mark) -> None:
        self._marks.setdefault(key[0], {})[key[1:]] = mark
