"""What a viewer chose at the foot of a page, and where the form leads."""

import pytest
from django.test import Client

from apps.console.preferences import THEME_COOKIE
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
    assert guarded.get("/preferences").status_code == 405
