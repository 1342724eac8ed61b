"""What operators decide about groups: by the API, by the admin, in rows, and on its way out."""

import threading
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.test import Client

from apps.bridge import engine as bridge
from apps.engine.failuretypes import RetryPolicy
from apps.engine.types import CatalogSnapshot, ConsumeFrom, GroupSpec, Strategy, TopicSpec
from apps.groups import services
from apps.groups.models import ConsumerGroup
from apps.groups.projection.seen import SeenGroups
from apps.topics import groupsource, snapshot
from apps.topics import services as topics
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine
from tests.web.group_values import NOW_MS

pytestmark = pytest.mark.django_db(transaction=True)

EVERYTHING: dict[str, Any] = {
    "enabled": False,
    "ordered": True,
    "strategy": "CONFIG",
    "fixed": {"a": {"orders": [0, 1]}, "b": {"orders": [2]}},
    "rooms": ["east", "west"],
    "inner": "AVG_BY_CIRCLE",
    "consume_from": "timestamp",
    "consume_from_time": "2025-11-13T02:13:20.000Z",
    "retry_max": 3,
    "access_lock_ms": 5_000,
    "retry_policy": "custom",
    "retry_delays_ms": [0, 1_000, 60_000],
}


def test_everything_that_is_decided_reaches_the_engine(api: Api, engine: FakeEngine) -> None:
    answer = api.put("/groups/g", EVERYTHING)

    assert answer.status_code == 201
    body = answer.json()
    assert {name: body[name] for name in EVERYTHING} == EVERYTHING
    assert (body["group"], body["is_decided"]) == ("g", True)
    assert engine.catalog.groups == {
        "g": GroupSpec(
            name="g",
            enabled=False,
            ordered=True,
            strategy=Strategy.CONFIG,
            fixed={"a": {"orders": (0, 1)}, "b": {"orders": (2,)}},
            rooms=("east", "west"),
            inner=Strategy.AVG_BY_CIRCLE,
            consume_from=ConsumeFrom.TIMESTAMP,
            consume_from_ms=NOW_MS,
            retry_max=3,
            access_lock_ms=5_000,
            retry_policy=RetryPolicy.CUSTOM,
            retry_delays_ms=(0, 1_000, 60_000),
        )
    }
    assert {name: api.get("/groups/g").json()[name] for name in EVERYTHING} == EVERYTHING


def test_an_empty_put_decides_for_the_defaults(api: Api, engine: FakeEngine) -> None:
    answer = api.put("/groups/g", {})

    assert answer.status_code == 201
    assert engine.catalog.groups == {"g": GroupSpec(name="g")}


def test_what_a_put_leaves_out_keeps_its_value(api: Api, engine: FakeEngine) -> None:
    api.put("/groups/g", EVERYTHING)

    answer = api.put("/groups/g", {"strategy": None, "retry_max": None, "enabled": True})

    assert answer.status_code == 200
    changed = {**EVERYTHING, "strategy": None, "retry_max": None, "enabled": True}
    assert {name: answer.json()[name] for name in EVERYTHING} == changed


def test_another_retry_policy_drops_the_list_of_delays(api: Api, engine: FakeEngine) -> None:
    api.put("/groups/g", EVERYTHING)

    answer = api.put("/groups/g", {"retry_policy": "exponential"})

    assert answer.status_code == 200
    assert (answer.json()["retry_policy"], answer.json()["retry_delays_ms"]) == ("exponential", [])
    spec = engine.catalog.groups["g"]
    assert (spec.retry_policy, spec.retry_delays_ms) == (RetryPolicy.EXPONENTIAL, ())


@pytest.mark.parametrize(
    "body",
    [
        {"retry_policy": "custom"},
        {"retry_policy": "custom", "retry_delays_ms": []},
        {"retry_policy": "levels", "retry_delays_ms": [1]},
        {"retry_delays_ms": [1]},
    ],
    ids=str,
)
def test_a_list_of_delays_goes_with_the_custom_policy_only(
    api: Api, engine: FakeEngine, body: Any
) -> None:
    answer = api.put("/groups/g", body)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_argument")
    assert engine.published == []


def test_the_same_put_again_publishes_nothing(api: Api, engine: FakeEngine) -> None:
    api.put("/groups/g", EVERYTHING)
    published = len(engine.published)

    answer = api.put("/groups/g", EVERYTHING)

    assert answer.status_code == 200
    assert len(engine.published) == published


