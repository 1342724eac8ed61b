"""History of locks and assignments in rows: once a line, gaps told, kept for thirty days."""

from collections.abc import Iterator

import pytest

from apps.bridge import engine as bridge
from apps.clockwork.steps import Step
from apps.core.moments import moment
from apps.engine.errors import Stopping
from apps.engine.grouptypes import GroupHistory, LockTransition, Rebalance
from apps.engine.types import ClientSeen
from apps.groups import models, services
from apps.groups.models.locks import State
from apps.groups.projection.history import write_history
from apps.groups.projection.seen import SeenGroups
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine, client
from tests.web.group_values import NOW_MS, rebalance, transition

pytestmark = pytest.mark.django_db(transaction=True)

DAY_MS = 86_400_000
STORE = "5" * 32


def write(*lines: LockTransition | Rebalance, has_gap: bool = False, store_id: str = STORE) -> int:
    history = GroupHistory(
        transitions=tuple(line for line in lines if isinstance(line, LockTransition)),
        rebalances=tuple(line for line in lines if isinstance(line, Rebalance)),
        last=max((line.number for line in lines), default=0),
        has_gap=has_gap,
    )
    return write_history(history, store_id=store_id, now_ms=NOW_MS)


def numbers() -> list[int]:
    return list(models.LockTransition.objects.order_by("number").values_list("number", flat=True))


def gaps(caplog: pytest.LogCaptureFixture) -> Iterator[tuple[int | None, int]]:
    for line in caplog.records:
        if line.getMessage() == "group_history_gap":
            yield line.after, line.before


def test_a_line_is_written_once_however_often_it_is_told() -> None:
    line, shared_out = transition(3, "g", "t", 0), rebalance("g", {}, number=4)

    assert [write(line, shared_out), write(line, shared_out)] == [2, 0]
    assert numbers() == [3]


def test_lines_of_two_stores_do_not_get_into_each_others_way() -> None:
    write(transition(3, "g", "t", 0))

    assert write(transition(3, "g", "t", 1), store_id="6" * 32) == 1
    assert numbers() == [3, 3]


def test_a_number_given_again_by_a_store_from_a_backup_tells_what_is_true_now() -> None:
    write(transition(3, "g", "t", 0, owner="a"), rebalance("g", {"a": {"t": (0,)}}, number=4))

    again = rebalance("g", {"b": {"t": (0,)}}, number=4, generation=9)
    assert write(transition(3, "g", "t", 1, owner="b"), again) == 2

    line, shared_out = models.LockTransition.objects.get(), models.Rebalance.objects.get()
    assert (line.queue, line.owner) == (1, "b")
    assert (shared_out.generation, shared_out.assignment) == (9, {"b": {"t": [0]}})


def test_lines_older_than_rows_are_kept_are_left_out() -> None:
    old = transition(1, "g", "t", 0, at_ms=NOW_MS - 30 * DAY_MS - 1)
    kept = transition(2, "g", "t", 0, at_ms=NOW_MS - 30 * DAY_MS)

    assert write(old, kept) == 1
    assert numbers() == [2]


def test_a_long_reason_is_cut() -> None:
    write(transition(1, "g", "t", 0, reason="x" * 9_000))

    assert models.LockTransition.objects.get().reason == "x" * 500


def test_lines_that_were_forgotten_before_anybody_asked_are_told_as_a_gap(
    caplog: pytest.LogCaptureFixture,
) -> None:
    write(transition(1, "g", "t", 0), rebalance("g", {}, number=5))
    write(transition(900, "g", "t", 0), has_gap=True)

    assert list(gaps(caplog)) == [(5, 900)]


def test_a_start_that_reads_lines_again_has_no_gap(caplog: pytest.LogCaptureFixture) -> None:
    write(transition(5, "g", "t", 0), transition(6, "g", "t", 0))
    write(transition(6, "g", "t", 0), transition(7, "g", "t", 0), has_gap=True)

    assert list(gaps(caplog)) == []
    assert numbers() == [5, 6, 7]


def test_lines_from_before_the_first_row_are_a_gap_too(caplog: pytest.LogCaptureFixture) -> None:
    write(transition(900, "g", "t", 0), has_gap=True)

    assert list(gaps(caplog)) == [(None, 900)]


def prune(now_ms: int = NOW_MS, rows_max: int = 5_000) -> Step:
    return services.prune_history(now_ms=now_ms, rows_max=rows_max)


def test_history_goes_after_thirty_days(engine: FakeEngine) -> None:
    write(*(transition(n, "g", "t", 0, at_ms=NOW_MS - n * DAY_MS) for n in (1, 29, 30)))
    write(rebalance("g", {}, number=40, at_ms=NOW_MS - 10 * DAY_MS))

    assert prune(NOW_MS + DAY_MS) == Step(done=1)
    assert numbers() == [1, 29]
    assert prune(NOW_MS + 40 * DAY_MS) == Step(done=3)


