"""What every answer of Django has: ids, policies, problem documents instead of pages."""

import logging

import pytest
from django.db import OperationalError
from django.test import Client

from apps.core import requestids
from apps.topics import selectors
from tests.web.conftest import Api
from tests.web.fake_engine import FakeEngine


def test_an_unknown_address_of_the_api_is_a_problem(api: Api) -> None:
    answer = api.get("/nothing/here")

    assert answer.status_code == 404
    assert answer["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "not_found"


def test_an_unknown_page_is_a_page() -> None:
    answer = Client().get("/nothing/here")

    assert answer.status_code == 404
    assert answer["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("/topics/orders", "/topics/orders/"),
        ("/topics/", "/topics"),
        ("/groups/%C3%A9?tab=members", "/groups/%C3%A9/?tab=members"),
        ("/admin", "/admin/"),
    ],
)
def test_an_address_is_found_whether_its_last_slash_was_typed_or_not(
    typed: str, meant: str
) -> None:
    answer = Client().get(typed)

    assert (answer.status_code, answer["location"]) == (302, meant)


@pytest.mark.parametrize(
    "typed", ["//evil.example", "//evil.example/", "//evil.example/topics", "//"]
)
def test_no_address_leads_away_from_here(typed: str) -> None:
    answer = Client().get("/", PATH_INFO=typed)

    assert answer.status_code == 404


def test_what_is_posted_is_not_led_elsewhere() -> None:
    assert Client().post("/topics/orders").status_code == 404


def test_a_foreign_host_name_is_refused(api: Api) -> None:
    answer = api.client.get("/api/v1/topics", headers={"host": "evil.example"})

    assert answer.status_code == 400
    assert answer.json()["code"] == "bad_host"


def test_a_wrong_method_is_a_problem(api: Api) -> None:
    answer = api.client.post("/api/v1/topics")

    assert answer.status_code == 405
    assert answer.json()["code"] == "method_not_allowed"


def test_media_types_we_do_not_have_are_a_problem(api: Api) -> None:
    answer = api.client.get("/api/v1/groups", headers={"accept": "image/png"})

    assert answer.status_code == 406
    assert answer.json()["code"] == "not_acceptable"


def test_a_failure_of_ours_is_a_500_that_tells_nothing_but_its_id(
    api: Api, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: str) -> None:
        raise LookupError("secret path /x/y")

    monkeypatch.setattr(selectors, "topic_state", fail)

    answer = api.get("/topics/orders")

    assert answer.status_code == 500
    problem = answer.json()
    assert problem["code"] == "internal_error"
    assert "secret" not in answer.content.decode()
    assert problem["request_id"] == answer["x-request-id"]
    assert any(record.levelno == logging.ERROR for record in caplog.records)


def test_a_database_outage_is_a_503_that_says_when_to_come_back(
    api: Api, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise OperationalError("connection refused to host 10.0.0.1")

    monkeypatch.setattr(selectors, "topic_state", fail)

    answer = api.get("/topics/orders")

    assert answer.status_code == 503
    assert answer["retry-after"] == "2"
    assert answer.json()["code"] == "database_unavailable"
    assert answer.json()["retriable"] is True
    assert "10.0.0.1" not in answer.content.decode()


def test_a_page_during_an_outage_is_a_503_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr("django.contrib.sessions.backends.db.SessionStore.load", fail)
    client = Client(raise_request_exception=False)
    client.cookies["mqweb_session"] = "a-key-that-could-be-one"

    answer = client.get("/admin/")

    assert answer.status_code == 503
    assert answer["retry-after"] == "2"


def test_a_request_keeps_the_id_its_caller_gave_it(api: Api, engine: FakeEngine) -> None:
    answer = api.client.get("/api/v1/groups/g", headers={"x-request-id": "order-7.1"})

    assert answer["x-request-id"] == "order-7.1"
    assert answer.json()["request_id"] == "order-7.1"


@pytest.mark.parametrize("offered", ["", "a b", "x" * 65, "a\x1b[31m", "ü", None])
def test_an_id_that_could_forge_a_log_line_is_replaced(offered: str | None) -> None:
    given = requestids.request_id_from(offered)

    assert given != offered
    assert len(given) == 16


@pytest.mark.django_db
def test_pages_and_answers_have_a_policy_and_may_not_be_framed() -> None:
    client = Client(raise_request_exception=False)

    for path in ("/admin/login/", "/problems/", "/api/v1/groups", "/api/docs/", "/nothing"):
        answer = client.get(path)

        policy = answer["content-security-policy"]
        for rule in ("default-src 'self'", "object-src 'none'", "frame-ancestors 'none'"):
            assert rule in policy, path
        assert "script-src" not in policy
        assert answer["x-frame-options"] == "DENY"
        assert answer["x-content-type-options"] == "nosniff"
        assert answer["referrer-policy"] == "same-origin"


def test_the_admin_has_its_styles_without_a_web_server() -> None:
    client = Client()

    whole = client.get("/static/admin/css/base.css")
    part = client.get("/static/admin/css/base.css", headers={"range": "bytes=0-1"})
    same = client.get(
        "/static/admin/css/base.css", headers={"if-modified-since": whole["last-modified"]}
    )

    assert (whole.status_code, part.status_code, same.status_code) == (200, 206, 304)
    assert whole["content-type"].startswith("text/css")
    assert whole.content.startswith(b"/*")
    assert (part.content, same.content) == (b"/*", b"")
    assert int(whole["content-length"]) == len(whole.content)


def test_an_unknown_problem_code_has_no_page() -> None:
    assert Client().get("/problems/no_such_code").status_code == 404
