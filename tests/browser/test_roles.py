"""Pages as a role sees them: open to everybody, and what may not be pressed says why."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import new_page
from tests.browser.test_every_page import AXE, findings, pages
from tests.fuzz.server import Open
from tests.web.product import Product

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.process]

ROLES = ("operator", "viewer")
PASSWORD = secrets.token_urlsafe(18)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Return a product that asks everybody who they are, with a person of each role."""
    data: Path = tmp_path_factory.mktemp("guarded") / "data"
    before = Open(data)
    try:
        before.fill()
        for role in ROLES:
            person = {"account": f"a-{role}", "role": role, "password": PASSWORD}
            status, answer = before.call("POST", "/api/v1/accounts", person)
            assert status == 201, answer
        assert before.close() == 0
    finally:
        before.product.kill_everything()
    product = Product(data, MQWEB_AUTH="on", MQWEB_SECRET_KEY=secrets.token_urlsafe(48))
    try:
        product.wait_until_ready()
        yield product
        assert product.interrupt() == 0
    finally:
        product.kill_everything()


def signed_in(browser: "Browser", product: Product, role: str) -> "Page":
    url = f"http://127.0.0.1:{product.port}"
    page = new_page(browser, base_url=url, bypass_csp=True, locale="en-GB")
    page.goto("/sign-in")
    page.get_by_label("Name").fill(f"a-{role}")
    page.get_by_label("Password").fill(PASSWORD)
    page.locator("main").get_by_role("button").first.click()
    page.wait_for_url("**/")
    return page


@pytest.mark.parametrize("role", [pytest.param("operator", marks=pytest.mark.crash), "viewer"])
def test_every_page_of_a_role_is_open_to_everybody_and_gives_reasons(
    guarded: Product, browser: "Browser", role: str
) -> None:
    page = signed_in(browser, guarded, role)
    wrong: list[str] = []
    disabled = 0
    for path, status in pages(page):
        assert status == 200, path
        page.add_script_tag(path=AXE)
        wrong += [f"{path}: {one}" for one in findings(page)]
        buttons: list[list[str]] = page.locator("main button:disabled").evaluate_all(
            "all => all.map(button => [button.textContent.trim(), button.title.trim()])"
        )
        disabled += len(buttons)
        wrong += [f"{path}: {word!r} does not say why" for word, reason in buttons if not reason]
    page.context.close()

    assert not wrong, "\n".join(wrong)
    # Who may only look has something on nearly every page that may not be pressed.
    assert disabled > 0 or role != "viewer"
