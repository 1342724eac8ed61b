"""What happened to locks and assignments: read behind a number, bounded, and kept over restarts."""

import random

import pytest

from apps.engine.broker import history as history_module
from apps.engine.broker.history import ANSWER_LINES_MAX, KEPT_MAX, History
from apps.engine.broker.journal import Assigned
from apps.engine.errors import StoreDamaged
from apps.engine.grouptypes import GroupHistory, LockChange, LockTransition, QueuePlace
from apps.engine.testing.crashes import CrashMode
from tests.engine.broker.brokerbench import BrokerBench

PLACE = QueuePlace(topic="orders", queue=0)
EMPTY = '{"members":[],"topics":{},"moved":0}'


def a_line(number: int) -> LockTransition:
    return LockTransition(
        number=number,
        at_ms=number,
        group="g",
        topic="orders",
        queue=0,
        change=LockChange.ACQUIRED,
        owner="a",
        previous_owner="",
        epoch=number,
    )


def an_assignment(content: str = EMPTY) -> Assigned:
    return Assigned(group="g", generation=1, reason="join", strategy="AVG", content=content)


def numbers(found: GroupHistory) -> list[int]:
    of_locks = [line.number for line in found.transitions]
    return sorted(of_locks + [line.number for line in found.rebalances])


def test_lines_behind_a_number_come_in_order_and_once() -> None:
    history = History()
    for number in (3, 5, 8):
        history.add_transition(a_line(number))
    history.add_assignment(an_assignment(), number=9, at_ms=1)

    assert numbers(history.after(-1, end=100)) == [3, 5, 8, 9]
    assert numbers(history.after(3, end=100)) == [5, 8, 9]
    assert numbers(history.after(4, end=100)) == [5, 8, 9]
    assert history.after(9, end=100) == GroupHistory(transitions=(), rebalances=(), last=9)
    assert history.after(3, end=100).last == 9


def test_what_a_power_cut_could_take_back_is_not_told() -> None:
    history = History()
    for number in (3, 5, 8):
        history.add_transition(a_line(number))

    found = history.after(-1, end=8)

    assert (numbers(found), found.last) == ([3, 5], 5)


def test_an_answer_is_bounded_and_says_where_to_go_on() -> None:
    history = History()
    for number in range(ANSWER_LINES_MAX + 5):
        history.add_transition(a_line(number))

    first = history.after(-1, end=10**6)
    rest = history.after(first.last, end=10**6)

    assert (len(first.transitions), len(rest.transitions)) == (ANSWER_LINES_MAX, 5)
    assert not first.has_gap


def test_long_assignments_make_an_answer_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "ANSWER_CHARACTERS_MAX", 2 * len(EMPTY))
    history = History()
    for number in range(5):
        history.add_assignment(an_assignment(), number=number, at_ms=1)

    assert numbers(history.after(-1, end=100)) == [0, 1]
    assert numbers(history.after(1, end=100)) == [2, 3]


def test_one_assignment_is_told_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "ANSWER_CHARACTERS_MAX", 1)
    monkeypatch.setattr(history_module, "CHARACTERS_MAX", 1)
    history = History()
    for number in range(3):
        history.add_assignment(an_assignment(), number=number, at_ms=1)

    found = history.after(-1, end=100)

    assert (numbers(found), found.has_gap) == ([2], True)


def test_forgotten_lines_are_a_gap_for_whoever_is_behind_them() -> None:
    history = History(lines_max=10)
    for number in range(25):
        history.add_transition(a_line(number))

    assert history.after(13, end=100).has_gap
    assert not history.after(14, end=100).has_gap
    assert numbers(history.after(-1, end=100)) == list(range(15, 25))


def test_the_newest_lines_survive_a_checkpoint() -> None:
    history = History()
    for number in range(KEPT_MAX + 3):
        history.add_transition(a_line(number))
    again = History()

    again.load(history.dump(), lambda number: None)

    found = again.after(KEPT_MAX, end=10**6)
    assert found.transitions == (a_line(KEPT_MAX + 1), a_line(KEPT_MAX + 2))
    assert again.after(1, end=10**6).has_gap
    assert not again.after(2, end=10**6).has_gap


def test_a_broker_tells_the_same_history_after_a_restart() -> None:
    bench = BrokerBench()
    bench.join("a")
    bench.join("b")
    bench.lock("a")
    bench.broker.locks.force("g", PLACE, reason="stuck", expected_owner="a")
    bench.broker.membership.leave("g", "b")
    bench.sync()
    before = bench.broker.history(-1)

    bench.restart()

    after = bench.broker.history(-1)
    assert after == before
    assert [line.reason for line in before.rebalances] == ["join", "join", "leave"]
    assert [(line.change, line.previous_owner, line.reason) for line in before.transitions] == [
        (LockChange.ACQUIRED, "", ""),
        (LockChange.FORCED, "a", "stuck"),
    ]


def test_a_kill_between_checkpoints_loses_no_line() -> None:
    bench = BrokerBench()
    bench.join("a")
    bench.broker.checkpoint()
    bench.join("b")
    bench.lock("a")
    bench.sync()
    before = bench.broker.history(-1)

    bench.disk = bench.disk.crash_image(random.Random(0), CrashMode.NOTHING)
    bench.open()

    assert bench.broker.history(-1) == before
    assert len(before.rebalances) == 2
    assert len(before.transitions) == 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"members":[],"topics":[],"moved":0}',
        '{"members":[],"topics":{"t":-1},"moved":0}',
        '{"members":[],"topics":{"t":true},"moved":0}',
        '{"members":[["a"]],"topics":{},"moved":0}',
        '{"members":[["a",1,"NEITHER",false,null,"",[],{}]],"topics":{},"moved":0}',
        '{"members":[["a",1,"CLUSTERING",false,"X","",[],{}]],"topics":{},"moved":0}',
        '{"members":[["a",1,"CLUSTERING",false,null,"",[["t"]],{}]],"topics":{},"moved":0}',
        '{"members":[["a",1,"CLUSTERING",false,null,"",[],{"t":[[0,5]]}]],"topics":{"t":2},"moved":0}',
        '{"members":[["a",1,"CLUSTERING",false,null,"",[],{"t":[[0,0]]}]],"topics":{},"moved":0}',
        '{"members":[["a",1,"CLUSTERING",false,null,"",[],{"t":[[0,99999999]]}]],"topics":{},"moved":0}',
        '{"members":[["a",1,"CLUSTERING",false,null,"",[],{"t":[[0]]}]],"topics":{},"moved":0}',
    ],
)
def test_a_content_that_is_none_is_damage(content: str) -> None:
    bench = BrokerBench()

    with pytest.raises(StoreDamaged):
        bench.broker.state.apply(an_assignment(content), number=0, at_ms=0)

    assert bench.broker.state.assignments.get("g") is None
