"""One language for programs, whatever they say they accept; pages tell the same in the viewer's."""

from typing import Any

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db

ASKED = [
    ("get", "/api/v1/topics/nope", None),
    ("get", "/api/v1/topics?limit=x", None),
    ("get", "/api/v1/nowhere", None),
    ("get", "/api/v1/alerts/rules/no", None),
    ("get", "/api/v1/audit?door=window", None),
    ("get", "/api/v1/audit?from=yesterday", None),
    ("post", "/api/v1/alerts/rules", {"name": "a", "kind": "lag", "threshold": 0}),
    ("post", "/api/v1/topics", {"name": "%RETRY%a"}),
    ("post", "/api/v1/accounts", {"name": "a b", "role": "king"}),
]


def answered(asked: tuple[str, str, Any], language: str) -> tuple[int, str]:
    """Return status and body of an answer, without what differs from one request to the next."""
    method, path, body = asked
    more = {"data": body, "content_type": "application/json"} if body is not None else {}
    client = Client(headers={"accept-language": language, "x-request-id": "same"})
    answer = getattr(client, method)(path, **more)
    document = answer.json()
    document.pop("request_id", None)
    return answer.status_code, str(document)


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked[1])
def test_a_problem_is_the_same_whatever_language_is_accepted(asked: tuple[str, str, Any]) -> None:
    english, chinese = answered(asked, "en"), answered(asked, "zh-CN,zh;q=0.9")

    assert 400 <= chinese[0] < 500
    assert chinese == english
    assert chinese[1].isascii()


def test_a_page_tells_in_chinese_what_the_api_refuses_in_english() -> None:
    path = "/audit?from=yesterday"

    page = Client(headers={"accept-language": "zh"}).get(path).content.decode()
    program = Client(headers={"accept-language": "zh"}).get(f"/api/v1{path}").json()

    said = "must be RFC 3339 with an offset, or milliseconds since 1970"
    assert said in str(program)
    assert said not in page
    assert "按开始搜索" in page
    assert "必须是" in page
