"""Dead letters and jobs by REST: lists, bodies, resend, discard, and what is refused."""

from typing import Any

import pytest

from apps.core.moments import moment
from apps.deadletters import services
from apps.deadletters.models import DeadLetter, ResendJob
from apps.topics.models import Topic
from tests.web.conftest import Api
from tests.web.deadletters.letters import LetterEngine, project, states
from tests.web.group_values import NOW_MS

pytestmark = pytest.mark.django_db(transaction=True)


def post(api: Api, path: str, body: Any) -> Any:
    return api.client.post(f"/api/v1{path}", data=body, content_type="application/json")


def offsets(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [item["offset"] for item in answer.json()["items"]]


def test_letters_are_listed_newest_first_page_by_page(api: Api, engine: LetterEngine) -> None:
    engine.bury("g", 5)
    engine.bury("h")
    project(engine)

    first = api.get("/groups/g/dead-letters", limit="3")
    second = api.get("/groups/g/dead-letters", limit="3", cursor=first.json()["next_cursor"])

    assert (offsets(first), offsets(second)) == (["4", "3", "2"], ["1", "0"])
    assert second.json()["next_cursor"] is None
    item = first.json()["items"][0]
    assert item["attempts"][0] == {
        "number": 1,
        "at": "2025-11-13T02:13:19.000Z",
        "reason": "boom",
        "client_id": "c@1",
    }
    assert (item["origin_topic"], item["origin_queue"], item["origin_offset"]) == (
        "orders",
        3,
        "104",
    )
    assert (item["state"], item["attempt_count"], item["reason"]) == ("waiting", 17, "boom")
    assert (item["message_id"], item["keys"], item["tag"]) == ("ID4", ["k1", "k2"], "red")
    assert "body" not in item


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["3", "2", "1", "0"]),
        ({"state": "waiting"}, ["3", "2", "1"]),
        ({"state": "discarded"}, ["0"]),
        ({"origin_topic": "other"}, ["2"]),
        ({"message_id": "ID1"}, ["1"]),
        ({"message_id": "id1"}, []),
        ({"key": "k1"}, ["2", "1", "0"]),
        ({"key": "k2"}, ["2", "1", "0"]),
        ({"key": "k"}, []),
        ({"key": "k1 k2"}, ["2", "1", "0"]),
        ({"key": "alone"}, ["3"]),
        ({"reason": "TIME"}, ["3"]),
        ({"reason": "%"}, []),
        ({"from": str(NOW_MS + 1)}, ["3"]),
        ({"to": str(NOW_MS + 1)}, ["2", "1", "0"]),
        ({"from": "2025-11-13T02:13:20Z", "to": "2025-11-13T02:13:20.001Z"}, ["2", "1", "0"]),
    ],
    ids=str,
)
def test_a_filter_finds_exactly_what_it_says(
    api: Api, engine: LetterEngine, query: dict[str, str], found: list[str]
) -> None:
    engine.bury("g", 2)
    engine.bury("g", origin="other")
    engine.bury("g", keys="alone", reason="Timed out: time is over", died_ms=NOW_MS + 5)
    project(engine)
    services.discard(letters=DeadLetter.objects.filter(queue_offset=0), reason="x", by="a")

    assert offsets(api.get("/groups/g/dead-letters", **query)) == found


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"state": "odd"}, "/state"),
        ({"from": "yesterday"}, "/from"),
        ({"to": "2025-11-13T02:13:20"}, "/to"),
        ({"key": ""}, "/key"),
        ({"reason": "a\0b"}, "/reason"),
        ({"message_id": "x" * 1_001}, "/message_id"),
        ({"limit": "0"}, "/limit"),
        ({"cursor": "bm9uc2Vuc2U"}, "/cursor"),
    ],
    ids=str,
)
def test_a_bad_query_is_refused_by_its_pointer(
    api: Api, engine: LetterEngine, query: dict[str, str], pointer: str
) -> None:
    answer = api.get("/groups/g/dead-letters", **query)

    assert answer.status_code == 422
    assert [entry["pointer"] for entry in answer.json()["errors"]] == [pointer]