def test_history_goes_in_portions(engine: FakeEngine) -> None:
    write(*(transition(n, "g", "t", 0) for n in range(5)))
    write(*(rebalance("g", {}, number=n) for n in range(10, 13)))

    steps = [prune(NOW_MS + 31 * DAY_MS, rows_max=4) for _ in range(3)]

    assert steps == [Step(done=4, more=True), Step(done=4, more=True), Step()]


def test_a_free_lock_goes_with_its_history_and_a_held_one_stays(engine: FakeEngine) -> None:
    times = {name: moment(NOW_MS) for name in ("acquired_at", "expires_at", "updated_at")}
    for queue, (state, owner) in enumerate(
        [(State.FREE, ""), (State.HELD, "a"), (State.EXPIRED, "a"), (State.FREE, "")]
    ):
        models.QueueLock.objects.create(
            group="g", topic="t", queue=queue, epoch=1, state=state, owner=owner, **times
        )
    models.LockTransition.objects.create(
        store_id=STORE, number=1, at=moment(NOW_MS + 2 * DAY_MS), group="g", topic="t", queue=3,
        change="released", epoch=1,
    )  # fmt: skip

    assert prune(NOW_MS + 31 * DAY_MS) == Step(done=1)
    assert list(models.QueueLock.objects.values_list("queue", flat=True)) == [1, 2, 3]
    assert prune(NOW_MS + 33 * DAY_MS) == Step(done=2)
    assert list(models.QueueLock.objects.values_list("queue", flat=True)) == [1, 2]


def test_a_group_nobody_decided_about_goes_when_nobody_has_heard_of_it(
    engine: FakeEngine,
) -> None:
    SeenGroups().project({"unheard", "heard", "decided", "new"})
    services.put_group(name="decided", values={})
    models.ConsumerGroup.objects.exclude(name="new").update(created_at=moment(NOW_MS - 31 * DAY_MS))
    models.ConsumerGroup.objects.filter(name="new").update(created_at=moment(NOW_MS))
    engine.seen = [client("heard", "c", "t")]

    assert prune() == Step(done=1)

    names = models.ConsumerGroup.objects.values_list("name", flat=True)
    assert list(names) == ["decided", "heard", "new"]


def test_no_group_goes_while_the_engine_cannot_say_whom_it_knows(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    SeenGroups().project({"g"})
    models.ConsumerGroup.objects.update(created_at=moment(0))

    def away(_group: str | None = None) -> list[ClientSeen]:
        raise Stopping("away")

    monkeypatch.setattr(engine, "clients", away)

    with pytest.raises(Stopping):
        prune()
    assert models.ConsumerGroup.objects.count() == 1


def test_a_group_that_is_seen_has_one_row_and_a_decided_one_is_left_alone() -> None:
    models.ConsumerGroup.objects.create(name="a", ordered=True)
    seen = SeenGroups()

    assert [seen.project({"a", "b"}), seen.project({"b", "a"}), seen.project({"c"})] == [2, 0, 1]

    rows = models.ConsumerGroup.objects.values_list("name", "ordered")
    assert list(rows) == [("a", True), ("b", False), ("c", False)]


def test_assignments_are_answered_newest_first_in_pages(api: Api, engine: FakeEngine) -> None:
    write(
        *(
            rebalance("g", {"a": {"t": (n,)}}, number=n, generation=2**33 + n, reason="join")
            for n in range(5)
        )
    )
    write(rebalance("other", {}, number=9))

    first = api.get("/groups/g/rebalances", limit="2").json()
    second = api.get("/groups/g/rebalances", limit="3", cursor=first["next_cursor"]).json()

    assert [item["number"] for item in first["items"]] == ["4", "3"]
    assert [item["number"] for item in second["items"]] == ["2", "1", "0"]
    assert second["next_cursor"] is None
    assert first["items"][0] == {
        "number": "4",
        "at": "2025-11-13T02:13:20.000Z",
        "generation": 2**33 + 4,
        "reason": "join",
        "strategy": "AVG",
        "assignment": {"a": {"t": [4]}},
        "queues_moved": 0,
    }
    assert api.get("/groups/nobody/rebalances").json()["items"] == []


@pytest.mark.parametrize("cursor", ["?", "b3JkZXJz", "OTk5OTk5OTk5OTk5OTk5OTk5OQ"])
def test_a_cursor_of_another_list_is_refused(api: Api, engine: FakeEngine, cursor: str) -> None:
    for path in ("/groups/g/rebalances", "/locks/g~t~0/transitions"):
        answer = api.get(path, cursor=cursor)

        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/cursor"


def test_history_is_answered_while_the_engine_is_away(api: Api) -> None:
    assert bridge.engine_or_none() is None
    write(transition(1, "g", "t", 0), rebalance("g", {}, number=2))

    assert len(api.get("/groups/g/rebalances").json()["items"]) == 1
    assert len(api.get("/locks/g~t~0/transitions").json()["items"]) == 1
