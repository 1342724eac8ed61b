"""What the console makes of a reading: states, ages by the right clock, and the banner."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError

from apps.clockwork.selectors import Clockwork
from apps.console.banners import Banner
from apps.console.clockwork import GRACE_MS, OLD_AFTER_MS, ClockworkWatch, TaskRow
from tests.web.console import readings
from tests.web.console.fakes import HandClock
from tests.web.console.texts import worded


def reader(found: Clockwork) -> Callable[[], Clockwork]:
    return lambda: found


def after_the_start(watch: ClockworkWatch, clock: HandClock, found: Clockwork) -> None:
    """Take a reading when the time for a start is over."""
    clock.now_ms += GRACE_MS
    watch.take(reader(found))


def banner_of(watch: ClockworkWatch) -> Banner:
    banner = watch.picture()["banner"]
    assert banner is not None
    found: Banner = worded(banner)
    return found


def task_row(watch: ClockworkWatch, **changes: Any) -> TaskRow:
    watch.take(reader(readings.running(readings.task(**changes))))
    (row,) = watch.picture()["tasks"] or ()
    return row


class TestStates:
    def test_a_clockwork_whose_steps_begin_runs_and_needs_no_banner(
        self, watch: ClockworkWatch
    ) -> None:
        watch.take(reader(readings.running()))

        picture = watch.picture()

        assert (picture["state"], picture["banner"]) == ("running", None)
        assert (picture["worker_count"], picture["beat_count"]) == (1, 1)
        assert (picture["failing_count"], picture["task_count"]) == (0, 1)

    @pytest.mark.parametrize("found", [None, readings.still("beat", "worker", since_s=None)])
    def test_nobody_is_alarmed_while_the_server_starts(
        self, watch: ClockworkWatch, clock: HandClock, found: Clockwork | None
    ) -> None:
        if found is not None:
            watch.take(reader(found))
        clock.now_ms += min(GRACE_MS, OLD_AFTER_MS) - 1

        picture = watch.picture()

        assert (picture["state"], picture["banner"]) == ("starting", None)

    def test_the_time_for_a_start_is_twenty_seconds(
        self, watch: ClockworkWatch, clock: HandClock
    ) -> None:
        states = []
        for step_ms in (19_999, 1):
            clock.now_ms += step_ms
            watch.take(reader(readings.still("worker")))
            states.append(watch.picture()["state"])

        assert states == ["starting", "standing still"]

    def test_a_clockwork_that_runs_again_takes_the_banner_away(
        self, watch: ClockworkWatch, clock: HandClock
    ) -> None:
        after_the_start(watch, clock, readings.still("worker"))
        before = watch.picture()["banner"]
        watch.take(reader(readings.running()))

        assert before is not None
        assert watch.picture()["banner"] is None

    def test_a_reading_that_got_old_is_not_taken_for_the_present(
        self, watch: ClockworkWatch, clock: HandClock
    ) -> None:
        after_the_start(watch, clock, readings.running())
        clock.now_ms += OLD_AFTER_MS
        young = watch.picture()["state"]
        clock.now_ms += 1

        picture = watch.picture()

        assert (young, picture["state"]) == ("running", "not known")
        assert (picture["worker_count"], picture["beat_count"]) == (None, None)
        assert [task["due_in_s"] for task in picture["tasks"] or ()] == [None]

    def test_a_reading_that_fails_leaves_the_last_one_to_get_old(
        self, watch: ClockworkWatch, clock: HandClock
    ) -> None:
        def away() -> Clockwork:
            raise OperationalError("connection refused")

        watch.take(reader(readings.running()))
        clock.now_ms += 4_000
        with pytest.raises(OperationalError):
            watch.take(away)

        assert watch.picture()["last_step_s"] == 3 + 4

    def test_without_any_reading_nothing_is_known_and_nothing_is_zero(
        self, watch: ClockworkWatch, clock: HandClock
    ) -> None:
        clock.now_ms += GRACE_MS

        picture = watch.picture()

        assert picture["state"] == "not known"
        known = {key: value for key, value in picture.items() if value is not None}
        assert set(known) == {"state", "state_said", "banner"}


class TestBanner:
    @pytest.mark.parametrize(
        ("missing", "text", "commands"),
        [
            (("beat",), "No beat is there.", "celery -A mqweb beat"),
            (("worker",), "No worker is there.", "celery -A mqweb worker"),
            (
                ("beat", "worker"),
                "No beat and no worker is there.",
                "celery -A mqweb beat\ncelery -A mqweb worker",
            ),
        ],
    )
    def test_it_says_what_is_missing_and_how_to_start_it(
        self,
        watch: ClockworkWatch,
        clock: HandClock,
        missing: tuple[str, ...],
        text: str,
        commands: str,
    ) -> None:
        after_the_start(watch, clock, readings.still(*missing))

        banner = banner_of(watch)

        assert banner["title"] == "The clockwork stands still"
        assert banner["since"] == "since 2026-11-21T11:55:00.000Z"
        assert banner["text"].startswith(text)
        assert banner["commands"] == commands
        assert "part_ended" in banner["advice"]

    def test_with_all_processes_there_it_sends_to_the_log_of_the_worker(
        self, watch: ClockworkWatch, clock: HandClock
    ) -> None:
        after_the_start(watch, clock, readings.still())

        banner = banner_of(watch)

        assert "log of the worker" in banner["advice"]
        assert banner["commands"] == ""

    def test_a_server_that_was_told_to_run_none_is_told_by_name(self, clock: HandClock) -> None:
        watch = ClockworkWatch(clock=clock, worker_processes=0)
        after_the_start(watch, clock, readings.still("beat", "worker"))

        assert "MQWEB_WORKER_PROCESSES=0" in banner_of(watch)["advice"]

    def test_what_never_began_has_no_age(self, watch: ClockworkWatch, clock: HandClock) -> None:
        after_the_start(watch, clock, readings.still("beat", "worker", since_s=None))

        banner = banner_of(watch)

        assert (banner["since"], banner["age"]) == ("and has never begun a task", "")

    def test_it_tells_since_when_nothing_could_be_read(
        self, watch: ClockworkWatch, clock: HandClock
    ) -> None:
        after_the_start(watch, clock, readings.running())
        clock.now_ms += 75_000

        banner = banner_of(watch)

        assert banner["title"] == "The clockwork is out of sight"
        assert (banner["since"], banner["age"]) == ("since 2026-11-21T12:00:00.000Z", "75 s ago")
        assert "database_away" in banner["advice"]

    def test_nothing_of_it_but_the_age_changes_while_it_stands(
        self, watch: ClockworkWatch, clock: HandClock
    ) -> None:
        after_the_start(watch, clock, readings.still("worker", since_s=100))
        first = banner_of(watch)
        clock.now_ms += 7_000
        second = banner_of(watch)

        assert (first["age"], second["age"]) == ("100 s ago", "107 s ago")
        assert {**first, "age": ""} == {**second, "age": ""}


class TestRows:
    def test_ages_go_on_between_readings_whatever_the_wall_clock_does(
        self, watch: ClockworkWatch, clock: HandClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        watch.take(reader(readings.running()))
        monkeypatch.setattr(clock, "wall_ms", lambda: 0)
        clock.now_ms += 1_500

        picture = watch.picture()

        (row,), (beat, _) = picture["tasks"] or (), picture["parts"] or ()
        assert (row["last_run_s"], row["due_in_s"]) == (4, 0)
        assert (beat["started_s"], beat["seen_s"]) == (3_601, 2)

    def test_a_task_that_ran_well(self, watch: ClockworkWatch) -> None:
        row = task_row(watch)

        assert (row["outcome"], row["duration_ms"], row["done"]) == ("done", 42, 17)
        assert (row["due_in_s"], row["due_level"]) == (2, "")

    def test_a_task_that_never_ran(self, watch: ClockworkWatch) -> None:
        row = task_row(watch, last_started_at=None, last_outcome="", due_at=readings.NOW)

        assert (row["outcome"], row["last_run_s"], row["due_in_s"]) == ("never run", None, 0)

    def test_a_task_that_runs_is_due_again_by_when_it_ends(self, watch: ClockworkWatch) -> None:
        row = task_row(watch, is_running=True, last_outcome="failed", due_at=readings.before(3))

        assert (row["outcome"], row["due_in_s"]) == ("running", None)

    def test_a_task_whose_run_was_cut_off(self, watch: ClockworkWatch) -> None:
        assert task_row(watch, is_overdue=True)["outcome"] == "overdue"

    def test_a_task_with_more_left_is_due_now(self, watch: ClockworkWatch) -> None:
        assert task_row(watch, has_more=True)["due_in_s"] == 0

    @pytest.mark.parametrize(
        ("is_late", "due_in_s", "level"), [(False, 0, ""), (True, -25, "late")]
    )
    def test_a_task_is_called_late_when_its_ticks_should_have_come(
        self, watch: ClockworkWatch, is_late: bool, due_in_s: int, level: str
    ) -> None:
        row = task_row(watch, due_at=readings.before(25), is_late=is_late)

        assert (row["due_in_s"], row["due_level"]) == (due_in_s, level)

    def test_failures_are_counted(self, watch: ClockworkWatch) -> None:
        row = task_row(watch, last_outcome="failed", last_error="LookupError", failures_in_a_row=3)

        assert (row["outcome"], row["error"], row["failures_in_a_row"]) == (
            "failed",
            "LookupError",
            3,
        )
        assert watch.picture()["failing_count"] == 1

    def test_a_silent_process_is_shown_and_not_counted(self, watch: ClockworkWatch) -> None:
        silent = readings.part("worker", "dead", seen_s=90, is_silent=True)
        watch.take(reader(readings.running(parts=[readings.part("worker", "alive"), silent])))

        picture = watch.picture()

        assert picture["worker_count"] == 1
        assert [
            (row["name"], row["presence"], row["seen_s"]) for row in picture["parts"] or ()
        ] == [
            ("alive", "there", 1),
            ("dead", "silent", 90),
        ]

    def test_a_run_says_how_it_ended(self, watch: ClockworkWatch) -> None:
        runs = [
            readings.run("a", outcome="running", duration_ms=None),
            readings.run("b", outcome="running", duration_ms=None, is_overdue=True),
            readings.run("c", outcome="failed", error="LookupError"),
        ]
        watch.take(reader(readings.running(runs=runs)))

        rows = watch.picture()["runs"] or ()

        assert [(row["owner"], row["outcome"], row["error"]) for row in rows] == [
            ("a", "running", ""),
            ("b", "overdue", ""),
            ("c", "failed", "LookupError"),
        ]

    def test_what_lies_ahead_of_the_reading_is_of_this_moment(self, watch: ClockworkWatch) -> None:
        assert task_row(watch, last_started_at=readings.before(-0.5))["last_run_s"] == 0