def test_one_letter_comes_with_its_body_from_the_log(api: Api, engine: LetterEngine) -> None:
    engine.bury("g", body=b"\xe4\xbd\xa0")
    engine.bury("g", body=b"\xff\x00")
    project(engine)
    text, binary = DeadLetter.objects.order_by("queue_offset")

    first = api.get(f"/groups/g/dead-letters/{text.pk}").json()
    second = api.get(f"/groups/g/dead-letters/{binary.pk}").json()

    assert (first["body"], first["body_base64"]) == ("\u4f60", None)
    assert (second["body"], second["body_base64"]) == (None, "/wA=")
    assert first["properties"]["UNIQ_KEY"] == "ID0"
    assert first["born_time"] == "2025-11-13T02:12:20.000Z"


def test_a_letter_the_log_has_lost_comes_without_a_body(api: Api, engine: LetterEngine) -> None:
    engine.bury("g", 2)
    project(engine)
    engine.begins["%DLQ%g"] = 1
    lost = DeadLetter.objects.get(queue_offset=0)

    body = api.get(f"/groups/g/dead-letters/{lost.pk}").json()

    assert (body["message_id"], body["body"], body["properties"]) == ("ID0", None, None)


@pytest.mark.parametrize("number", ["0", "x", "9" * 19, "9" * 40, "-1", "\u0661"])
def test_a_letter_that_is_not_there_is_not_found(
    api: Api, engine: LetterEngine, number: str
) -> None:
    answer = api.get(f"/groups/g/dead-letters/{number}")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_letter_is_not_found_in_another_group(api: Api, engine: LetterEngine) -> None:
    engine.bury("g")
    project(engine)

    answer = api.get(f"/groups/h/dead-letters/{DeadLetter.objects.get().pk}")

    assert answer.status_code == 404


def test_a_resend_is_accepted_and_its_job_tells_how_far_it_is(
    api: Api, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 3)
    project(engine)

    answer = post(api, "/groups/g/dead-letters:resend", {"all": True, "rate_per_s": 2})
    assert answer.status_code == 202
    address = answer.headers["Location"]
    queued = api.client.get(address).json()
    services.send_some(now_ms=NOW_MS)
    running = api.client.get(address).json()
    services.send_some(now_ms=NOW_MS + 1_000)
    done = api.client.get(address).json()

    assert address == f"/api/v1/jobs/{answer.json()['id']}"
    assert (queued["state"], queued["total"], queued["criteria"]) == ("queued", 3, {"all": True})
    assert queued["created_by"] == "anonymous at 127.0.0.1"
    assert (running["state"], running["sent"]) == ("running", 2)
    assert (done["state"], done["sent"], done["errors"]) == ("done", 3, [])
    assert [job["id"] for job in api.get("/jobs").json()["items"]] == [done["id"]]
    assert api.get("/jobs", group="h").json()["items"] == []


def test_ids_and_filters_name_letters(api: Api, engine: LetterEngine, orders: Topic) -> None:
    engine.bury("g", 2)
    engine.bury("g", 2, reason="late", died_ms=NOW_MS + 7)
    project(engine)
    item = api.get("/groups/g/dead-letters").json()["items"][-1]

    by_id = post(api, "/groups/g/dead-letters:resend", {"ids": [item["id"]]})
    by_filter = post(
        api,
        "/groups/g/dead-letters:resend",
        {"filter": {"reason": "LATE", "from": NOW_MS + 7, "to": "2030-01-01T00:00:00Z"}},
    )

    assert (by_id.json()["total"], by_id.json()["criteria"]) == (1, {"ids": [item["id"]]})
    assert by_filter.json()["total"] == 2
    assert by_filter.json()["criteria"] == {
        "filter": {
            "reason": "LATE",
            "from": "2025-11-13T02:13:20.007Z",
            "to": "2030-01-01T00:00:00.000Z",
        }
    }
    assert states() == ["resending", "waiting", "resending", "resending"]


