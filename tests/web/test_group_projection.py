"""Rows of members, wishes, assignments and locks: written when something changes, by anybody."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection
from django.test.utils import CaptureQueriesContext

from apps.bridge import engine as bridge
from apps.core.moments import moment
from apps.engine.grouptypes import LockChange, MemberState, QueueLockState
from apps.engine.types import FilterType, MessageModel
from apps.groups import models
from apps.groups.projection.groups import COMPARE_EVERY_MS, READ_EVERY_MS, GroupProjector
from apps.groups.services import clients
from tests.web.fake_engine import FakeEngine, client
from tests.web.group_values import (
    NOW_MS,
    HandClock,
    lock,
    member,
    rebalance,
    transition,
    wants,
)

pytestmark = pytest.mark.django_db(transaction=True)


class Projection:
    """A projector and the engine it looks at, on a clock set by hand."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.clock = HandClock()
        self.projector = GroupProjector(self.clock)

    def step(self, *, after_ms: int = 0) -> int | None:
        """Look and write what there is to write; None where nothing was."""
        self.clock.now_ms += after_ms
        look = self.projector.look(self.engine)  # type: ignore[arg-type]
        return None if look is None else self.projector.write(look)


@pytest.fixture
def engine() -> FakeEngine:
    """Return an engine in which two members share two queues of one topic."""
    fake = FakeEngine()
    fake.joined = [
        member("g", "a", wants("orders", "paid"), assignment={"orders": (0,)}),
        member("g", "b", wants("orders", "paid"), assignment={"orders": (1,)}),
    ]
    assignment = {"a": {"orders": (0,)}, "b": {"orders": (1,)}}
    fake.assigned = [rebalance("g", assignment, generation=7)]
    fake.rebalanced = [rebalance("g", assignment, number=11, generation=7)]
    fake.locks = [lock("g", "orders", 0, "a", epoch=5)]
    fake.transitions = [transition(12, "g", "orders", 0)]
    return fake


@pytest.fixture
def projection(engine: FakeEngine) -> Projection:
    """Return a projector that has not looked yet."""
    return Projection(engine)


def assigned() -> list[tuple[Any, ...]]:
    return list(models.QueueAssignment.objects.values_list("topic", "queue", "client_id"))


def wishes(*columns: str) -> list[Any]:
    return list(models.Subscription.objects.order_by("client_id").values_list(*columns))


def test_a_first_look_writes_all_there_is(projection: Projection) -> None:
    # Two members, wishes and assignments, a lock, two lines of history, and the group.
    assert projection.step() == 2 + 2 + 2 + 1 + 2 + 1

    first, second = models.Member.objects.all()
    assert (first.group, first.client_id, first.topics) == ("g", "a", ["orders"])
    assert (first.model, first.generation, first.conflicts) == ("CLUSTERING", 1, [])
    assert (second.client_id, second.last_seen_at) == ("b", moment(NOW_MS))
    assert wishes("client_id", "topic", "filter", "filter_type", "version") == [
        ("a", "orders", "paid", "TAG", 1),
        ("b", "orders", "paid", "TAG", 1),
    ]
    assert assigned() == [("orders", 0, "a"), ("orders", 1, "b")]
    held = models.QueueLock.objects.get()
    assert (held.owner, held.epoch, held.state) == ("a", 5, "held")
    assert held.expires_at == moment(NOW_MS + 60_000)
    line = models.LockTransition.objects.get()
    assert (line.number, line.change, line.owner, line.epoch) == (12, "acquired", "a", 12)
    shared_out = models.Rebalance.objects.get()
    assert (shared_out.number, shared_out.generation, shared_out.reason) == (11, 7, "join")
    assert shared_out.assignment == {"a": {"orders": [0]}, "b": {"orders": [1]}}
    assert models.ConsumerGroup.objects.get().decided_at is None


def test_where_nothing_happens_nothing_is_written_nor_asked_of_the_database(
    projection: Projection,
) -> None:
    projection.step()

    with CaptureQueriesContext(connection) as queries:
        steps = [projection.step(after_ms=1_000) for _ in range(30)]

    assert steps == [None] * 30
    assert queries.captured_queries == []


def test_heartbeats_and_renewals_write_nothing(projection: Projection) -> None:
    projection.step()
    engine = projection.engine
    engine.joined = [replace(found, last_seen_ms=NOW_MS + 9_000) for found in engine.joined]
    engine.locks = [replace(found, expires_in_ms=12_345) for found in engine.locks]

    assert projection.step(after_ms=READ_EVERY_MS) is None


