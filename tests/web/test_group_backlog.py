"""What groups have left to do: pace, blocked queues, idle members, and alarms."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine.grouptypes import BlockedHead, QueueBacklog
from apps.engine.types import MessageModel
from apps.groups import rates, watch
from apps.groups.blocked import blocked_queues, idle_members
from apps.groups.rates import PAUSE_MS_MAX, WINDOW_MS, Looks, Pace, together
from apps.groups.watch import BacklogWatch
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine, progress
from tests.web.group_values import (
    NOW_MS,
    HandClock,
    left_in_lites,
    left_to_do,
    member,
    wants,
)


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """Begin each test without a look of another one."""
    fresh = Looks()
    monkeypatch.setattr(rates, "recent", fresh)
    return fresh


def queue(committed: int, max_offset: int, **values: Any) -> QueueBacklog:
    return left_to_do("g", "orders", 0, committed=committed, max_offset=max_offset, **values)


# --- pace --------------------------------------------------------------------------------------


def test_two_looks_make_a_pace_and_a_time_to_drain(looks: Looks) -> None:
    looks.take([queue(100, 1_000)], now_ms=10_000)

    pace = looks.pace(queue(150, 1_010), now_ms=15_000)

    # 10 a second out, 2 in, 860 left.
    assert pace == Pace(in_per_s=2.0, out_per_s=10.0, drain_ms=107_500)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (None, queue(0, 5)),
        (left_to_do("g", "orders", 1), queue(0, 5)),
        (queue(7, 9), queue(6, 9)),
        (queue(7, 9), queue(0, 3)),
    ],
    ids=["never looked at", "another queue", "offset set back", "topic made anew"],
)
def test_a_pace_nobody_can_know_is_null(
    looks: Looks, before: QueueBacklog | None, now: QueueBacklog
) -> None:
    looks.take([] if before is None else [before], now_ms=0)

    assert looks.pace(now, now_ms=5_000) == Pace(in_per_s=None, out_per_s=None, drain_ms=None)


def test_a_queue_that_does_not_shrink_is_never_empty(looks: Looks) -> None:
    looks.take([queue(0, 10)], now_ms=0)

    assert looks.pace(queue(5, 15), now_ms=5_000).drain_ms is None
    assert looks.pace(queue(0, 10), now_ms=5_000) == Pace(
        in_per_s=0.0, out_per_s=0.0, drain_ms=None
    )


def test_an_empty_queue_is_drained_whatever_is_known(looks: Looks) -> None:
    assert looks.pace(queue(10, 10), now_ms=0).drain_ms == 0


def test_looks_too_close_or_too_long_ago_say_nothing(looks: Looks) -> None:
    looks.take([queue(0, 10)], now_ms=0)

    paces = [looks.pace(queue(1, 10), now_ms=now_ms) for now_ms in (0, 999, PAUSE_MS_MAX + 1)]

    assert [pace.out_per_s for pace in paces] == [None, None, None]


def test_a_pace_is_over_the_window_and_no_longer(looks: Looks) -> None:
    for second in range(0, 100, 5):
        looks.take([queue(second, 1_000)], now_ms=second * 1_000)

    assert len(looks._looks) == WINDOW_MS // 5_000 + 1
    assert looks.pace(queue(95, 1_000), now_ms=96_000).out_per_s == pytest.approx(30 / 31)


def test_after_an_offset_was_set_back_the_pace_is_of_the_looks_since(looks: Looks) -> None:
    looks.take([queue(90, 100)], now_ms=0)
    looks.take([queue(0, 100)], now_ms=5_000)

    assert looks.pace(queue(10, 100), now_ms=10_000).out_per_s == 2.0


def test_queues_together_have_the_sum_of_what_is_known() -> None:
    known = [Pace(in_per_s=1.0, out_per_s=3.0, drain_ms=0)] * 2
    unknown = Pace(in_per_s=None, out_per_s=None, drain_ms=None)

    assert together(40, [*known, unknown]) == Pace(in_per_s=2.0, out_per_s=6.0, drain_ms=10_000)
    assert together(40, [unknown]) == unknown
    assert together(0, []).drain_ms == 0


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=8))
def test_no_pace_is_ever_negative(steps: list[tuple[int, int]]) -> None:
    looks = Looks()
    for number, (committed, behind) in enumerate(steps):
        row = queue(committed, committed + behind)
        pace = looks.pace(row, now_ms=number * 5_000)
        looks.take([row], now_ms=number * 5_000)

        known = [rate for rate in (pace.in_per_s, pace.out_per_s) if rate is not None]
        assert all(rate >= 0 for rate in known)
        assert pace.drain_ms is None or pace.drain_ms >= 0


# --- blocked queues ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (queue(3, 9, owner="a", head_attempts=3), "head_fails"),
        (queue(3, 9, head_attempts=3), "head_fails"),
        (queue(3, 9, owner="a", stalled_ms=60_000), "stalled"),
        (queue(3, 9, owner="a", stalled_ms=60_000, head_attempts=5), "head_fails"),
        (queue(3, 9, owner="a", stalled_ms=60_000, head_attempts=1), "stalled"),
        (queue(3, 9, owner="a", stalled_ms=59_999), None),
        (queue(3, 9, owner="a", head_attempts=2), None),
        (queue(3, 9, stalled_ms=600_000), None),
        (queue(9, 9, owner="a", stalled_ms=600_000, head_attempts=9), None),
        (queue(3, 9, owner="a"), None),
    ],
)
def test_a_queue_is_blocked_when_its_head_fails_or_its_owner_stands_still(
    row: QueueBacklog, reason: str | None
) -> None:
    found = blocked_queues([row], [], now_ms=NOW_MS)

    assert [str(queue.reason) for queue in found] == ([] if reason is None else [reason])


def test_what_the_owner_says_of_the_head_counts_and_is_told() -> None:
    head = BlockedHead(topic="orders", queue=0, queue_offset=3, attempts=8, reason="no stock")
    owner = member("g", "a", wants("orders"), blocked=(head,))

    (found,) = blocked_queues([queue(3, 9, owner="a", stalled_ms=5_000)], [owner], now_ms=NOW_MS)

    assert (found.queue_offset, found.attempts, found.detail) == (3, 8, "no stock")
    assert (found.owner, found.since_ms, found.lag) == ("a", NOW_MS - 5_000, 6)


def test_what_was_said_of_an_earlier_head_or_another_group_does_not_count() -> None:
    head = BlockedHead(topic="orders", queue=0, queue_offset=2, attempts=8)
    other = BlockedHead(topic="orders", queue=0, queue_offset=3, attempts=8)
    members = [member("g", "a", blocked=(head,)), member("other", "a", blocked=(other,))]

    assert blocked_queues([queue(3, 9, owner="a")], members, now_ms=NOW_MS) == []


def test_members_that_share_queues_and_got_none_are_idle() -> None:
    members = [
        member("g", "works", wants("orders"), assignment={"orders": (0,)}),
        member("g", "idle", wants("orders"), assignment={"orders": ()}),
        member("g", "also-idle", wants("orders")),
        member("g", "wants-nothing"),
        member("g", "hears-all", wants("orders"), model=MessageModel.BROADCASTING),
    ]

    assert idle_members(members) == ["also-idle", "idle"]


# --- alarms ------------------------------------------------------------------------------------


def events(caplog: pytest.LogCaptureFixture) -> Iterator[tuple[str, int]]:
    for line in caplog.records:
        if line.getMessage() in ("queue_blocked", "queue_unblocked"):
            yield line.getMessage(), line.queue_offset


class Watched:
    """A watch over an engine, on a clock set by hand."""

    def __init__(self, looks: Looks) -> None:
        self.engine = FakeEngine()
        self.clock = HandClock()
        self.watch = BacklogWatch(self.clock, looks=looks)

    def look(self, *rows: QueueBacklog, after_ms: int = 5_000) -> None:
        self.clock.now_ms += after_ms
        self.engine.left_to_do = list(rows)
        self.watch.look(self.engine)  # type: ignore[arg-type]


@pytest.fixture
def watched(looks: Looks, caplog: pytest.LogCaptureFixture) -> Watched:
    """Return a watch that has not looked yet, with its lines kept."""
    caplog.set_level("INFO")
    return Watched(looks)


def test_an_alarm_is_told_once_when_it_begins_and_once_when_it_ends(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = queue(3, 9, owner="a", stalled_ms=61_000, head_attempts=7)

    watched.look(queue(3, 9, owner="a"))
    for _ in range(3):
        watched.look(stuck)
    watched.look(queue(9, 9, owner="a"))
    watched.look(queue(9, 9, owner="a"))

    assert list(events(caplog)) == [("queue_blocked", 3), ("queue_unblocked", 3)]
    begun = caplog.records[0]
    assert (begun.group, begun.topic, begun.queue, begun.owner) == ("g", "orders", 0, "a")
    assert (begun.reason, begun.attempts) == ("head_fails", 7)
    assert begun.since_ms == NOW_MS + 10_000 - 61_000
    assert begun.levelname == "WARNING"


def test_a_later_message_that_blocks_the_same_queue_is_an_alarm_of_its_own(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.look(queue(3, 9, head_attempts=3))
    watched.look(queue(4, 9, head_attempts=3))

    assert list(events(caplog)) == [
        ("queue_blocked", 3),
        ("queue_blocked", 4),
        ("queue_unblocked", 3),
    ]


def test_very_many_alarms_are_told_in_one_line(
    watched: Watched, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "LINES_MAX", 2)

    watched.look(*(left_to_do("g", "t", n, max_offset=1, head_attempts=9) for n in range(5)))

    assert len(list(events(caplog))) == 2
    (line,) = [line for line in caplog.records if line.getMessage() == "many_queues_blocked"]
    assert (line.begun, line.ended, line.blocked) == (5, 0, 5)


def test_looks_that_take_long_come_less_often(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def slow(_group: str | None = None) -> list[QueueBacklog]:
        asked.append(watched.clock.now_ms)
        watched.clock.now_ms += 200
        return []

    monkeypatch.setattr(watched.engine, "backlog", slow)

    for _ in range(5):
        watched.look(after_ms=5_000)

    # After a look of 0.2 s there is none for 10 s.
    assert asked == [5_000, 15_200, 25_400]


# --- the API -----------------------------------------------------------------------------------


def test_lag_tells_what_the_engine_knows_and_leaves_the_unknown_null(
    api: Api, engine: FakeEngine
) -> None:
    engine.left_to_do = [
        left_to_do("g", "b", 0, committed=1, max_offset=2**60),
        left_to_do(
            "g", "a", 3, committed=12, max_offset=20, owner="w@1", stalled_ms=900,
            head_attempts=2, oldest_age_ms=4_000, lock_epoch=2**33,
        ),
        left_to_do("other", "a", 0, max_offset=5),
    ]  # fmt: skip
    engine.progress = [progress("g", "a", 3, committed=12, delivered=15, max_offset=20)]

    body = api.get("/groups/g/lag").json()

    assert body["items"] == [
        {
            "topic": "a",
            "queue": 3,
            "is_retry": False,
            "committed": "12",
            "delivered": "12",
            "max_offset": "20",
            "lag": "8",
            "oldest_age_ms": 4_000,
            "in_per_s": None,
            "out_per_s": None,
            "drain_ms": None,
            "in_flight": 0,
            "lost": "0",
            "ready": "0",
            "stalled_ms": 900,
            "head_attempts": 2,
            "owner": "w@1",
            "lock": {"epoch": 2**33, "expires_in_ms": 60_000},
            "suspension": None,
        },
        {
            "topic": "b",
            "queue": 0,
            "is_retry": False,
            "committed": "1",
            "delivered": "1",
            "max_offset": str(2**60),
            "lag": str(2**60 - 1),
            "oldest_age_ms": None,
            "in_per_s": None,
            "out_per_s": None,
            "drain_ms": None,
            "in_flight": 0,
            "lost": "0",
            "ready": None,
            "stalled_ms": None,
            "head_attempts": None,
            "owner": None,
            "lock": None,
            "suspension": None,
        },
    ]
    assert body["total"] == {
        "lag": str(2**60 + 7),
        "oldest_age_ms": 4_000,
        "in_per_s": None,
        "out_per_s": None,
        "drain_ms": None,
        "retry_lag": "0",
        "lite_lag": "0",
    }
    assert body["lites"] == []


def test_lag_tells_what_is_left_in_lite_topics_once_for_their_parent(
    api: Api, engine: FakeEngine
) -> None:
    engine.left_to_do = [left_to_do("g", "a", 0, max_offset=5, oldest_age_ms=1_000)]
    engine.left_in_lites = [left_in_lites("g"), left_in_lites("other", lag=7)]

    body = api.get("/groups/g/lag").json()

    assert body["lites"] == [
        {
            "topic": "inbox",
            "lag": "1204",
            "topics_behind": 312,
            "in_flight": 4,
            "ready": "1200",
            "oldest_age_ms": 40_000,
            "in_per_s": None,
            "out_per_s": None,
            "drain_ms": None,
        }
    ]
    total = body["total"]
    assert (total["lag"], total["lite_lag"], total["oldest_age_ms"]) == ("1209", "1204", 40_000)


def test_lite_topics_that_are_not_counted_yet_make_the_whole_unknown(
    api: Api, engine: FakeEngine
) -> None:
    engine.left_to_do = [left_to_do("g", "a", 0, max_offset=5, oldest_age_ms=1_000)]
    engine.left_in_lites = [left_in_lites("g", lag=None)]

    lag, group = api.get("/groups/g/lag").json(), api.get("/groups/g").json()

    assert [lag["lites"][0][name] for name in ("lag", "topics_behind", "ready")] == [None] * 3
    assert [lag["total"][name] for name in ("lag", "lite_lag", "oldest_age_ms")] == [None] * 3
    assert (group["lag"], group["in_flight"]) == (None, None)


def test_a_group_that_reads_nothing_but_lite_topics_is_behind_in_them(
    api: Api, engine: FakeEngine
) -> None:
    engine.left_in_lites = [left_in_lites("g")]

    group = api.get("/groups/g").json()

    assert (group["lag"], group["in_flight"], group["topics"]) == ("1204", 4, ["inbox"])


def test_the_pace_of_lite_topics_is_of_messages_that_came_and_that_are_done(looks: Looks) -> None:
    looks.take([], [left_in_lites("g", lag=100), left_in_lites("h", lag=None)], now_ms=0)

    pace = looks.pace_of_lites(left_in_lites("g", lag=80, arrived=2_010), now_ms=5_000)
    unknown = looks.pace_of_lites(left_in_lites("h", lag=80), now_ms=5_000)

    # 10 came within 5 s, 30 were done, 80 are left.
    assert pace == Pace(in_per_s=2.0, out_per_s=6.0, drain_ms=20_000)
    assert unknown == Pace(in_per_s=None, out_per_s=None, drain_ms=None)


def test_lag_tells_the_pace_the_broker_has_seen(
    api: Api, engine: FakeEngine, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HandClock()
    monkeypatch.setattr("apps.groups.api.views.backlog.SystemClock", lambda: clock)
    engine.left_to_do = [queue(0, 100)]
    BacklogWatch(clock, looks=looks).look(engine)  # type: ignore[arg-type]
    clock.now_ms += 10_000
    engine.left_to_do = [queue(50, 110)]

    body = api.get("/groups/g/lag").json()

    (row,) = body["items"]
    assert (row["in_per_s"], row["out_per_s"], row["drain_ms"]) == (1.0, 5.0, 15_000)
    assert (body["total"]["in_per_s"], body["total"]["drain_ms"]) == (1.0, 15_000)


def test_an_unknown_group_has_nothing_left_to_do(api: Api, engine: FakeEngine) -> None:
    body = api.get("/groups/nobody/lag").json()

    assert (body["items"], body["total"]["lag"], body["total"]["drain_ms"]) == ([], "0", 0)
    assert api.get("/groups/nobody/blocked").json()["items"] == []


def test_blocked_queues_are_answered_by_name(
    api: Api, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.groups.api.views.backlog.SystemClock", HandClock)
    head = BlockedHead(topic="orders", queue=0, queue_offset=3, attempts=8, reason="no stock")
    engine.joined = [member("g", "a", wants("orders"), blocked=(head,))]
    engine.left_to_do = [
        queue(3, 9, owner="a", stalled_ms=5_000),
        left_to_do("g", "orders", 1, committed=9, max_offset=9, owner="a"),
    ]

    body = api.get("/groups/g/blocked").json()

    assert body["items"] == [
        {
            "topic": "orders",
            "queue": 0,
            "offset": "3",
            "owner": "a",
            "since": "2025-11-13T02:13:15.000Z",
            "reason": "head_fails",
            "attempts": 8,
            "detail": "no stock",
            "lag": "6",
        }
    ]


def test_without_an_engine_what_is_left_to_do_is_a_503(api: Api) -> None:
    for path in ("/groups/g/lag", "/groups/g/blocked", "/locks"):
        answer = api.get(path)

        assert answer.status_code == 503
        assert answer.json()["code"] == "stopping"
