"""Beat on a wall clock that is set forward and back: every task goes on being ticked.

Row D9 of the fault table. Beat's own loop, with time that passes when the test says so.
"""

from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from celery.utils.imports import symbol_by_name

from apps.clockwork.aligned import AFTER_SLOT_S, AlignedSchedule
from apps.engine.clock import SystemClock
from mqweb.celery import app
from mqweb.schedule import SCHEDULE, TICK_S_MAX

HOUR_S = 3600
SLOW_LOOP_S = 0.001


class Beat:
    """The scheduler that the product's beat runs, and the two clocks it looks at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_s = 1_800_000_000.0
        self.monotonic_s = 77.0
        self.sent: list[tuple[float, float, str]] = []
        """Of each tick: the moment of the steady clock, of the wall clock, and the task."""
        monkeypatch.setattr(AlignedSchedule, "now", lambda _: self.now())
        monkeypatch.setattr(SystemClock, "monotonic_ms", lambda _: round(self.monotonic_s * 1000))
        self._scheduler = symbol_by_name(app.conf.beat_scheduler)(app)
        monkeypatch.setattr(self._scheduler, "apply_entry", self._send)
        monkeypatch.setattr(type(self._scheduler), "producer", None)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.wall_s, UTC)

    def run(self, seconds: float) -> list[str]:
        """Let so much time pass; return the tasks that were ticked meanwhile."""
        before = len(self.sent)
        ends_s = self.monotonic_s + seconds
        while (left_s := ends_s - self.monotonic_s) > 0:
            pause_s = min(max(self._scheduler.tick(), SLOW_LOOP_S), left_s)
            self.wall_s += pause_s
            self.monotonic_s += pause_s
        return [name for _, _, name in self.sent[before:]]

    def _send(self, entry: Any, producer: object = None) -> None:
        self.sent.append((self.monotonic_s, self.wall_s, entry.name))


@pytest.fixture
def beat(monkeypatch: pytest.MonkeyPatch) -> Beat:
    return Beat(monkeypatch)


def tick_s(name: str) -> int:
    return min(SCHEDULE[name], TICK_S_MAX)


def test_every_task_is_ticked_once_a_slot(beat: Beat) -> None:
    beat.run(TICK_S_MAX)
    sent = Counter(beat.run(60))
    assert sent == {name: 60 // tick_s(name) for name in SCHEDULE}


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S, 400 * 24 * HOUR_S, -400 * 24 * HOUR_S, 3, -3])
def test_after_a_jump_every_task_is_ticked_within_its_interval_and_never_in_a_burst(
    beat: Beat, jump_s: int
) -> None:
    beat.run(60)
    jumped_at_s = beat.monotonic_s

    beat.wall_s += jump_s
    beat.run(60)

    for name in SCHEDULE:
        moments = [at_s for at_s, _, sent in beat.sent if sent == name]
        pauses_s = [later - earlier for earlier, later in pairwise(moments)]
        assert max(pauses_s) <= 2 * tick_s(name) + 1
        after = [at_s for at_s in moments if at_s > jumped_at_s]
        assert len(after) >= 60 // tick_s(name) - 1
        slots = Counter(
            # As the schedule reads the clock, to the microsecond.
            (datetime.fromtimestamp(wall_s, UTC).timestamp() - AFTER_SLOT_S) // tick_s(name)
            for at_s, wall_s, sent in beat.sent
            if sent == name and at_s > jumped_at_s
        )
        assert set(slots.values()) == {1}


def test_a_beat_that_slept_for_ten_minutes_sends_one_tick_a_task(beat: Beat) -> None:
    beat.run(60)
    before = len(beat.sent)

    beat.wall_s += 600
    beat.monotonic_s += 600
    beat.run(SLOW_LOOP_S * 50)

    assert Counter(name for _, _, name in beat.sent[before:]) == dict.fromkeys(SCHEDULE, 1)


def test_a_beat_that_starts_asks_at_once_about_every_task(beat: Beat) -> None:
    assert sorted(beat.run(0.1)) == sorted(SCHEDULE)
