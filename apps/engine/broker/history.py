"""What happened to locks and assignments lately, by journal number. Knows lines, not why they are.

Whoever keeps the history for good reads behind the number it has. The newest lines survive a
restart: lines of locks in the checkpoint, assignments by their place in the journal.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple
from itertools import islice
from typing import Any

from apps.engine.broker.assigned import decode
from apps.engine.broker.journal import Assigned
from apps.engine.grouptypes import GroupHistory, LockChange, LockTransition, Rebalance

LINES_MAX = 10_000
"""Lines in memory: an hour of three changes a second."""
KEPT_MAX = 1_000
"""Lines in a checkpoint: so many can be read by whoever follows after a restart."""
ANSWER_LINES_MAX = 1_000
CHARACTERS_MAX = 64 * 1024 * 1024
"""Assignments of many members are long; above this the oldest lines are forgotten sooner."""
ANSWER_CHARACTERS_MAX = 4 * 1024 * 1024
"""Reading them takes 20 ms, which is as long as one answer may hold the loop."""

# An assignment is kept as its event: a decoded one is many times as large.
_Line = LockTransition | tuple[Assigned, int, int]


class History:
    """The newest lines, oldest first."""

    def __init__(self, *, lines_max: int = LINES_MAX) -> None:
        """Remember nothing."""
        self._lines: deque[_Line] = deque()
        self._lines_max = lines_max
        self._characters = 0
        self._forgotten = -1

    def add_transition(self, line: LockTransition) -> None:
        """Note a change of a lock."""
        self._add(line)

    def add_assignment(self, event: Assigned, *, number: int, at_ms: int) -> None:
        """Note a new assignment."""
        self._add((event, number, at_ms))

    def after(self, number: int, *, end: int) -> GroupHistory:
        """Return lines behind a journal number and before `end`, oldest first, at most 1,000."""
        found = list(_some(self._behind(number), end))
        return GroupHistory(
            transitions=tuple(line for line in found if isinstance(line, LockTransition)),
            rebalances=tuple(_rebalances(found)),
            last=_number(found[-1]) if found else number,
            has_gap=number < self._forgotten,
        )

    def rebalances(self, number: int) -> list[Rebalance]:
        """Return every assignment behind a journal number, also what is not on the disk yet."""
        return list(_rebalances(self._behind(number)))

    def dump(self) -> dict[str, object]:
        """Return the newest lines as plain values, for the checkpoint."""
        lines = list(self._lines)
        kept = lines[-KEPT_MAX:]
        forgotten = _number(lines[-KEPT_MAX - 1]) if len(lines) > KEPT_MAX else self._forgotten
        return {
            "forgotten": forgotten,
            "lines": [
                list(astuple(line)) if isinstance(line, LockTransition) else line[1]
                for line in kept
            ],
        }

    def load(
        self, content: Mapping[str, Any], read: Callable[[int], tuple[Assigned, int] | None]
    ) -> None:
        """Take up what `dump` gave. `read` returns the assignment with a journal number, and when.

        One it returns None for counts as forgotten. Raises KeyError, TypeError or ValueError.
        """
        self._forgotten = int(content["forgotten"])
        for row in content["lines"]:
            if isinstance(row, list):
                number, at_ms, group, topic, queue, change, *rest = row
                owner, previous_owner, epoch, reason = rest
                self.add_transition(
                    LockTransition(
                        number=int(number),
                        at_ms=int(at_ms),
                        group=group,
                        topic=topic,
                        queue=int(queue),
                        change=LockChange(change),
                        owner=owner,
                        previous_owner=previous_owner,
                        epoch=int(epoch),
                        reason=reason,
                    )
                )
            elif (found := read(int(row))) is not None:
                event, at_ms = found
                self.add_assignment(event, number=int(row), at_ms=at_ms)
            else:
                self._forgotten = int(row)

    def _add(self, line: _Line) -> None:
        self._lines.append(line)
        self._characters += _characters(line)
        while len(self._lines) > self._lines_max or (
            self._characters > CHARACTERS_MAX and len(self._lines) > 1
        ):
            oldest = self._lines.popleft()
            self._characters -= _characters(oldest)
            self._forgotten = _number(oldest)

    def _behind(self, number: int) -> Iterator[_Line]:
        # Whoever follows is near the end, so the first line is looked for from there.
        first = len(self._lines)
        for line in reversed(self._lines):
            if _number(line) <= number:
                break
            first -= 1
        return islice(self._lines, first, None)


def _some(lines: Iterable[_Line], end: int) -> Iterator[_Line]:
    """Iterate over as many lines before a journal number as one answer may have."""
    characters = 0
    for count, line in enumerate(lines):
        characters += _characters(line)
        is_enough = count >= ANSWER_LINES_MAX or characters > ANSWER_CHARACTERS_MAX
        if _number(line) >= end or (count and is_enough):
            return
        yield line


def _rebalances(lines: Iterable[_Line]) -> Iterator[Rebalance]:
    for line in lines:
        if not isinstance(line, LockTransition):
            event, number, at_ms = line
            yield decode(event, number=number, at_ms=at_ms).line()


def _number(line: _Line) -> int:
    return line.number if isinstance(line, LockTransition) else line[1]


def _characters(line: _Line) -> int:
    return 0 if isinstance(line, LockTransition) else len(line[0].content)
