"""Groups as the API shows them: live from the engine, unknown kept apart from zero."""

from apps.engine.grouptypes import BlockedHead
from apps.engine.types import CatalogSnapshot, FilterType, GroupSpec, MessageModel
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine, client, progress
from tests.web.group_values import member, rebalance, wants


def test_offsets_are_strings_by_topic_and_queue(api: Api, engine: FakeEngine) -> None:
    engine.progress = [
        progress("g", "b", 0, committed=12, delivered=15, max_offset=20),
        progress("g", "a", 3, committed=0, delivered=0, max_offset=2**60),
        progress("other", "a", 0, committed=1, delivered=1),
    ]

    answer = api.get("/groups/g/offsets")

    assert answer.status_code == 200
    body = answer.json()
    assert body["items"] == [
        {
            "topic": "a",
            "queue": 3,
            "is_retry": False,
            "committed": "0",
            "delivered": "0",
            "max_offset": str(2**60),
        },
        {
            "topic": "b",
            "queue": 0,
            "is_retry": False,
            "committed": "12",
            "delivered": "15",
            "max_offset": "20",
        },
    ]
    assert body["next_cursor"] is None
    assert body["sampled_at"].endswith("Z")


def test_an_unknown_group_has_no_offsets_and_no_lag(api: Api, engine: FakeEngine) -> None:
    for path in ("/groups/nobody/offsets", "/groups/nobody/lag"):
        answer = api.get(path)

        assert answer.status_code == 200
        assert answer.json()["items"] == []


def test_a_group_sums_its_queues(api: Api, engine: FakeEngine) -> None:
    engine.progress = [
        progress("g", "a", 0, committed=1, delivered=2, max_offset=5),
        progress("g", "b", 0, committed=0, delivered=0, max_offset=7),
    ]

    body = api.get("/groups/g").json()

    assert (body["group"], body["topics"], body["queue_count"]) == ("g", ["a", "b"], 2)
    assert (body["lag"], body["in_flight"]) == ("11", 1)
    assert (body["members"], body["assignment"]) == ([], None)


def test_an_unknown_group_is_a_404_problem(api: Api, engine: FakeEngine) -> None:
    answer = api.get("/groups/nobody")

    assert answer.status_code == 404
    assert answer.json()["code"] == "unknown_group"


def test_groups_are_paged_by_name(api: Api, engine: FakeEngine) -> None:
    engine.progress = [
        progress(name, "a", queue, committed=0, delivered=0)
        for name in ("c", "a", "b")
        for queue in range(2)
    ]

    first = api.get("/groups", limit="2").json()
    second = api.get("/groups", limit="2", cursor=first["next_cursor"]).json()

    assert [item["group"] for item in first["items"]] == ["a", "b"]
    assert [item["group"] for item in second["items"]] == ["c"]
    assert second["next_cursor"] is None


def test_without_an_engine_groups_are_a_503_that_says_when_to_come_back(api: Api) -> None:
    answer = api.get("/groups/g/offsets")

    assert answer.status_code == 503
    assert answer.json()["code"] == "stopping"
    assert answer.json()["retriable"] is True
    assert answer["retry-after"] == "1"


def test_a_group_tells_who_got_what_and_who_has_nothing_to_do(api: Api, engine: FakeEngine) -> None:
    assignment = {"a": {"orders": (0, 1)}, "b": {}}
    engine.assigned = [rebalance("g", assignment, generation=2**33 + 5), rebalance("other", {})]
    engine.joined = [
        member("g", "b", wants("orders"), generation=2**33 + 5),
        member("g", "a", wants("orders"), generation=2**33 + 4, assignment={"orders": (0, 1)}),
        member("g", "all", wants("orders"), model=MessageModel.BROADCASTING),
    ]
    engine.seen = [client("g", "receives-only", "bills")]

    body = api.get("/groups/g").json()

    assert body["generation"] == 2**33 + 5
    assert body["assignment"] == {"a": {"orders": [0, 1]}, "b": {}}
    assert body["idle_members"] == ["b"]
    assert body["topics"] == ["bills", "orders"]
    assert [
        (found["client_id"], found["model"], found["generation"], found["assignment"])
        for found in body["members"]
    ] == [
        ("a", "CLUSTERING", 2**33 + 4, {"orders": [0, 1]}),
        ("all", "BROADCASTING", 1, {}),
        ("b", "CLUSTERING", 2**33 + 5, {}),
        ("receives-only", None, None, None),
    ]


def test_members_that_want_different_things_are_shown_side_by_side(
    api: Api, engine: FakeEngine
) -> None:
    sql = wants("orders", "price > 5", FilterType.SQL92)
    engine.joined = [
        member("g", "b", sql, conflicts=("orders",)),
        member("g", "a", wants("orders", "paid"), wants("bills"), conflicts=("orders",)),
    ]

    body = api.get("/groups/g").json()

    assert body["conflicts"] == [
        {
            "topic": "orders",
            "wanted": [
                {"client_id": "a", "filter": "paid", "filter_type": "TAG"},
                {"client_id": "b", "filter": "price > 5", "filter_type": "SQL92"},
            ],
        }
    ]
    assert [
        (wanted["topic"], wanted["is_conflicting"])
        for wanted in body["members"][0]["subscriptions"]
    ] == [("orders", True), ("bills", False)]


def test_a_member_tells_what_it_cannot_get_on_with(api: Api, engine: FakeEngine) -> None:
    head = BlockedHead(topic="orders", queue=1, queue_offset=2**60, attempts=9, reason="no stock")
    engine.joined = [member("g", "a", wants("orders"), blocked=(head,))]

    (found,) = api.get("/groups/g").json()["members"]

    assert found["blocked"] == [
        {"topic": "orders", "queue": 1, "offset": str(2**60), "attempts": 9, "reason": "no stock"}
    ]


def test_a_group_that_was_decided_about_is_known_before_its_first_member(
    api: Api, engine: FakeEngine
) -> None:
    spec = GroupSpec(name="later", ordered=True, retry_max=3)
    engine.publish_catalog(CatalogSnapshot(version=1, groups={"later": spec}))
    engine.progress = [progress("now", "a", 0, committed=0, delivered=0)]

    items = api.get("/groups").json()["items"]

    assert [(item["group"], item["is_decided"], item["ordered"]) for item in items] == [
        ("later", True, True),
        ("now", False, False),
    ]
    assert api.get("/groups/later").json()["retry_max"] == 3
    assert api.get("/groups/later").json()["assignment"] is None