def test_a_line_of_history_is_in_its_row_at_the_next_look(projection: Projection) -> None:
    projection.step()
    engine = projection.engine
    engine.transitions.append(
        transition(
            13, "g", "orders", 0, owner="b", previous_owner="a", change=LockChange.TAKEN_OVER
        )
    )
    engine.locks = [lock("g", "orders", 0, "b", epoch=6)]

    assert projection.step(after_ms=1) == 2

    held = models.QueueLock.objects.get()
    newest = models.LockTransition.objects.first()
    assert newest is not None
    assert (held.owner, held.epoch) == ("b", 6)
    assert (newest.change, newest.owner, newest.previous_owner) == ("taken_over", "b", "a")


def test_a_queue_that_moves_changes_its_row_and_one_that_is_nobodys_loses_it(
    projection: Projection,
) -> None:
    projection.step()
    engine = projection.engine
    engine.assigned = [rebalance("g", {"a": {}, "b": {"orders": (0,)}}, generation=8)]
    engine.rebalanced.append(rebalance("g", {"b": {"orders": (0,)}}, number=14, generation=8))

    projection.step()

    assert assigned() == [("orders", 0, "b")]
    assert models.QueueAssignment.objects.get().generation == 8


def test_a_member_that_leaves_loses_its_rows_and_one_that_only_receives_keeps_its_own(
    projection: Projection,
) -> None:
    receiver = models.Member.objects.create(
        group="g", client_id="r", first_seen_at=moment(0), last_seen_at=moment(NOW_MS)
    )
    projection.step()
    engine = projection.engine
    engine.joined = engine.joined[1:]
    engine.assigned = [rebalance("g", {"b": {"orders": (0, 1)}}, generation=8)]

    projection.step(after_ms=READ_EVERY_MS)

    assert list(models.Member.objects.values_list("client_id", flat=True)) == ["b", "r"]
    assert wishes("client_id") == [("b",)]
    receiver.refresh_from_db()
    assert receiver.model == ""


def test_a_group_that_is_gone_loses_all_but_its_history(projection: Projection) -> None:
    projection.step()
    engine = projection.engine
    engine.joined, engine.assigned, engine.locks = [], [], []

    projection.step(after_ms=READ_EVERY_MS)

    gone = (models.Member, models.Subscription, models.QueueAssignment)
    assert [model._default_manager.count() for model in gone] == [0, 0, 0]
    assert models.QueueLock.objects.get().state == "free"
    assert models.QueueLock.objects.get().owner == ""
    assert models.LockTransition.objects.count() == models.Rebalance.objects.count() == 1


def test_a_lock_that_is_free_can_be_held_again(projection: Projection) -> None:
    projection.step()
    held, projection.engine.locks = projection.engine.locks, []
    projection.step(after_ms=READ_EVERY_MS)
    projection.engine.locks = [replace(held[0], owner="b", epoch=9)]

    projection.step(after_ms=READ_EVERY_MS)

    row = models.QueueLock.objects.get()
    assert (row.state, row.owner, row.epoch) == ("held", "b", 9)


def test_a_lock_whose_time_is_over_is_shown_so(projection: Projection) -> None:
    projection.step()
    projection.engine.locks = [lock("g", "orders", 0, "a", epoch=5, expires_in_ms=-1)]

    projection.step(after_ms=READ_EVERY_MS)

    row = models.QueueLock.objects.get()
    assert (row.state, row.owner) == ("expired", "a")


def test_members_that_broadcast_have_no_assignment(projection: Projection) -> None:
    everything = {"orders": (0, 1)}
    projection.engine.joined = [
        member("all", name, wants("orders"), model=MessageModel.BROADCASTING) for name in "ab"
    ]
    projection.engine.assigned = [rebalance("all", {"a": everything, "b": everything})]

    projection.step()

    assert assigned() == []
    assert models.Member.objects.filter(model="BROADCASTING").count() == 2


def test_a_changed_mind_counts_a_version_and_a_conflict_does_not(projection: Projection) -> None:
    projection.step()
    engine = projection.engine
    a, b = engine.joined
    sql = wants("orders", "price > 5", FilterType.SQL92)
    engine.joined = [
        replace(a, subscriptions=(sql,), conflicts=("orders",)),
        replace(b, conflicts=("orders",)),
    ]

    projection.step(after_ms=READ_EVERY_MS)

    assert wishes("client_id", "filter", "filter_type", "is_conflicting", "version", "seen_at") == [
        ("a", "price > 5", "SQL92", True, 2, moment(NOW_MS + READ_EVERY_MS)),
        ("b", "paid", "TAG", True, 1, moment(NOW_MS)),
    ]
    assert models.Member.objects.filter(conflicts=["orders"]).count() == 2


