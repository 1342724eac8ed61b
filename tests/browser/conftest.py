"""A product in a browser: Chromium without a window, and one shop for all journeys of a run.

Chromium is not ours to install: where it is missing the tests say so and are passed over.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.shop import Shop

_CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
# The sandbox of a browser needs rights that a container does not give; it shows our pages alone.
_ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
WIDE, NARROW = (1280, 900), (390, 844)
# Generous: a machine under load is slow, and only a hang must fail.
WAIT_MS = 120_000

if _CHROMIUM is not None:
    from playwright.sync_api import Browser, ConsoleMessage, Error, Page, expect, sync_playwright


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pass over what needs a browser where there is none."""
    reason = "Chromium is missing: install Debian's `chromium`"
    for item in items:
        if _CHROMIUM is None and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=_CHROMIUM, args=_ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    opened = Shop(tmp_path_factory.mktemp("shop") / "data")
    try:
        opened.open()
        yield opened
        assert opened.close() == 0
    finally:
        opened.leave_nothing()


def new_page(browser: "Browser", **wishes: Any) -> "Page":
    """Return a page of a visitor who has seen nothing yet and is patient."""
    context = browser.new_context(**wishes)
    context.set_default_timeout(WAIT_MS)
    return context.new_page()


class Complaints:
    """What a browser has against a page: errors of scripts, refusals of the policy, dialogs."""

    def __init__(self, page: "Page") -> None:
        self.heard: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", self._failed)
        page.on("dialog", lambda dialog: self.heard.append(f"dialog: {dialog.message}"))

    def _said(self, message: "ConsoleMessage") -> None:
        # A status that a journey asks for is the journey's to judge.
        if message.type == "error" and "status of" not in message.text:
            self.heard.append(message.text)

    def _failed(self, error: "Error") -> None:
        self.heard.append(str(error))


@pytest.fixture
def page(browser: "Browser", shop: Shop) -> "Iterator[Page]":
    """Return a page of a visitor of its own; the test fails when the browser complains."""
    opened = new_page(
        browser,
        base_url=shop.url,
        viewport={"width": WIDE[0], "height": WIDE[1]},
        locale="en-GB",
    )
    complaints = Complaints(opened)
    yield opened
    opened.context.close()
    assert complaints.heard == []


@pytest.fixture
def kept(request: pytest.FixtureRequest) -> "Kept":
    return Kept(os.environ.get("MQWEB_TEST_PICTURES"), request.node.name)


class Kept:
    """Pictures of what was seen, for docs/images, where MQWEB_TEST_PICTURES names a directory."""

    def __init__(self, directory: str | None, test: str) -> None:
        self._directory = None if directory is None else Path(directory)
        self._test = test

    def picture(self, page: "Page", name: str) -> None:
        """Keep what a page shows now."""
        if self._directory is not None:
            self._directory.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=self._directory / f"{name}.png")
