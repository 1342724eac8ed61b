"""Topics that expire: what counts as use, and what a PUT in the middle saves."""

import threading
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.utils import IntegrityError

from apps.engine.errors import Stopping
from apps.engine.types import QueueRange, TopicType
from apps.topics import services, snapshot
from apps.topics.models import MessageQueue, Topic
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine, client, names, progress

pytestmark = pytest.mark.django_db(transaction=True)

EXPIRES_MS = 10_000


def put(name: str = "lane", expires_ms: int | None = EXPIRES_MS) -> int:
    """Declare a topic, and return when that was."""
    services.create_or_change_topic(name=name, queue_count=2, expires_ms=expires_ms)
    used_at = Topic.objects.get(name=name).used_at
    assert used_at is not None
    return int(used_at.timestamp() * 1000)


def expire(now_ms: int) -> tuple[int, bool]:
    # A millisecond is what is lost between a row's time and whole milliseconds.
    step = services.expire_unused_topics(now_ms=now_ms + 1)
    return step.done, step.more


def known() -> list[str]:
    return list(Topic.objects.values_list("name", flat=True))


def test_a_topic_that_nobody_uses_is_deleted_after_its_time_and_not_before(
    engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    put_ms = put()
    put("kept", expires_ms=None)

    assert expire(put_ms + EXPIRES_MS - 10) == (0, False)
    assert known() == ["kept", "lane"]
    assert expire(put_ms + EXPIRES_MS) == (1, False)

    assert known() == ["kept"]
    assert list(engine.catalog.topics) == ["kept"]
    assert not MessageQueue.objects.filter(topic__name="lane").exists()
    (record,) = [record for record in caplog.records if record.getMessage() == "topic_expired"]
    assert record.__dict__["topic"] == "lane"


def test_a_topic_without_a_time_never_expires(engine: FakeEngine) -> None:
    put_ms = put(expires_ms=None)

    assert expire(put_ms + 10**12) == (0, False)


def test_a_put_counts_as_use_also_when_it_changes_nothing(engine: FakeEngine) -> None:
    first_ms = put()
    Topic.objects.update(used_at=Topic.objects.get().used_at - timedelta(hours=1))

    second_ms = put()

    assert second_ms >= first_ms
    assert expire(first_ms + EXPIRES_MS - 10) == (0, False)
    assert expire(second_ms + EXPIRES_MS) == (1, False)


def test_a_message_that_was_sent_since_counts_as_use_now(engine: FakeEngine) -> None:
    put_ms = put()
    engine.lengths["lane", 1] = 3
    looked_ms = put_ms + EXPIRES_MS

    assert expire(looked_ms) == (0, False)
    assert expire(looked_ms + EXPIRES_MS - 10) == (0, False)
    assert expire(looked_ms + EXPIRES_MS) == (1, False)


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_reader_counts_as_use_until_it_was_seen_last(
    engine: FakeEngine, is_waiting: bool
) -> None:
    put_ms = put()
    seen_ms = put_ms + EXPIRES_MS - 1_000
    engine.seen = [
        client("g", "c", "other", "lane", last_seen_ms=seen_ms, is_waiting=is_waiting),
        client("h", "d", "lane", last_seen_ms=put_ms),
    ]

    assert expire(put_ms + EXPIRES_MS) == (0, False)
    assert expire(seen_ms + EXPIRES_MS - 10) == (0, False)
    assert expire(seen_ms + EXPIRES_MS) == (1, False)


def test_a_message_of_a_lite_topic_counts_as_use_of_its_parent(engine: FakeEngine) -> None:
    services.create_or_change_topic(name="inbox", type=TopicType.LITE, expires_ms=EXPIRES_MS)
    put_ms = put("inbox|b")
    engine.own_records["%LITE%inbox|b|alice"] = [b"of the other"]

    assert expire(put_ms + EXPIRES_MS) == (2, False)

    services.create_or_change_topic(name="inbox", type=TopicType.LITE, expires_ms=EXPIRES_MS)
    engine.own_records["%LITE%inbox|alice"] = [b"hello"]
    used_at = Topic.objects.get(name="inbox").used_at
    assert used_at is not None
    later_ms = int(used_at.timestamp() * 1000) + EXPIRES_MS
    assert expire(later_ms) == (0, False)
    assert expire(later_ms + EXPIRES_MS) == (1, False)


def test_a_message_that_a_consumer_works_on_counts_as_use(engine: FakeEngine) -> None:
    put_ms = put()
    engine.progress = [progress("g", "lane", 0, committed=0, delivered=1)]

    assert expire(put_ms + EXPIRES_MS) == (0, False)
    engine.progress = [progress("g", "lane", 0, committed=1, delivered=1)]

    assert expire(put_ms + 2 * EXPIRES_MS) == (1, False)


def test_a_topic_that_the_engine_does_not_know_expires_as_well(engine: FakeEngine) -> None:
    put_ms = put()
    engine.catalog = type(engine.catalog)()

    assert expire(put_ms + EXPIRES_MS) == (1, False)


def test_nothing_expires_while_the_engine_cannot_be_asked(engine: FakeEngine) -> None:
    put_ms = put()

    def refuse(_: object = None) -> dict[str, list[QueueRange]]:
        raise Stopping("away")

    engine.topic_ranges = refuse  # type: ignore[method-assign]

    with pytest.raises(Stopping):
        expire(put_ms + 10 * EXPIRES_MS)

    assert known() == ["lane"]


def test_the_engine_is_not_asked_while_nothing_is_due(engine: FakeEngine) -> None:
    put_ms = put()
    asked: list[object] = []
    engine.topic_ranges = asked.append  # type: ignore[method-assign,assignment]

    assert expire(put_ms) == (0, False)

    assert asked == []


def between(engine: FakeEngine, happens: Callable[[], object]) -> None:
    """Let something happen after the engine was asked and before the topic is deleted."""
    ask = engine.topic_ranges
    happened: list[int] = []

    def asked(topics: Collection[str] | None = None) -> dict[str, list[QueueRange]]:
        found = ask(topics)
        if not happened:
            happened.append(1)
            happens()
        return found

    engine.topic_ranges = asked  # type: ignore[method-assign]


def test_a_put_that_comes_between_saves_the_topic(engine: FakeEngine) -> None:
    put_ms = put()
    Topic.objects.update(used_at=Topic.objects.get().used_at - timedelta(hours=1))
    between(engine, put)

    assert expire(put_ms) == (0, False)

    assert known() == ["lane"]
    assert "lane" in engine.catalog.topics


def test_a_deletion_that_comes_between_is_left_alone(engine: FakeEngine) -> None:
    put_ms = put()
    between(engine, lambda: services.delete_topic(name="lane"))

    assert expire(put_ms + EXPIRES_MS) == (0, False)


def test_a_second_worker_that_comes_between_deletes_once(engine: FakeEngine) -> None:
    put_ms = put()
    steps: list[tuple[int, bool]] = []
    between(engine, lambda: steps.append(expire(put_ms + EXPIRES_MS)))

    steps.append(expire(put_ms + EXPIRES_MS))

    assert steps == [(1, False), (0, False)]
    assert names(engine.published)[-2:] == [["lane"], []]


def test_puts_and_expiry_at_once_end_with_topics_that_the_engine_knows(engine: FakeEngine) -> None:
    lanes = [f"lane{number}" for number in range(6)]
    for lane in lanes:
        put(lane)
    later_ms = put("other") + EXPIRES_MS
    errors: list[BaseException] = []
    together = threading.Barrier(4)

    def work(step: Callable[[], Any]) -> None:
        try:
            together.wait()
            for _ in range(10):
                step()
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    def put_all() -> None:
        # Not by `put`, which looks for the row: another step may have deleted it by then.
        for lane in reversed(lanes):
            services.create_or_change_topic(name=lane, queue_count=2, expires_ms=EXPIRES_MS)

    steps = [put_all, put_all, lambda: expire(later_ms), lambda: expire(later_ms + 60_000)]
    threads = [threading.Thread(target=work, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    snapshot.keep()
    assert sorted(engine.catalog.topics) == known()


def test_a_step_looks_at_so_many_topics_and_says_that_more_are_left(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "_EXPIRED_MAX", 2)
    for name in ("a", "b"):
        put_ms = put(name)
    engine.lengths["a", 0] = 1
    put_ms = put("c")

    first = expire(put_ms + EXPIRES_MS)
    second = expire(put_ms + EXPIRES_MS)

    assert (first, second) == ((1, True), (1, False))
    assert known() == ["a"]


def test_the_time_is_put_answered_kept_and_taken_back(api: Api, engine: FakeEngine) -> None:
    made = api.put("/topics/lane", {"expires_ms": 60_000})
    kept = api.put("/topics/lane", {"perm": 4})
    listed = api.get("/topics").json()["items"]
    taken_back = api.put("/topics/lane", {"expires_ms": None})

    assert (made.status_code, made.json()["expires_ms"]) == (201, 60_000)
    assert kept.json()["expires_ms"] == 60_000
    assert [item["expires_ms"] for item in listed] == [60_000]
    assert (taken_back.status_code, taken_back.json()["expires_ms"]) == (200, None)
    assert api.put("/topics/other", {}).json()["expires_ms"] is None


@pytest.mark.parametrize("value", [999, 31_536_000_001, 0, -1, 1e4, "10000", True])
def test_a_time_out_of_range_is_refused(api: Api, engine: FakeEngine, value: object) -> None:
    answer = api.put("/topics/lane", {"expires_ms": value})

    assert answer.status_code == 422
    assert [entry["pointer"] for entry in answer.json()["errors"]] == ["/expires_ms"]
    assert known() == []


@pytest.mark.parametrize("values", [{"expires_ms": 999}, {"expires_ms": 5_000, "used_at": None}])
def test_rows_cannot_hold_what_services_refuse(values: dict[str, object]) -> None:
    services.create_or_change_topic(name="lane")

    with pytest.raises(IntegrityError):
        Topic.objects.update(**values)


def test_a_time_is_refused_by_the_service_too() -> None:
    with pytest.raises(services.InvalidArgument, match="expires_ms"):
        services.create_or_change_topic(name="lane", expires_ms=999)