def test_only_groups_that_changed_are_written(projection: Projection) -> None:
    projection.step()
    models.Member.objects.filter(group="g").update(site="changed behind our back")
    projection.engine.joined.append(member("other", "c", wants("bills")))

    assert projection.step(after_ms=READ_EVERY_MS) == 3

    assert set(models.Member.objects.filter(group="g").values_list("site", flat=True)) == {
        "changed behind our back"
    }


def test_rows_that_anybody_has_changed_are_right_again_within_a_minute(
    projection: Projection,
) -> None:
    projection.step()
    models.Member.objects.all().delete()
    models.QueueAssignment.objects.update(client_id="nobody")
    models.ConsumerGroup.objects.all().delete()

    projection.step(after_ms=COMPARE_EVERY_MS)

    assert models.Member.objects.count() == 2
    assert assigned() == [("orders", 0, "a"), ("orders", 1, "b")]
    assert models.ConsumerGroup.objects.count() == 1


def test_only_groups_that_something_happened_to_are_asked_for_in_between(
    projection: Projection, monkeypatch: pytest.MonkeyPatch
) -> None:
    projection.step()
    engine, asked = projection.engine, []
    members = engine.members

    def asking(group: str | None = None) -> list[MemberState]:
        asked.append(group)
        return members(group)

    monkeypatch.setattr(engine, "members", asking)
    engine.joined += [member("other", "c", wants("bills")), member("h", "d", wants("bills"))]
    engine.rebalanced.append(rebalance("h", {"d": {"bills": (0,)}}, number=20))

    written = projection.step(after_ms=1_000)
    read_all = projection.step(after_ms=READ_EVERY_MS)

    # Member, wish, line of history and group; then those of the other one, without a line.
    assert (written, read_all) == (4, 3)
    assert asked == ["h", None]


def test_very_many_groups_are_asked_for_at_once(
    projection: Projection, monkeypatch: pytest.MonkeyPatch
) -> None:
    projection.step()
    engine, asked = projection.engine, []
    locks = engine.queue_locks

    def asking(group: str | None = None) -> list[QueueLockState]:
        asked.append(group)
        return locks(group)

    monkeypatch.setattr(engine, "queue_locks", asking)
    for number in range(60):
        engine.transitions.append(transition(100 + number, f"g{number}", "orders", 0))
        engine.locks.append(lock(f"g{number}", "orders", 0, "a"))

    projection.step(after_ms=1_000)

    assert asked == [None]
    assert models.QueueLock.objects.count() == 61


