"""The way of the catalog from rows to the engine, and who wins when the two disagree."""

import asyncio
import threading

import pytest
from django.db import connection, transaction

from apps.bridge import engine as bridge
from apps.clockwork.steps import Step
from apps.engine.errors import Unreachable
from apps.engine.types import CatalogSnapshot, GroupSpec, TopicSpec, TopicType
from apps.topics import services, snapshot
from apps.topics.models import CatalogVersion, MessageQueue, Topic
from tests.web.fake_engine import FakeEngine, names

pytestmark = pytest.mark.django_db(transaction=True)


def test_nothing_is_published_before_the_commit(engine: FakeEngine) -> None:
    with transaction.atomic():
        services.create_or_change_topic(name="orders")
        published_inside = list(engine.published)

    assert published_inside == []
    assert names(engine.published) == [["orders"]]


def test_a_change_that_is_rolled_back_is_never_published(engine: FakeEngine) -> None:
    def change_and_fail() -> None:
        with transaction.atomic():
            services.create_or_change_topic(name="orders")
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        change_and_fail()

    assert engine.published == []
    assert snapshot.build() == CatalogSnapshot()


def test_every_change_has_a_higher_version(engine: FakeEngine) -> None:
    services.create_or_change_topic(name="orders")
    services.create_or_change_topic(name="orders", queue_count=9)
    services.delete_topic(name="orders")

    versions = [published.version for published in engine.published]
    assert versions == sorted(set(versions))
    assert len(versions) == 3


def test_changes_made_at_once_all_reach_the_engine(engine: FakeEngine) -> None:
    def create(name: str) -> None:
        try:
            services.create_or_change_topic(name=name, queue_count=1)
        finally:
            connection.close()

    threads = [threading.Thread(target=create, args=(f"t{index}",)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(engine.catalog.topics) == [f"t{index}" for index in range(8)]


def test_a_change_of_another_process_is_picked_up_by_the_keeper(engine: FakeEngine) -> None:
    bridge.remove()
    services.create_or_change_topic(name="orders")
    bridge.install(engine, None)  # type: ignore[arg-type]

    was_published = snapshot.keep()

    assert was_published
    assert names(engine.published) == [["orders"]]


def test_the_keeper_leaves_an_engine_alone_that_knows_everything(engine: FakeEngine) -> None:
    services.create_or_change_topic(name="orders")

    assert not snapshot.keep()
    assert len(engine.published) == 1


def test_a_database_from_a_backup_wins_over_a_newer_engine(engine: FakeEngine) -> None:
    services.create_or_change_topic(name="kept")
    engine.publish_catalog(CatalogSnapshot(version=90, topics={}))

    snapshot.keep()

    assert list(engine.catalog.topics) == ["kept"]
    assert engine.catalog.version == 91
    services.create_or_change_topic(name="later")
    assert sorted(engine.catalog.topics) == ["kept", "later"]


def test_a_database_from_a_backup_takes_over_what_only_the_engine_knows(
    engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    services.create_or_change_topic(name="kept", queue_count=2)
    later = TopicSpec(name="later", queue_count=3)
    groups = {"readers": GroupSpec(name="readers", retry_max=3)}
    topics = {"kept": TopicSpec(name="kept", queue_count=8), "later": later}
    engine.publish_catalog(CatalogSnapshot(version=90, topics=topics, groups=groups))

    snapshot.keep()

    counts = {name: spec.queue_count for name, spec in engine.catalog.topics.items()}
    assert counts == {"kept": 2, "later": 3}
    assert engine.catalog.groups["readers"].retry_max == 3
    assert engine.catalog.version == 91
    (line,) = [line for line in caplog.records if line.message == "catalog_older_than_engine"]
    assert (line.topics, line.groups) == (["later"], ["readers"])
    assert not snapshot.keep()


def test_a_lost_database_takes_its_topics_from_the_engine(engine: FakeEngine) -> None:
    spec = TopicSpec(name="orders", queue_count=3, type=TopicType.FIFO, perm=4)
    engine.publish_catalog(CatalogSnapshot(version=7, topics={"orders": spec}))

    snapshot.keep()

    topic = Topic.objects.get()
    assert (topic.name, topic.type, topic.queue_count, topic.perm) == ("orders", "FIFO", 3, 4)
    assert MessageQueue.objects.count() == 3
    assert engine.catalog.topics == {"orders": spec}
    assert CatalogVersion.objects.get().version == engine.catalog.version == 8


def test_two_keepers_adopt_the_topics_of_a_lost_database_once(engine: FakeEngine) -> None:
    spec = TopicSpec(name="orders", queue_count=3)
    engine.publish_catalog(CatalogSnapshot(version=7, topics={"orders": spec}))
    errors: list[BaseException] = []
    together = threading.Barrier(4)

    def keep() -> None:
        try:
            together.wait()
            snapshot.keep()
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=keep) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert Topic.objects.count() == 1
    assert engine.catalog.version == CatalogVersion.objects.get().version == 8


def test_a_process_without_the_engine_publishes_through_a_remote_one(engine: FakeEngine) -> None:
    bridge.remove()
    bridge.install_remote(engine)  # type: ignore[arg-type]

    services.create_or_change_topic(name="orders")

    assert names(engine.published) == [["orders"]]
    assert services.reconcile_catalog() == Step(done=0)


def test_a_remote_engine_that_is_away_is_told_later(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(_: CatalogSnapshot) -> None:
        raise Unreachable("nobody answers")

    bridge.remove()
    bridge.install_remote(engine)  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setattr(engine, "publish_catalog", away)
        services.create_or_change_topic(name="orders")
    published_then = list(engine.published)

    step = services.reconcile_catalog()

    assert published_then == []
    assert step == Step(done=1)
    assert names(engine.published) == [["orders"]]
    assert [r.getMessage() for r in caplog.records] == ["catalog_not_published"]


def test_a_stopping_engine_does_not_undo_a_committed_change() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    bridge.install(FakeEngine(), loop)  # type: ignore[arg-type]

    try:
        services.create_or_change_topic(name="orders")
    finally:
        bridge.remove()

    assert Topic.objects.filter(name="orders").exists()
