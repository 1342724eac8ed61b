"""Topics that grow and shrink while they are used: rows, the engine's catalog, and the API."""

from dataclasses import replace

import pytest
from django.db import IntegrityError

from apps.clockwork.steps import Step
from apps.engine.errors import Stopping
from apps.engine.types import CatalogSnapshot, EngineStatus, MessageModel, TopicSpec
from apps.topics import services, snapshot
from apps.topics.models import MessageQueue, Topic
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine, progress
from tests.web.group_values import member, wants

pytestmark = pytest.mark.django_db(transaction=True)


def step() -> int:
    found = services.reconcile_catalog()
    assert not found.more
    return found.done


def steps_until_closed() -> list[int]:
    """The engine obeys; the log's end is noted; what is empty goes."""
    return [step() for _ in range(3)]


def counts(engine: FakeEngine, name: str = "orders") -> tuple[int, int | None]:
    spec = engine.catalog.topics[name]
    return spec.queue_count, spec.write_queue_count


def read(engine: FakeEngine, *committed: int, group: str = "g", topic: str = "orders") -> None:
    """Have a group read so far in each queue of a topic."""
    engine.progress = [row for row in engine.progress if (row.group, row.topic) != (group, topic)]
    engine.progress += [
        progress(
            group,
            topic,
            queue,
            committed=offset,
            delivered=offset,
            max_offset=engine.lengths.get((topic, queue), 0),
        )
        for queue, offset in enumerate(committed)
    ]


def test_without_a_drain_further_queues_take_messages_at_once(api: Api, engine: FakeEngine) -> None:
    api.put("/topics/orders", {"queue_count": 2})

    body = api.put("/topics/orders", {"queue_count": 4}).json()

    assert counts(engine) == (4, None)
    assert (body["queue_count"], body["write_queue_count"], body["target_queue_count"]) == (4, 4, 4)
    assert body["waiting_for"] == []
    assert step() == 0


def test_with_a_drain_further_queues_are_read_and_take_nothing_until_all_is_read(
    api: Api, engine: FakeEngine
) -> None:
    api.put("/topics/orders", {"queue_count": 2})
    engine.lengths["orders", 0] = 10
    read(engine, 7, 0)

    body = api.put("/topics/orders", {"queue_count": 4, "drain": True}).json()
    waiting = (counts(engine), step(), counts(engine))
    read(engine, 10, 0, 0, 0)
    opened = (step(), counts(engine))

    assert (body["queue_count"], body["write_queue_count"], body["target_queue_count"]) == (4, 2, 4)
    assert body["waiting_for"] == [{"group": "g", "queue": 0, "lag": "3"}]
    assert waiting == ((4, 2), 0, (4, 2))
    assert opened == (1, (4, None))
    assert MessageQueue.objects.count() == 4


def test_a_growth_waits_for_every_group_that_reads_the_topic(engine: FakeEngine) -> None:
    services.create_or_change_topic(name="orders", queue_count=1)
    engine.lengths["orders", 0] = 5
    read(engine, 5, group="fast")
    read(engine, 4, group="slow")
    read(engine, 0, group="elsewhere", topic="bills")
    services.create_or_change_topic(name="orders", queue_count=2, drain=True)

    waiting = step()
    read(engine, 5, 0, group="slow")

    assert (waiting, step(), counts(engine)) == (0, 1, (2, None))


def test_a_growth_waits_for_a_member_that_has_read_nothing_yet(engine: FakeEngine) -> None:
    services.create_or_change_topic(name="orders", queue_count=1)
    engine.lengths["orders", 0] = 5
    engine.joined = [member("new", "a", wants("orders"))]
    services.create_or_change_topic(name="orders", queue_count=2, drain=True)

    assert step() == 0
    # One that broadcasts keeps its offsets to itself.
    engine.joined = [member("new", "a", wants("orders"), model=MessageModel.BROADCASTING)]
    assert step() == 1


def test_a_topic_nobody_reads_grows_at_the_next_step(engine: FakeEngine) -> None:
    services.create_or_change_topic(name="orders", queue_count=1)
    engine.lengths["orders", 0] = 5
    services.create_or_change_topic(name="orders", queue_count=2, drain=True)

    assert (step(), counts(engine)) == (1, (2, None))


def test_a_put_repeated_without_the_drain_opens_nothing_and_a_false_one_does(
    api: Api, engine: FakeEngine
) -> None:
    api.put("/topics/orders", {"queue_count": 2})
    engine.lengths["orders", 0] = 1
    read(engine, 0)
    api.put("/topics/orders", {"queue_count": 4, "drain": True})

    api.put("/topics/orders", {"queue_count": 4})
    api.put("/topics/orders", {"perm": 6})
    repeated = counts(engine)
    api.put("/topics/orders", {"queue_count": 4, "drain": False})

    assert (repeated, counts(engine)) == ((4, 2), (4, None))


def test_a_shrinking_topic_takes_no_more_messages_at_once_and_loses_queues_when_they_are_read(
    api: Api, engine: FakeEngine
) -> None:
    api.put("/topics/orders", {"queue_count": 4})
    engine.lengths |= {("orders", 0): 9, ("orders", 3): 5}
    read(engine, 0, 0, 0, 4)

    body = api.put("/topics/orders", {"queue_count": 2}).json()
    at_once = counts(engine)
    waiting = steps_until_closed()
    read(engine, 0, 0, 0, 5)
    closed = step()

    assert (body["queue_count"], body["write_queue_count"], body["target_queue_count"]) == (4, 2, 2)
    # Queues that stay are not waited for, however far behind a group is in them.
    assert body["waiting_for"] == [{"group": "g", "queue": 3, "lag": "1"}]
    assert at_once == (4, 2)
    assert (waiting, closed, counts(engine)) == ([0, 0, 0], 1, (2, None))
    assert list(MessageQueue.objects.values_list("number", flat=True)) == [0, 1]
    assert api.get("/topics/orders").json()["waiting_for"] == []


