"""What a viewer chose at the foot of a page, and where the form leads."""

import json

import pytest
from django.test import Client

from apps.console.preferences import THEME_COOKIE
from apps.core.languages import LANGUAGE_COOKIE
from apps.core.zones import ZONE_COOKIE, names_by_region
from tests.web.console.test_pages import parsed

HERE = "/locks?group=billing"


def page(client: Client) -> dict[str, str | None]:
    """Return the attributes of a page's root; a page without an engine has the same frame."""
    return parsed(client.get(HERE)).all("html")[0]


def test_without_a_choice_the_system_says(client: Client) -> None:
    assert "data-theme" not in page(client)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_chosen_theme_holds_from_the_next_page_on(client: Client, theme: str) -> None:
    answer = client.post("/preferences", {"theme": theme, "back": HERE})

    assert (answer.status_code, answer.headers["Location"]) == (303, HERE)
    assert page(client)["data-theme"] == theme
    chosen = [
        option["value"]
        for option in parsed(client.get(HERE)).all("option")
        if "selected" in option and option["value"] in {"system", "light", "dark"}
    ]
    assert chosen == [theme]


@pytest.mark.parametrize("theme", ["system", "", "no such", '"><script>alert(1)</script>'])
def test_whatever_is_no_choice_leaves_it_to_the_system(client: Client, theme: str) -> None:
    client.post("/preferences", {"theme": "dark", "back": HERE})

    client.post("/preferences", {"theme": theme, "back": HERE})

    assert client.cookies[THEME_COOKIE].value == "system"
    assert "data-theme" not in page(client)


def test_a_cookie_that_somebody_wrote_is_not_believed(client: Client) -> None:
    client.cookies[THEME_COOKIE] = '"><script>alert(1)</script>'

    assert "data-theme" not in page(client)
    assert b"<script>alert(1)" not in client.get(HERE).content


@pytest.mark.parametrize(
    "back",
    [
        "",
        "https://elsewhere.example/",
        "//elsewhere.example",
        "/\\elsewhere.example",
        "locks",
        "javascript:alert(1)",
    ],
)
def test_the_form_leads_to_no_other_site(client: Client, back: str) -> None:
    answer = client.post("/preferences", {"theme": "dark", "back": back})

    assert answer.headers["Location"] == "/"


def test_nothing_is_kept_without_the_token_of_the_form() -> None:
    guarded = Client(enforce_csrf_checks=True)

    assert guarded.post("/preferences", {"theme": "dark"}).status_code == 403
    assert Client().put("/preferences").status_code == 405


def test_a_page_is_in_the_language_that_the_browser_prefers(client: Client) -> None:
    english = client.get(HERE)
    chinese = client.get(HERE, headers={"Accept-Language": "zh-CN"})

    assert parsed(english).all("html")[0]["lang"] == "en"
    assert parsed(chinese).all("html")[0]["lang"] == "zh-Hans"
    assert "Skip to content" in english.content.decode()
    assert "跳到正文" in chinese.content.decode()


def test_a_chosen_language_holds_whatever_the_browser_prefers(client: Client) -> None:
    client.post("/preferences", {"language": "zh-hans", "back": HERE})

    answer = client.get(HERE, headers={"Accept-Language": "en"})

    assert parsed(answer).all("html")[0]["lang"] == "zh-Hans"
    assert answer.headers["Content-Language"] == "zh-Hans"


def test_a_language_that_is_none_gives_the_choice_back_to_the_browser(client: Client) -> None:
    client.post("/preferences", {"language": "zh-hans", "back": HERE})

    client.post("/preferences", {"language": "tlh", "back": HERE})

    assert client.cookies[LANGUAGE_COOKIE].value == ""
    assert page(client)["lang"] == "en"


def test_a_chosen_zone_holds_and_an_unknown_one_is_utc(client: Client) -> None:
    client.post("/preferences", {"zone": "Asia/Shanghai", "back": HERE})
    assert page(client)["data-zone"] == "Asia/Shanghai"

    client.post("/preferences", {"zone": "../../etc/passwd", "back": HERE})

    assert client.cookies[ZONE_COOKIE].value == "UTC"
    assert page(client)["data-zone"] == "UTC"


def test_what_a_form_does_not_name_stays_as_it_is(client: Client) -> None:
    client.post("/preferences", {"language": "zh-hans", "zone": "Asia/Shanghai", "theme": "dark"})

    client.post("/preferences", {"theme": "light"})

    shown = page(client)
    assert (shown["lang"], shown["data-zone"], shown["data-theme"]) == (
        "zh-Hans", "Asia/Shanghai", "light",
    )  # fmt: skip


def test_every_zone_can_be_chosen_without_scripts(client: Client) -> None:
    client.post("/preferences", {"zone": "Asia/Kolkata"})

    shown = parsed(client.get(f"/preferences?back={HERE}"))

    offered = [option.get("value") for option in shown.all("option")]
    assert {name for names in names_by_region().values() for name in names} <= set(offered)
    chosen = [option.get("value") for option in shown.all("option") if "selected" in option]
    assert "Asia/Kolkata" in chosen
    assert {"name": "back", "type": "hidden", "value": HERE} in shown.all("input")
    assert "UTC+5:30" in client.get("/preferences").content.decode()


def test_the_page_of_choices_leads_to_no_other_site(client: Client) -> None:
    shown = parsed(client.get("/preferences?back=//elsewhere.example"))

    assert {"name": "back", "type": "hidden", "value": "/"} in shown.all("input")


def test_scripts_are_handed_their_words_in_the_language_of_the_page(client: Client) -> None:
    words = [meta for meta in parsed(client.get(HERE)).all("meta") if meta.get("name")]
    client.post("/preferences", {"language": "zh-hans"})
    chinese = [meta for meta in parsed(client.get(HERE)).all("meta") if meta.get("name")]

    said = [
        json.loads(meta["content"] or "")["ago"]
        for meta in (*words, *chinese)
        if meta["name"] == "mqweb-words"
    ]
    assert said == ["%(span)s ago", "%(span)s前"]