def test_topics_and_groups_go_under_one_version(api: Api, engine: FakeEngine) -> None:
    api.put("/topics/orders", {})
    api.put("/groups/g", {"ordered": True})
    api.put("/topics/bills", {})

    versions = [published.version for published in engine.published]
    assert versions == sorted(set(versions))
    assert (sorted(engine.catalog.topics), sorted(engine.catalog.groups)) == (
        ["bills", "orders"],
        ["g"],
    )


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"ordered": 1}, "/ordered"),
        ({"enabled": "yes"}, "/enabled"),
        ({"strategy": "avg"}, "/strategy"),
        ({"strategy": 1}, "/strategy"),
        ({"inner": "MACHINE_ROOM"}, "/inner"),
        ({"inner": None}, "/inner"),
        ({"rooms": "east"}, "/rooms"),
        ({"rooms": [1]}, "/rooms/0"),
        ({"rooms": ["r"] * 101}, "/rooms"),
        ({"fixed": []}, "/fixed"),
        ({"fixed": {"a": [1]}}, "/fixed"),
        ({"fixed": {"a": {"t": ["0"]}}}, "/fixed"),
        ({"fixed": {"a": {"t": [True]}}}, "/fixed"),
        ({"fixed": {"a": {"t": 0}}}, "/fixed"),
        ({"consume_from": "middle"}, "/consume_from"),
        ({"consume_from_time": "yesterday"}, "/consume_from_time"),
        ({"consume_from_time": "2025-11-13T02:13:20"}, "/consume_from_time"),
        ({"consume_from_time": "2025-13-13T02:13:20Z"}, "/consume_from_time"),
        ({"consume_from_time": -1}, "/consume_from_time"),
        ({"consume_from_time": 10**20}, "/consume_from_time"),
        ({"consume_from_time": True}, "/consume_from_time"),
        ({"retry_max": -1}, "/retry_max"),
        ({"retry_max": 1_000_001}, "/retry_max"),
        ({"retry_max": "3"}, "/retry_max"),
        ({"retry_policy": "never"}, "/retry_policy"),
        ({"retry_policy": None}, "/retry_policy"),
        ({"retry_delays_ms": 5}, "/retry_delays_ms"),
        ({"retry_delays_ms": ["5"]}, "/retry_delays_ms/0"),
        ({"retry_delays_ms": [5, -1]}, "/retry_delays_ms/1"),
        ({"retry_delays_ms": [30 * 86_400_000 + 1]}, "/retry_delays_ms/0"),
        ({"retry_delays_ms": [1] * 101}, "/retry_delays_ms"),
        ({"access_lock_ms": 0}, "/access_lock_ms"),
        ({"access_lock_ms": 600_001}, "/access_lock_ms"),
        ({"colour": 1}, "/colour"),
        ([], ""),
    ],
    ids=str,
)
def test_a_bad_value_is_refused_by_its_pointer_and_changes_nothing(
    api: Api, engine: FakeEngine, body: Any, pointer: str
) -> None:
    answer = api.put("/groups/g", body)

    assert answer.status_code == 422, answer.content
    problem = answer.json()
    assert problem["code"] == "invalid_argument"
    assert {entry["pointer"] for entry in problem["errors"]} == {pointer}
    assert not ConsumerGroup.objects.exists()
    assert engine.published == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"strategy": "CONFIG"}, "needs a fixed list"),
        ({"strategy": "MACHINE_ROOM"}, "needs rooms"),
        ({"consume_from": "timestamp"}, "consume_from_time"),
        ({"rooms": ["east", "east"]}, "named once"),
        ({"rooms": [""]}, ""),
        ({"rooms": ["a\nb"]}, "printable"),
        ({"fixed": {"a": {"t": [1]}, "b": {"t": [1]}}}, "t/1 is given to a and to b"),
        ({"fixed": {"a": {"t": [1, 1]}}}, "t/1 is given to a and to a"),
        ({"fixed": {"a": {"t": [1024]}}}, "no queue 1024"),
        ({"fixed": {"a": {"t": [-1]}}}, "no queue -1"),
        ({"fixed": {"": {"t": [1]}}}, "client id"),
        ({"fixed": {"a": {"t t": [1]}}}, "no name of a topic"),
        ({"fixed": {"a": {f"t{n}": list(range(1024)) for n in range(10)}}}, "at most 10000"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_values_that_do_not_go_together_are_refused(
    api: Api, engine: FakeEngine, body: Any, told: str
) -> None:
    answer = api.put("/groups/g", body)

    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid_argument"
    assert told in answer.json()["detail"]
    assert engine.published == []


def test_a_change_that_no_longer_goes_with_what_was_decided_is_refused(
    api: Api, engine: FakeEngine
) -> None:
    api.put("/groups/g", EVERYTHING)

    answer = api.put("/groups/g", {"fixed": {}})

    assert answer.status_code == 422
    assert engine.catalog.groups["g"].fixed != {}


@pytest.mark.parametrize(
    "path", ["/groups/white%20space", "/groups/rmq_sys_x", "/groups/" + "a" * 128, "/groups/%C3%BC"]
)
def test_a_malformed_or_reserved_name_is_refused(api: Api, engine: FakeEngine, path: str) -> None:
    answer = api.put(path, {})

    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid_name"
    assert not ConsumerGroup.objects.exists()


def test_a_time_may_be_given_in_milliseconds(api: Api, engine: FakeEngine) -> None:
    body = {"consume_from": "timestamp", "consume_from_time": NOW_MS + 1}

    answer = api.put("/groups/g", body)

    assert answer.json()["consume_from_time"] == "2025-11-13T02:13:20.001Z"
    assert engine.catalog.groups["g"].consume_from_ms == NOW_MS + 1


def test_a_group_is_decided_about_while_the_engine_is_away(api: Api) -> None:
    answer = api.put("/groups/g", {"ordered": True})

    assert answer.status_code == 201
    assert (answer.json()["ordered"], answer.json()["members"]) == (True, [])
    assert ConsumerGroup.objects.get().ordered


def test_a_group_that_was_only_seen_is_not_told_to_the_engine_and_can_be_decided_about(
    api: Api, engine: FakeEngine
) -> None:
    SeenGroups().project({"seen"})
    api.put("/topics/orders", {})
    before = dict(engine.catalog.groups)

    answer = api.put("/groups/seen", {})

    assert before == {}
    assert answer.status_code == 201
    assert engine.catalog.groups == {"seen": GroupSpec(name="seen")}
    assert ConsumerGroup.objects.count() == 1


def test_a_lost_database_takes_its_groups_from_the_engine(engine: FakeEngine) -> None:
    SeenGroups().project({"g"})
    spec = GroupSpec(
        name="g",
        ordered=True,
        strategy=Strategy.CONFIG,
        fixed={"a": {"orders": (0,)}},
        consume_from=ConsumeFrom.TIMESTAMP,
        consume_from_ms=NOW_MS + 7,
    )
    engine.publish_catalog(CatalogSnapshot(version=7, groups={"g": spec}))

    snapshot.keep()

    row = ConsumerGroup.objects.get()
    assert row.decided_at is not None
    assert engine.catalog.version == 8
    assert engine.catalog.groups == {"g": spec}


def test_groups_the_engine_has_are_not_lost_where_nobody_keeps_them() -> None:
    nobody = groupsource.NoGroups()

    nobody.adopt({})
    assert nobody.specs() == {}
    with pytest.raises(RuntimeError, match="nobody"):
        nobody.adopt({"g": GroupSpec(name="g")})


def test_changes_of_topics_and_groups_at_once_all_reach_the_engine(engine: FakeEngine) -> None:
    errors: list[BaseException] = []
    together = threading.Barrier(8)

    def change(number: int) -> None:
        try:
            together.wait()
            if number % 2:
                topics.create_or_change_topic(name=f"t{number}", queue_count=1)
            else:
                services.put_group(name=f"g{number}", values={"retry_max": number})
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # The fake takes snapshots from any thread, as no engine would; the keeper makes it sure.
    snapshot.keep()

    assert errors == []
    assert sorted(engine.catalog.groups) == ["g0", "g2", "g4", "g6"]
    assert sorted(engine.catalog.topics) == ["t1", "t3", "t5", "t7"]


def test_one_group_changed_by_two_at_once_keeps_both_changes(engine: FakeEngine) -> None:
    errors: list[BaseException] = []
    together = threading.Barrier(2)

    def change(values: services.GroupValues) -> None:
        try:
            together.wait()
            services.put_group(name="g", values=values)
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    changes: list[services.GroupValues] = [{"retry_max": 1}, {"ordered": True}]
    threads = [threading.Thread(target=change, args=(values,)) for values in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    row = ConsumerGroup.objects.get()
    assert errors == []
    assert (row.retry_max, row.ordered) == (1, True)


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"name": "white space"}, "group_name_is_valid"),
        ({"strategy": "ODD"}, "group_strategy_is_known"),
        ({"inner": "MACHINE_ROOM"}, "group_inner_strategy_is_known"),
        ({"consume_from": "middle"}, "group_consume_from_is_known"),
        ({"consume_from": "timestamp"}, "group_timestamp_has_a_moment"),
        ({"retry_max": 1_000_001}, "group_retry_max_in_range"),
        ({"access_lock_ms": 0}, "group_access_lock_ms_in_range"),
        ({"retry_policy": "never"}, "group_retry_policy_is_known"),
        ({"retry_policy": "custom"}, "group_retry_delays_go_with_custom"),
        ({"retry_delays_ms": [1]}, "group_retry_delays_go_with_custom"),
    ],
)
def test_a_bad_group_row_is_refused_by_the_database(
    values: dict[str, Any], constraint: str
) -> None:
    with pytest.raises(IntegrityError, match=constraint):
        ConsumerGroup.objects.create(**{"name": "g", **values})