def test_looks_at_all_groups_that_take_long_come_less_often(
    projection: Projection, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, asked = projection.engine, []
    members = engine.members

    def slow(group: str | None = None) -> list[MemberState]:
        asked.append(projection.clock.now_ms)
        projection.clock.now_ms += 200
        return members(group)

    monkeypatch.setattr(engine, "members", slow)

    for _ in range(25):
        projection.step(after_ms=1_000)

    # After a look of 0.2 s there is none for 10 s.
    assert asked == [1_000, 11_200, 21_400]


def test_after_a_start_nothing_is_written_twice(projection: Projection) -> None:
    projection.step()

    assert Projection(projection.engine).step() == 1  # The group's own row is only tried.

    assert models.LockTransition.objects.count() == models.Rebalance.objects.count() == 1


def test_what_the_database_refused_is_written_once_it_is_back(
    projection: Projection, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []

    def refuse(*_: object, **__: object) -> None:
        refused.append(1)
        raise DatabaseError("away")

    with monkeypatch.context() as patch:
        # The last thing that is written: all before it has to be taken back.
        patch.setattr("apps.groups.projection.state._write_locks", refuse)
        for _ in range(3):
            with pytest.raises(DatabaseError):
                projection.step(after_ms=1_000)
        projection.engine.transitions.append(transition(13, "g", "orders", 1))
    in_between = models.LockTransition.objects.count() + models.Member.objects.count()
    projection.step(after_ms=1_000)

    assert len(refused) == 3
    assert in_between == 0
    assert list(models.LockTransition.objects.values_list("number", flat=True)) == [13, 12]
    assert models.Member.objects.count() == 2


def test_a_long_history_is_caught_up_in_portions(projection: Projection) -> None:
    projection.engine.transitions = [
        transition(number, "g", "orders", number % 4) for number in range(100, 2_600)
    ]

    projection.step()
    counts = [models.LockTransition.objects.count()]
    while projection.step(after_ms=1_000) is not None:
        counts.append(models.LockTransition.objects.count())

    assert counts == [999, 1999, 2500]


def at_once(works: list[Callable[[], object]]) -> list[BaseException]:
    """Do all at once in threads of their own; return what went wrong."""
    errors: list[BaseException] = []
    together = threading.Barrier(len(works))

    def carried_out(work: Callable[[], object]) -> None:
        try:
            together.wait()
            work()
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=carried_out, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_two_projectors_at_once_write_each_row_once(engine: FakeEngine) -> None:
    clients = [f"c{number:03}" for number in range(60)]
    engine.joined = [member("g", name, wants("orders")) for name in clients]
    engine.assigned = [
        rebalance("g", {name: {"orders": (queue,)} for queue, name in enumerate(clients)})
    ]
    engine.transitions = [transition(number, "g", "orders", 0) for number in range(20, 220)]
    backwards = FakeEngine()
    backwards.assigned, backwards.transitions = engine.assigned, engine.transitions
    backwards.joined, backwards.locks = engine.joined[::-1], engine.locks

    projections = [Projection(fake) for fake in (engine, backwards, engine, backwards)]
    errors = at_once([projection.step for projection in projections])

    assert errors == []
    assert models.Member.objects.count() == 60
    assert len(assigned()) == 60
    assert models.LockTransition.objects.count() == 200


def test_projectors_that_disagree_at_once_leave_the_rows_of_one_of_them(
    engine: FakeEngine,
) -> None:
    other = FakeEngine()
    other.joined = [member("g", "z", wants("orders"))]
    other.assigned = [rebalance("g", {"z": {"orders": (0, 1)}}, generation=8)]

    def again_and_again(fake: FakeEngine) -> Callable[[], object]:
        return lambda: [Projection(fake).step() for _ in range(10)]

    errors = at_once([again_and_again(fake) for fake in (engine, other, engine, other)])

    assert errors == []
    found = assigned()
    assert found in (
        [("orders", 0, "a"), ("orders", 1, "b")],
        [("orders", 0, "z"), ("orders", 1, "z")],
    )


def test_the_task_for_silent_clients_and_a_projector_at_once_end_without_waiting_in_a_circle(
    engine: FakeEngine,
) -> None:
    names = [f"c{number:03}" for number in range(100)]
    engine.joined = [member("g", name, wants("orders")) for name in names]
    engine.assigned, engine.locks = [], []
    engine.seen = [
        client("g", name, "orders", first_seen_ms=NOW_MS, last_seen_ms=NOW_MS)
        for name in reversed(names)
    ]
    nobody = FakeEngine()
    bridge.install(engine, None)  # type: ignore[arg-type]

    def keep() -> None:
        for _ in range(10):
            clients.expire_silent_clients(now_ms=NOW_MS)

    def come_and_go() -> None:
        for _ in range(10):
            Projection(engine).step()
            Projection(nobody).step()

    errors = at_once([keep, come_and_go, keep, come_and_go])
    keep()
    Projection(engine).step()
    bridge.remove()

    assert errors == []
    assert models.Member.objects.filter(model="CLUSTERING").count() == 100


def test_a_queue_of_a_group_has_one_member_also_in_the_database() -> None:
    values = {"group": "g", "topic": "t", "queue": 0, "generation": 1}
    models.QueueAssignment.objects.create(client_id="a", **values)

    with pytest.raises(IntegrityError, match="assignment_once_a_group_and_queue"):
        models.QueueAssignment.objects.create(client_id="b", **values)


def test_a_lock_without_an_owner_is_free_also_in_the_database() -> None:
    values = {"group": "g", "topic": "t", "epoch": 1}
    times = {name: moment(NOW_MS) for name in ("acquired_at", "expires_at", "updated_at")}

    for queue, (owner, state) in enumerate([("", "held"), ("a", "free")]):
        with pytest.raises(IntegrityError, match="lock_has_an_owner_or_is_free"):
            models.QueueLock.objects.create(
                queue=queue, owner=owner, state=state, **values, **times
            )