def test_queues_nobody_has_read_are_kept_and_told(api: Api, engine: FakeEngine) -> None:
    api.put("/topics/orders", {"queue_count": 2})
    engine.lengths["orders", 1] = 5
    api.put("/topics/orders", {"queue_count": 1})

    assert [*steps_until_closed(), step()] == [0, 0, 0, 0]
    assert api.get("/topics/orders").json()["waiting_for"] == [
        {"group": None, "queue": 1, "lag": "5"}
    ]


def test_nothing_is_closed_before_what_was_on_the_way_can_be_seen(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.create_or_change_topic(name="orders", queue_count=2)
    services.create_or_change_topic(name="orders", queue_count=1)
    status = engine.status
    synced = [0]

    def behind() -> EngineStatus:
        return replace(status(), written_offset=500, synced_offset=synced[0])

    monkeypatch.setattr(engine, "status", behind)

    # Seen to obey; then the end of the log is noted; from then on it has to be synced.
    assert [*steps_until_closed(), step()] == [0, 0, 0, 0]
    synced[0] = 499
    assert step() == 0
    synced[0] = 500
    assert step() == 1
    assert counts(engine) == (1, None)


def test_a_log_that_became_shorter_is_looked_at_anew(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.create_or_change_topic(name="orders", queue_count=2)
    services.create_or_change_topic(name="orders", queue_count=1)
    status = engine.status
    with monkeypatch.context() as patch:
        patch.setattr(
            engine, "status", lambda: replace(status(), written_offset=900, synced_offset=0)
        )
        assert steps_until_closed() == [0, 0, 0]

    # The store was replaced by another one, which is empty.
    assert [step(), step()] == [0, 1]


def test_nothing_goes_on_while_the_engine_obeys_an_older_catalog(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.create_or_change_topic(name="orders", queue_count=2)
    old = engine.catalog
    services.create_or_change_topic(name="orders", queue_count=1)
    monkeypatch.setattr(snapshot, "keep", lambda: False)
    engine.catalog = old

    assert [step() for _ in range(5)] == [0] * 5
    assert Topic.objects.get().obeyed_at is None


def test_a_topic_changed_meanwhile_is_left_for_the_next_step(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.create_or_change_topic(name="orders", queue_count=1)
    services.create_or_change_topic(name="orders", queue_count=2, drain=True)
    members, asked = engine.members, []

    def meanwhile(group: str | None = None) -> list[object]:
        if not asked:
            asked.append(1)
            services.create_or_change_topic(name="orders", queue_count=3, drain=True)
        return list(members(group))

    monkeypatch.setattr(engine, "members", meanwhile)

    assert (step(), counts(engine)) == (0, (3, 1))
    assert (step(), counts(engine)) == (1, (3, None))


def test_a_step_without_a_topic_on_its_way_does_not_ask_the_engine(engine: FakeEngine) -> None:
    services.create_or_change_topic(name="orders")
    engine.group_progress = None  # type: ignore[assignment,method-assign]

    assert services.reconcile_catalog() == Step()


def test_a_step_fails_as_busy_while_the_engine_is_away(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.create_or_change_topic(name="orders", queue_count=2)
    services.create_or_change_topic(name="orders", queue_count=1)

    def away() -> EngineStatus:
        raise Stopping("away")

    monkeypatch.setattr(engine, "status", away)

    with pytest.raises(Stopping):
        services.reconcile_catalog()
    assert counts(engine) == (2, 1)


def test_what_is_waited_for_is_unknown_while_the_engine_is_away(
    api: Api, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.put("/topics/orders", {"queue_count": 2})
    api.put("/topics/orders", {"queue_count": 1})

    def away() -> EngineStatus:
        raise Stopping("away")

    monkeypatch.setattr(engine, "status", away)

    assert api.get("/topics/orders").json()["waiting_for"] is None


def test_each_change_is_logged(engine: FakeEngine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    services.create_or_change_topic(name="orders", queue_count=1)
    services.create_or_change_topic(name="orders", queue_count=2, drain=True)

    step()

    (line,) = [line for line in caplog.records if line.getMessage() == "topic_queues_changed"]
    assert (line.topic, line.queue_count, line.write_queue_count) == ("orders", 2, 2)


def test_a_lost_database_takes_up_a_topic_that_was_changing(engine: FakeEngine) -> None:
    spec = TopicSpec(name="orders", queue_count=4, write_queue_count=2)
    engine.publish_catalog(CatalogSnapshot(version=7, topics={"orders": spec}))

    snapshot.keep()

    topic = Topic.objects.get()
    assert (topic.write_queue_count, topic.target_queue_count, topic.queue_count) == (2, 4, 4)
    assert engine.catalog.topics["orders"] == spec


@pytest.mark.parametrize(("write", "target"), [(0, 4), (3, 2), (5, 5), (2, 5)], ids=str)
def test_counts_out_of_order_are_refused_by_the_database(write: int, target: int) -> None:
    with pytest.raises(IntegrityError, match="topic_queue_counts_in_order"):
        Topic.objects.create(
            name="orders", queue_count=4, write_queue_count=write, target_queue_count=target
        )
