"""Every page that can be reached: no complaint, no sideways scrolling, nothing in anybody's way."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import NARROW, WIDE
from tests.browser.shop import HOSTILE, Shop

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.process]

AXE = Path(__file__).parent / "axe" / "axe-4.14.1.min.js"
# What is not ours, and what changes with every look at it.
FOREIGN = ("/admin/", "/api/", "/static/")
FILES = (".csv", "/raw", "/export")
PAGES_MAX = 120
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def hostile(shop: Shop) -> None:
    """Fill every field that takes any text with one that breaks whoever trusts it."""
    shop.let_die("spiteful", "victims", ["body " + HOSTILE], HOSTILE)
    shop.send(
        "spiteful", HOSTILE, tag="t", keys=HOSTILE.replace(" ", "_"),
        properties={"note": HOSTILE}, sharding_key=HOSTILE,
    )  # fmt: skip
    shop.send("spiteful", HOSTILE, keys="late", properties={"note": HOSTILE}, delay_ms=3_600_000)


def pages(page: "Page") -> Iterator[str]:
    """Yield the path of each page that links lead to from the overview, without its query."""
    seen, waiting = {"/"}, ["/"]
    while waiting and len(seen) <= PAGES_MAX:
        path = waiting.pop(0)
        yield path
        page.goto(path, wait_until="domcontentloaded")
        links: list[str] = page.eval_on_selector_all("a[href]", "all => all.map(a => a.href)")
        for link in links:
            found = urlsplit(link)
            is_ours = found.netloc == urlsplit(page.url).netloc
            is_page = not found.path.startswith(FOREIGN) and not found.path.endswith(FILES)
            if is_ours and is_page and found.path not in seen:
                seen.add(found.path)
                waiting.append(found.path)


@pytest.fixture(scope="module")
def seen(shop: Shop, hostile: None, browser: "Browser") -> list[str]:
    """Return every page's path; the crawl itself is one look at each."""
    context = browser.new_context(base_url=shop.url)
    found = list(pages(context.new_page()))
    context.close()
    assert len(found) >= 20
    return found


def sideways(page: "Page") -> int:
    """Return by how many pixels a page is wider than its window."""
    wider: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return wider


def findings(page: "Page", *, rules: Sequence[str] = ()) -> list[str]:
    """Return what axe finds serious on a page, by some rules or by all: rule and place."""
    wanted: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        wanted["runOnly"] = list(rules)
    found: dict[str, Any] = page.evaluate("wanted => axe.run(document, wanted)", wanted)
    return [
        f"{violation['id']}: {node['target']}"
        for violation in found["violations"]
        if violation["impact"] in SERIOUS
        for node in violation["nodes"]
    ]


def test_every_page_fits_and_is_open_to_everybody(
    shop: Shop, browser: "Browser", seen: list[str]
) -> None:
    context = browser.new_context(base_url=shop.url, bypass_csp=True)
    looked = context.new_page()
    wrong: dict[str, list[str]] = {}
    for path in seen:
        looked.goto(path, wait_until="domcontentloaded")
        looked.add_script_tag(path=AXE)
        for theme in ("light", "dark"):
            looked.emulate_media(color_scheme=theme)
            for width, height in (WIDE, NARROW):
                looked.set_viewport_size({"width": width, "height": height})
                if (wider := sideways(looked)) > 0:
                    wrong.setdefault(path, []).append(f"{width}: {wider} px too wide")
            # Of a theme only the colours are its own.
            if found := findings(looked, rules=() if theme == "light" else ("color-contrast",)):
                wrong.setdefault(path, []).extend(f"{theme}: {one}" for one in found)
    context.close()

    told = [f"{path}: {one}" for path, found in wrong.items() for one in found]
    assert not told, "\n".join(told)


def test_every_page_says_the_same_without_scripts(
    shop: Shop, browser: "Browser", seen: list[str]
) -> None:
    context = browser.new_context(base_url=shop.url, java_script_enabled=False)
    plain = context.new_page()
    for path in seen:
        answer = plain.goto(path, wait_until="domcontentloaded")
        assert answer is not None
        assert answer.status == 200, path
        assert plain.locator("h1").first.inner_text().strip(), path
        assert plain.locator("main").inner_text().strip(), path
    context.close()


def test_hostile_text_is_text_on_every_page(seen: list[str], page: "Page") -> None:
    """The page's own fixture fails when a dialog opens or the policy refuses a script."""
    for path in seen:
        page.goto(path)
        planted = page.locator("img[onerror], script:not([src])").count()
        assert planted == 0, path
