"""Groups as the API shows them: live from the engine, unknown kept apart from zero."""

from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine, progress


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
        {"topic": "a", "queue": 3, "committed": "0", "delivered": "0", "max_offset": str(2**60)},
        {"topic": "b", "queue": 0, "committed": "12", "delivered": "15", "max_offset": "20"},
    ]
    assert body["next_cursor"] is None
    assert body["sampled_at"].endswith("Z")


def test_an_unknown_group_has_no_offsets_and_no_lag(api: Api, engine: FakeEngine) -> None:
    for path in ("/groups/nobody/offsets", "/groups/nobody/lag"):
        answer = api.get(path)

        assert answer.status_code == 200
        assert answer.json()["items"] == []


def test_lag_counts_what_is_not_committed_and_leaves_the_unknown_null(
    api: Api, engine: FakeEngine
) -> None:
    engine.progress = [progress("g", "a", 0, committed=12, delivered=15, max_offset=20)]

    (row,) = api.get("/groups/g/lag").json()["items"]

    assert (row["lag"], row["in_flight"]) == ("8", 3)
    assert (row["oldest_age_ms"], row["owner"], row["lock"]) == (None, None, None)


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
