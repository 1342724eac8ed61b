"""PUT, GET and DELETE of topics, on the real database and a fake engine."""

from typing import Any

import pytest

from apps.topics.models import MessageQueue, Topic
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine, names

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_new_topic_takes_the_defaults_and_is_answered_with_201(
    api: Api, engine: FakeEngine
) -> None:
    answer = api.put("/topics/orders", {})

    assert answer.status_code == 201
    body = answer.json()
    assert body["topic"] == "orders"
    assert (body["type"], body["queue_count"], body["perm"]) == ("MIXED", 4, 6)
    assert body["queues"] == [
        {"queue": number, "min_offset": "0", "max_offset": "0"} for number in range(4)
    ]


def test_the_engine_knows_a_topic_when_the_answer_is_given(api: Api, engine: FakeEngine) -> None:
    api.put("/topics/orders", {"queue_count": 2, "type": "FIFO", "perm": 4})

    spec = engine.catalog.topics["orders"]
    assert (spec.queue_count, spec.type.value, spec.perm) == (2, "FIFO", 4)


def test_the_same_put_again_changes_nothing_and_is_answered_with_200(
    api: Api, engine: FakeEngine
) -> None:
    before = api.put("/topics/orders", {"queue_count": 2}).json()

    answer = api.put("/topics/orders", {"queue_count": 2})

    assert answer.status_code == 200
    assert answer.json()["updated_at"] == before["updated_at"]
    assert MessageQueue.objects.count() == 2


def test_what_a_put_leaves_out_keeps_its_value(api: Api, engine: FakeEngine) -> None:
    api.put("/topics/orders", {"queue_count": 7, "type": "FIFO", "perm": 2})

    answer = api.put("/topics/orders", {"perm": 6})

    assert answer.status_code == 200
    assert (answer.json()["queue_count"], answer.json()["type"]) == (7, "FIFO")
    assert set(MessageQueue.objects.values_list("perm", flat=True)) == {6}


def test_the_number_of_queues_grows_and_rows_follow(api: Api, engine: FakeEngine) -> None:
    api.put("/topics/orders", {"queue_count": 2})

    answer = api.put("/topics/orders", {"queue_count": 5})

    assert answer.status_code == 200
    assert list(MessageQueue.objects.values_list("number", flat=True)) == [0, 1, 2, 3, 4]
    assert engine.catalog.topics["orders"].queue_count == 5


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"queue_count": True}, "/queue_count"),
        ({"queue_count": "4"}, "/queue_count"),
        ({"queue_count": 4.0}, "/queue_count"),
        ({"queue_count": 0}, "/queue_count"),
        ({"queue_count": 1025}, "/queue_count"),
        ({"queue_count": None}, "/queue_count"),
        ({"queue_count": 10**400}, "/queue_count"),
        ({"type": "normal"}, "/type"),
        ({"type": ["FIFO"]}, "/type"),
        ({"perm": 1}, "/perm"),
        ({"perm": "6"}, "/perm"),
        ({"drain": 1}, "/drain"),
        ({"drain": None}, "/drain"),
        ({"drain": "true"}, "/drain"),
        ({"quue_count": 4}, "/quue_count"),
        ({"a/b~c": 4}, "/a~1b~0c"),
        ([], ""),
        ("orders", ""),
        (None, ""),
    ],
)
def test_a_bad_value_is_refused_by_its_pointer_and_changes_nothing(
    api: Api, engine: FakeEngine, body: Any, pointer: str
) -> None:
    answer = api.put("/topics/orders", body)

    assert answer.status_code == 422
    problem = answer.json()
    assert problem["code"] == "invalid_argument"
    assert [entry["pointer"] for entry in problem["errors"]] == [pointer]
    assert not Topic.objects.exists()
    assert engine.published == []


def test_every_bad_value_of_a_request_is_told_at_once(api: Api, engine: FakeEngine) -> None:
    answer = api.put("/topics/orders", {"queue_count": "x", "perm": 5, "colour": 1})

    pointers = {entry["pointer"] for entry in answer.json()["errors"]}
    assert pointers == {"/queue_count", "/perm", "/colour"}


