"""In which language and time zone a page is, and that programs are answered in one of each."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.utils import timezone, translation

from apps.core import zones
from apps.core.languages import LANGUAGE_COOKIE, Language, language_of
from apps.core.middleware import ViewerMiddleware
from apps.core.zones import ZONE_COOKIE

AGENTS = [
    ("", Language.ENGLISH),
    ("*", Language.ENGLISH),
    ("fr,de;q=0.9", Language.ENGLISH),
    ("en-GB,en;q=0.9,zh;q=0.8", Language.ENGLISH),
    ("zh-CN,zh;q=0.9,en;q=0.8", Language.CHINESE),
    ("zh", Language.CHINESE),
    ("zh-Hant-TW", Language.CHINESE),
    ("fr,zh;q=0.5", Language.CHINESE),
    ("en;q=0.2,zh;q=0.7", Language.CHINESE),
    ("zhx", Language.ENGLISH),
    ("\x00;q=zh,,;;", Language.ENGLISH),
    ("zh," * 5000, Language.CHINESE),
]
CHOICES = [
    ("en", Language.ENGLISH),
    ("zh-hans", Language.CHINESE),
    ("zh-hant", Language.CHINESE),
    ("../../etc", Language.CHINESE),
    ("", Language.CHINESE),
]


def request_of(accepted: str = "", **cookies: str) -> HttpRequest:
    request = RequestFactory().get("/", headers={"Accept-Language": accepted})
    request.COOKIES.update(cookies)
    return request


def handshake_of(accepted: str = "", **cookies: str) -> dict[str, Any]:
    """Return the scope of a socket of the same browser."""
    cookie = "; ".join(f"{name}={value}" for name, value in {"other": "x", **cookies}.items())
    headers = [(b"cookie", cookie.encode()), (b"accept-language", accepted.encode())]
    return {"type": "websocket", "headers": headers}


@pytest.mark.parametrize(("accepted", "language"), AGENTS)
def test_a_browser_is_answered_in_the_language_it_prefers(
    accepted: str, language: Language
) -> None:
    assert language_of(request_of(accepted)) is language
    assert language_of(handshake_of(accepted)) is language


@pytest.mark.parametrize(("chosen", "language"), CHOICES)
def test_what_was_chosen_goes_before_it(chosen: str, language: Language) -> None:
    cookies = {LANGUAGE_COOKIE: chosen}

    assert language_of(request_of("zh", **cookies)) is language
    assert language_of(handshake_of("zh", **cookies)) is language


def test_a_handshake_without_headers_is_english() -> None:
    assert language_of({"type": "websocket", "headers": []}) is Language.ENGLISH


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("UTC", "UTC"),
        ("", "UTC"),
        ("No/Where", "UTC"),
        ("../../../etc/passwd", "UTC"),
        ("\x00", "UTC"),
        ("Asia/Shanghai", "UTC+8"),
        ("Asia/Kolkata", "UTC+5:30"),
        ("Asia/Calcutta", "UTC+5:30"),
        ("America/St_Johns", "UTC-3:30"),
        ("America/New_York", "UTC-5"),
        ("Europe/London", "UTC"),
    ],
)
def test_a_zone_says_how_far_it_is_from_utc(name: str, offset: str) -> None:
    winter = datetime(2026, 1, 1, tzinfo=UTC)

    assert zones.offset_text(winter.astimezone(zones.zone_named(name))) == offset


def test_the_zones_to_choose_from_are_places() -> None:
    regions = zones.names_by_region()

    assert "Asia/Shanghai" in regions["Asia"]
    assert "Europe/Berlin" in regions["Europe"]
    assert "Etc" not in regions
    assert len([name for names in regions.values() for name in names]) > 300


def seen_by(path: str, **cookies: str) -> tuple[str | None, str, HttpResponse]:
    """Return language and zone that held while a view ran, and the answer."""
    held: list[Any] = []

    def view(request: HttpRequest) -> HttpResponse:
        held.append((translation.get_language(), zones.name_of(timezone.get_current_timezone())))
        return HttpResponse("")

    request = RequestFactory().get(path)
    request.COOKIES.update(cookies)
    answer = ViewerMiddleware(view)(request)
    (language, zone), *_ = held
    assert isinstance(answer, HttpResponse)
    return language, zone, answer


CHINESE_IN_SHANGHAI = {LANGUAGE_COOKIE: "zh-hans", ZONE_COOKIE: "Asia/Shanghai"}


def test_a_page_is_made_in_the_language_and_zone_of_its_viewer() -> None:
    language, zone, answer = seen_by("/groups", **CHINESE_IN_SHANGHAI)

    assert (language, zone) == ("zh-hans", "Asia/Shanghai")
    assert answer.headers["Content-Language"] == "zh-Hans"


def test_the_next_request_of_the_same_thread_has_its_own() -> None:
    seen_by("/groups", **CHINESE_IN_SHANGHAI)

    language, zone, answer = seen_by("/groups")

    assert (language, zone) == ("en", "UTC")
    assert answer.headers["Content-Language"] == "en"


def test_no_cache_keeps_one_language_for_everybody() -> None:
    _, _, answer = seen_by("/groups")

    assert {"Accept-Language", "Cookie"} <= set(answer.headers["Vary"].split(", "))


def test_the_api_is_english_and_in_utc_for_everybody() -> None:
    language, zone, answer = seen_by("/api/v1/groups", **CHINESE_IN_SHANGHAI)

    assert (language, zone) == ("en", "UTC")
    assert "Content-Language" not in answer.headers
    assert "Vary" not in answer.headers


def test_files_are_the_same_in_every_language(client: Client) -> None:
    answer = client.get("/static/console/console.css", headers={"Accept-Language": "zh"})

    assert answer.status_code == 200
    assert "Accept-Language" not in answer.headers.get("Vary", "")
    assert "Content-Language" not in answer.headers