def test_errors_of_single_letters_are_in_the_job(
    api: Api, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g")
    project(engine)
    engine.refused.add("orders")
    answer = post(api, "/groups/g/dead-letters:resend", {"all": True})

    services.send_some(now_ms=NOW_MS)

    (trouble,) = api.client.get(answer.headers["Location"]).json()["errors"]
    assert (trouble["offset"], trouble["outcome"], trouble["detail"]) == (
        "0",
        "failed",
        "no topic orders",
    )
    assert api.get("/groups/g/dead-letters").json()["items"][0]["trouble"] == "no topic orders"


def test_a_second_resend_of_the_same_letters_is_a_conflict(
    api: Api, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g")
    project(engine)
    ids = [str(DeadLetter.objects.get().pk)]
    post(api, "/groups/g/dead-letters:resend", {"ids": ids})

    answer = post(api, "/groups/g/dead-letters:resend", {"ids": ids})

    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "invalid_argument"),
        ({"all": False}, 422, "invalid_argument"),
        ({"all": True, "ids": ["1"]}, 422, "invalid_argument"),
        ({"ids": []}, 422, "invalid_argument"),
        ({"ids": [1]}, 422, "invalid_argument"),
        ({"ids": ["1"] * 1_001}, 422, "invalid_argument"),
        ({"filter": {"colour": "red"}}, 422, "invalid_argument"),
        ({"filter": {"reason": "a\0"}}, 422, "invalid_argument"),
        ({"filter": {"key": "\ud800"}}, 422, "invalid_argument"),
        ({"filter": {"from": "soon"}}, 422, "invalid_argument"),
        ({"filter": []}, 422, "invalid_argument"),
        ({"all": True, "rate_per_s": 0}, 422, "invalid_argument"),
        ({"all": True, "rate_per_s": "5"}, 422, "invalid_argument"),
        ({"all": True, "dry_run": "yes"}, 422, "invalid_argument"),
        ({"all": True, "topic": "nowhere"}, 404, "unknown_topic"),
        ({"all": True, "topic": "%DLQ%g"}, 404, "unknown_topic"),
        ([], 422, "invalid_argument"),
    ],
    ids=ascii,
)
def test_a_bad_resend_is_refused_and_claims_nothing(
    api: Api, engine: LetterEngine, body: Any, status: int, code: str
) -> None:
    engine.bury("g")
    project(engine)

    answer = post(api, "/groups/g/dead-letters:resend", body)

    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content
    assert states() == ["waiting"]
    assert not ResendJob.objects.exists()


def test_a_dry_run_is_done_when_it_is_answered(
    api: Api, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 2)
    project(engine)

    answer = post(api, "/groups/g/dead-letters:resend", {"all": True, "dry_run": True})

    body = answer.json()
    assert (answer.status_code, body["state"], body["dry_run"]) == (202, "done", True)
    assert body["plan"] == [{"topic": "orders", "count": 2, "trouble": ""}]
    assert states() == ["waiting", "waiting"]


def test_a_job_is_cancelled_once_and_not_after_its_end(
    api: Api, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 2)
    project(engine)
    job = post(api, "/groups/g/dead-letters:resend", {"all": True}).json()["id"]

    first = post(api, f"/jobs/{job}:cancel", {})
    again = post(api, f"/jobs/{job}:cancel", {})
    done = post(api, "/groups/g/dead-letters:resend", {"all": True}).json()["id"]
    services.send_some(now_ms=NOW_MS)
    late = post(api, f"/jobs/{done}:cancel", {})
    unknown = post(api, "/jobs/x:cancel", {})

    assert (first.json()["state"], first.json()["returned"]) == ("cancelled", 2)
    assert again.json() == first.json()
    assert (late.status_code, late.json()["code"]) == (409, "conflict")
    assert unknown.status_code == 404
    assert api.get("/jobs/99999").status_code == 404


def test_a_discard_needs_a_reason_and_counts_what_waited(
    api: Api, engine: LetterEngine, orders: Topic
) -> None:
    engine.bury("g", 3)
    project(engine)

    without = post(api, "/groups/g/dead-letters:discard", {"all": True})
    blank = post(api, "/groups/g/dead-letters:discard", {"all": True, "reason": " "})
    done = post(
        api,
        "/groups/g/dead-letters:discard",
        {"filter": {"message_id": "ID1"}, "reason": "known"},
    )

    assert (without.status_code, blank.status_code) == (422, 422)
    assert (done.status_code, done.json()) == (200, {"discarded": 1})
    item = api.get("/groups/g/dead-letters", state="discarded").json()["items"][0]
    assert (item["offset"], item["discard_reason"]) == ("1", "known")
    assert item["discarded_by"] == "anonymous at 127.0.0.1"
    assert item["discarded_at"] > moment(NOW_MS).isoformat()


def test_lists_do_without_the_engine_and_bodies_say_that_it_is_away(
    api: Api, engine: LetterEngine
) -> None:
    engine.bury("g")
    project(engine)
    from apps.bridge import engine as bridge

    bridge.remove()

    assert api.get("/groups/g/dead-letters").status_code == 200
    answer = api.get(f"/groups/g/dead-letters/{DeadLetter.objects.get().pk}")
    assert (answer.status_code, answer.json()["retriable"]) == (503, True)
