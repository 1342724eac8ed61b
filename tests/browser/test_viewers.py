"""Viewers of several languages and zones: what each chooses, and what its live cells say."""

from typing import TYPE_CHECKING

import pytest

from apps.core.zones import ZONE_COOKIE
from tests.browser.shop import Shop

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.process]


def choose(page: "Page", field: str, value: str) -> None:
    """Choose at the foot of a page, and wait for the page that comes of it."""
    page.select_option(f"footer select[name={field}]", value)
    with page.expect_navigation():
        page.click("footer button")


def test_a_language_is_chosen_at_the_foot_and_the_page_stays(page: "Page", shop: Shop) -> None:
    page.goto("/locks?group=billing")

    choose(page, "language", "zh-hans")

    assert page.url.endswith("/locks?group=billing")
    assert page.locator("html").get_attribute("lang") == "zh-Hans"
    assert page.locator("nav.menu summary").inner_text() == "菜单"
    choose(page, "language", "en")
    assert page.locator("html").get_attribute("lang") == "en"


def test_the_browsers_own_zone_is_offered_and_taken_only_when_chosen(
    shop: Shop, browser: "Browser"
) -> None:
    context = browser.new_context(base_url=shop.url, timezone_id="America/Sao_Paulo")
    page = context.new_page()
    page.goto("/")
    page.wait_for_selector('#state[data-state="live"]')
    assert page.inner_text("#as-of").endswith(" UTC")

    offered = page.locator("footer select[name=zone] option", has_text="this browser's")
    assert offered.get_attribute("value") == "America/Sao_Paulo"
    choose(page, "zone", "America/Sao_Paulo")

    assert page.inner_text("#as-of").endswith(" UTC-3")
    page.wait_for_selector('#state[data-state="live"]')
    assert page.inner_text("#as-of").endswith(" UTC-3")
    context.close()


def test_live_cells_come_in_the_language_and_zone_of_their_viewer(
    shop: Shop, browser: "Browser"
) -> None:
    context = browser.new_context(base_url=shop.url, locale="zh-CN")
    context.add_cookies([{"name": ZONE_COOKIE, "value": "Asia/Kolkata", "url": shop.url}])
    page = context.new_page()

    page.goto("/")

    page.wait_for_selector('#state[data-state="live"]')
    assert page.inner_text("#state-word") == "实时"
    # A second later the socket has written it, and not the server.
    before = page.inner_text("#as-of")
    page.wait_for_function(
        "before => document.getElementById('as-of').textContent !== before", arg=before
    )
    assert page.inner_text("#as-of").endswith(" UTC+5:30")
    context.close()
