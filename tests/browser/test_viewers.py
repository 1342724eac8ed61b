"""Viewers of several languages and zones: what each chooses, and what its live cells say."""

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from apps.core.zones import ZONE_COOKIE
from tests.browser.conftest import new_page
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
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    expect(page.locator("nav.menu summary")).to_have_text("菜单")
    choose(page, "language", "en")
    expect(page.locator("html")).to_have_attribute("lang", "en")


def test_the_browsers_own_zone_is_offered_and_taken_only_when_chosen(
    shop: Shop, browser: "Browser"
) -> None:
    page = new_page(browser, base_url=shop.url, timezone_id="America/Sao_Paulo")
    as_of = page.locator("#as-of")
    page.goto("/")
    page.wait_for_selector('#state[data-state="live"]')
    expect(as_of).to_have_text(re.compile(r" UTC$"))

    offered = page.locator("footer select[name=zone] option", has_text="this browser's")
    expect(offered).to_have_attribute("value", "America/Sao_Paulo")
    choose(page, "zone", "America/Sao_Paulo")

    assert as_of.inner_text().endswith(" UTC-3")
    page.wait_for_selector('#state[data-state="live"]')
    assert as_of.inner_text().endswith(" UTC-3")
    page.context.close()


def test_live_cells_come_in_the_language_and_zone_of_their_viewer(
    shop: Shop, browser: "Browser"
) -> None:
    page = new_page(browser, base_url=shop.url, locale="zh-CN")
    zone = {"name": ZONE_COOKIE, "value": "Asia/Kolkata", "url": shop.url}
    page.context.add_cookies([zone])
    as_of = page.locator("#as-of")

    page.goto("/")

    expect(page.locator("#state-word")).to_have_text("实时")
    # A second later the socket has written it, and not the server.
    before = as_of.inner_text()
    expect(as_of).not_to_have_text(before)
    assert as_of.inner_text().endswith(" UTC+5:30")
    page.context.close()