@pytest.mark.parametrize(
    "path",
    [
        "/topics/rmq_sys_frame",
        "/topics/%25RETRY%25group",
        "/topics/%25DLQ%25group",
        "/topics/white%20space",
        "/topics/..",
        "/topics/a%0a",
        "/topics/%C3%BC",
        "/topics/" + "a" * 128,
    ],
)
def test_a_reserved_or_malformed_name_is_refused(api: Api, engine: FakeEngine, path: str) -> None:
    answer = api.put(path, {})

    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid_name"
    assert not Topic.objects.exists()


def test_the_longest_name_and_all_its_characters_are_taken(api: Api, engine: FakeEngine) -> None:
    name = ("a%|_-Z9" * 20)[:127]

    answer = api.put("/topics/" + name.replace("%", "%25").replace("|", "%7C"), {})

    assert answer.status_code == 201
    assert answer.json()["topic"] == name


def test_malformed_json_is_a_400(api: Api, engine: FakeEngine) -> None:
    for body in (b"{", b"\xff", b'{"queue_count": NaN}', b"[" * 100_000):
        answer = api.client.put("/api/v1/topics/orders", data=body, content_type="application/json")

        assert answer.status_code == 400, body[:20]
        assert answer.json()["code"] == "bad_json"


def test_another_media_type_is_a_415(api: Api, engine: FakeEngine) -> None:
    answer = api.client.put("/api/v1/topics/orders", data=b"x=1", content_type="text/plain")

    assert answer.status_code == 415
    assert answer.json()["code"] == "unsupported_media_type"


def test_offsets_come_from_the_engine_as_strings(api: Api, engine: FakeEngine) -> None:
    api.put("/topics/orders", {"queue_count": 2})
    engine.lengths["orders", 1] = 2**62

    queues = api.get("/topics/orders").json()["queues"]

    assert queues[1] == {"queue": 1, "min_offset": "0", "max_offset": str(2**62)}


def test_the_topic_of_traces_is_described_without_a_row_and_not_listed(
    api: Api, engine: FakeEngine
) -> None:
    engine.lengths["rmq_sys_trace", 0] = 7

    body = api.get("/topics/rmq_sys_trace").json()

    assert (body["queue_count"], body["perm"]) == (1, 6)
    assert body["queues"] == [{"queue": 0, "min_offset": "0", "max_offset": "7"}]
    assert api.get("/topics").json()["items"] == []
    assert api.put("/topics/rmq_sys_trace", {}).json()["code"] == "invalid_name"


def test_an_unknown_topic_is_a_404_problem(api: Api, engine: FakeEngine) -> None:
    for answer in (api.get("/topics/nothing"), api.delete("/topics/nothing")):
        assert answer.status_code == 404
        assert answer.json()["code"] == "unknown_topic"


def test_a_deleted_topic_leaves_database_and_engine(api: Api, engine: FakeEngine) -> None:
    api.put("/topics/orders", {})
    api.put("/topics/bills", {})

    answer = api.delete("/topics/orders")

    assert answer.status_code == 204
    assert not answer.content
    assert names(engine.published)[-1] == ["bills"]
    assert MessageQueue.objects.count() == 4


def test_a_list_is_paged_by_cursor_until_there_is_none(api: Api, engine: FakeEngine) -> None:
    for name in ("b", "a", "_", "B", "%7C"):
        api.put(f"/topics/{name}", {"queue_count": 1})
    seen: list[str] = []
    cursor: str | None = ""

    while cursor is not None:
        page = api.get("/topics", limit="2", cursor=cursor).json()
        seen += [item["topic"] for item in page["items"]]
        cursor = page["next_cursor"]
        assert page["sampled_at"].endswith("Z")

    assert seen == ["B", "_", "a", "b", "|"]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"}, {"limit": "1001"}, {"limit": "x"}, {"limit": "-1"}, {"limit": "9" * 5000},
        {"cursor": "?"}, {"cursor": "ü"}, {"cursor": "AA"}, {"cursor": "_w"},
    ],
)  # fmt: skip
def test_a_bad_page_request_is_refused(api: Api, engine: FakeEngine, query: dict[str, str]) -> None:
    answer = api.get("/topics", **query)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/" + next(iter(query))


def test_without_an_engine_topics_are_changed_and_their_offsets_are_unknown(api: Api) -> None:
    answer = api.put("/topics/orders", {"queue_count": 1})

    assert answer.status_code == 201
    assert answer.json()["queues"] == [{"queue": 0, "min_offset": None, "max_offset": None}]