def form(**values: Any) -> dict[str, Any]:
    return {
        "name": "g",
        "enabled": "on",
        "strategy": "",
        "fixed": "{}",
        "rooms": "[]",
        "inner": "AVG",
        "consume_from": "first",
        "retry_policy": "levels",
        "lite_model": "SHARED",
        "retry_delays_ms": "[]",
        **values,
    }


def test_a_group_added_in_the_admin_reaches_the_engine(admin: Client, engine: FakeEngine) -> None:
    values = form(
        strategy="CONFIG",
        fixed='{"a": {"orders": [0]}}',
        consume_from="timestamp",
        consume_from_at_0="2025-11-13",
        consume_from_at_1="02:13:20",
        retry_max="5",
        retry_policy="custom",
        retry_delays_ms="[1000]",
    )

    answer = admin.post("/admin/groups/consumergroup/add/", values)

    assert answer.status_code == 302, answer.context["errors"]
    spec = engine.catalog.groups["g"]
    assert (spec.strategy, spec.fixed) == (Strategy.CONFIG, {"a": {"orders": (0,)}})
    assert (spec.consume_from_ms, spec.retry_max) == (NOW_MS, 5)
    assert (spec.retry_policy, spec.retry_delays_ms) == (RetryPolicy.CUSTOM, (1_000,))


@pytest.mark.parametrize("delays", ['["x"]', '{"a": 1}', "[-1]", "[]", "nonsense"])
def test_bad_delays_are_refused_in_the_admin(
    admin: Client, engine: FakeEngine, delays: str
) -> None:
    values = form(retry_policy="custom", retry_delays_ms=delays)

    answer = admin.post("/admin/groups/consumergroup/add/", values)

    assert answer.status_code == 200
    assert "errorlist" in answer.content.decode()
    assert not ConsumerGroup.objects.exists()


def test_a_group_that_was_seen_is_edited_in_the_admin(admin: Client, engine: FakeEngine) -> None:
    SeenGroups().project({"g"})
    row = ConsumerGroup.objects.get()

    answer = admin.post(f"/admin/groups/consumergroup/{row.pk}/change/", form(ordered="on"))

    assert answer.status_code == 302
    assert engine.catalog.groups == {"g": GroupSpec(name="g", ordered=True)}
    assert ConsumerGroup.objects.get().pk == row.pk


@pytest.mark.parametrize(
    "values",
    [
        {"name": "a b"},
        {"name": "rmq_sys_x"},
        {"strategy": "CONFIG"},
        {"strategy": "MACHINE_ROOM"},
        {"fixed": '{"a": 1}'},
        {"fixed": "[]1"},
        {"rooms": '{"a": 1}'},
        {"rooms": '["r", "r"]'},
        {"consume_from": "timestamp"},
        {"inner": "CONFIG"},
        {"access_lock_ms": "0"},
    ],
    ids=str,
)
def test_the_form_refuses_what_the_service_refuses(
    admin: Client, engine: FakeEngine, values: dict[str, str]
) -> None:
    answer = admin.post("/admin/groups/consumergroup/add/", form(**values))

    assert answer.status_code == 200
    assert b"errorlist" in answer.content
    assert not ConsumerGroup.objects.exists()
    assert engine.published == []


def test_a_group_cannot_be_deleted_in_the_admin(admin: Client, engine: FakeEngine) -> None:
    services.put_group(name="g", values={})
    row = ConsumerGroup.objects.get()

    answer = admin.post(f"/admin/groups/consumergroup/{row.pk}/delete/", {"post": "yes"})

    assert answer.status_code == 403
    assert ConsumerGroup.objects.count() == 1


def test_a_process_without_the_engine_publishes_groups_through_a_remote_one(
    engine: FakeEngine,
) -> None:
    bridge.remove()
    bridge.install_remote(engine)  # type: ignore[arg-type]

    services.put_group(name="g", values={"ordered": True})

    assert engine.catalog.groups["g"].ordered


def test_a_database_from_a_backup_wins_over_the_groups_of_a_newer_engine(
    engine: FakeEngine,
) -> None:
    services.put_group(name="kept", values={"retry_max": 2})
    spec, topic = GroupSpec(name="kept", retry_max=9), TopicSpec(name="t", queue_count=1)
    engine.publish_catalog(CatalogSnapshot(version=90, topics={"t": topic}, groups={"kept": spec}))

    snapshot.keep()

    assert engine.catalog.groups == {"kept": GroupSpec(name="kept", retry_max=2)}
    assert set(engine.catalog.topics) == {"t"}, "only the engine knew it, with its messages"
