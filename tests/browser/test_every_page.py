"""Every page that can be reached: no complaint, no sideways scrolling, nothing in anybody's way."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import urlopen

import pytest
from django.urls import resolve

from apps.core.languages import LANGUAGE_COOKIE, Language
from apps.core.zones import ZONE_COOKIE
from tests.browser.chinese import english, left_in_english, widen
from tests.browser.conftest import NARROW, WIDE, Complaints, new_page
from tests.browser.shop import HOSTILE, Shop
from tests.web.product import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.process]

AXE = Path(__file__).parent / "axe" / "axe-4.14.1.min.js"
# What is not ours, and what changes with every look at it.
FOREIGN = ("/admin/", "/api/", "/static/")
FILES = (".csv", "/raw", "/export")
# Lists lead to all that tests have made, whose pages are alike: of each kind so many are opened,
# and all that are about what is hostile.
ALIKE_MAX = 2
HOSTILE_NAMES = ("spiteful", "victims")
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
    # Lists read what beat sums up: before that no link leads to either.
    wait_for(
        lambda: _is_linked(shop, "topics", "spiteful") and _is_linked(shop, "groups", "victims")
    )


def _is_linked(shop: Shop, list_of: str, name: str) -> bool:
    with urlopen(f"{shop.url}/{list_of}") as answer:
        return f'href="/{list_of}/{name}' in answer.read().decode()


def pages(page: "Page") -> Iterator[tuple[str, int]]:
    """Open each kind of page that links lead to from the overview; yield its path and status.

    Paths have no query, but for pages that are nothing without the act it names. What a page is
    looked at for is looked at while it is open here.
    """
    seen, waiting = {"/"}, ["/"]
    alike: Counter[tuple[str, str]] = Counter()
    while waiting:
        path = waiting.pop(0)
        answer = page.goto(path, wait_until="domcontentloaded")
        assert answer is not None
        links: list[str] = page.eval_on_selector_all("a[href]", "all => all.map(a => a.href)")
        for link in links:
            found = urlsplit(link)
            is_ours = found.netloc == urlsplit(page.url).netloc
            is_page = not found.path.startswith(FOREIGN) and not found.path.endswith(FILES)
            query = f"?{found.query}" if found.path.endswith("/confirm") else ""
            target = found.path + query
            if not is_ours or not is_page or target in seen:
                continue
            seen.add(target)
            kind = resolve(unquote(found.path)).route, query
            is_hostile = any(name in found.path for name in HOSTILE_NAMES)
            if is_hostile or alike[kind] < ALIKE_MAX:
                alike[kind] += not is_hostile
                waiting.append(target)
        yield path, answer.status


class Crawl(NamedTuple):
    """Every page's path, and what was wrong with the text of others on it."""

    paths: list[str]
    planted: list[str]
    complaints: list[str]


@pytest.fixture(scope="module")
def crawl(shop: Shop, hostile: None, browser: "Browser") -> Crawl:
    """Look at each page once as it is served, with the policy and the scripts in force."""
    page = new_page(browser, base_url=shop.url)
    complaints = Complaints(page)
    paths, planted = [], []
    for path, status in pages(page):
        assert status == 200, path
        paths.append(path)
        page.wait_for_load_state()
        if page.locator("img[onerror], script:not([src])").count():
            planted.append(path)
    page.context.close()
    assert len(paths) >= 60, " ".join(paths)
    assert {name for name in HOSTILE_NAMES if any(name in path for path in paths)} == {
        *HOSTILE_NAMES
    }
    return Crawl(paths, planted, complaints.heard)


@pytest.fixture(scope="module")
def seen(crawl: Crawl) -> list[str]:
    return crawl.paths


def sideways(page: "Page") -> int:
    """Return by how many pixels a page is wider than its window."""
    wider: int = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return wider


def cut_off(page: "Page") -> list[str]:
    """Return how the cards begin that are narrower than what they hold, and hide its end.

    A card clips, so the page is none the wider. Charts follow their card a moment later.
    """
    cut: list[str] = page.eval_on_selector_all(
        ".card:not(.history)",
        """cards => cards.filter((card) => card.scrollWidth > card.clientWidth)
        .map((card) => card.innerText.slice(0, 40))""",
    )
    return cut


def unfit(page: "Page") -> list[str]:
    """Return what of a page does not fit into its window, at the width of a desk and of a phone."""
    found = []
    for width, height in (WIDE, NARROW):
        page.set_viewport_size({"width": width, "height": height})
        if (wider := sideways(page)) > 0:
            found.append(f"{width}: {wider} px too wide")
        found += [f"{width}: cut off: {card!r}" for card in cut_off(page)]
    return found


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
    looked = new_page(browser, base_url=shop.url, bypass_csp=True)
    wrong: dict[str, list[str]] = {}
    for path in seen:
        looked.goto(path, wait_until="domcontentloaded")
        looked.add_script_tag(path=AXE)
        for theme in ("light", "dark"):
            looked.emulate_media(color_scheme=theme)
            if found := unfit(looked):
                wrong.setdefault(path, []).extend(found)
            # Of a theme only the colours are its own.
            if found := findings(looked, rules=() if theme == "light" else ("color-contrast",)):
                wrong.setdefault(path, []).extend(f"{theme}: {one}" for one in found)
    looked.context.close()

    told = [f"{path}: {one}" for path, found in wrong.items() for one in found]
    assert not told, "\n".join(told)


def test_every_page_says_the_same_without_scripts(
    shop: Shop, browser: "Browser", seen: list[str]
) -> None:
    plain = new_page(browser, base_url=shop.url, java_script_enabled=False)
    for path in seen:
        answer = plain.goto(path, wait_until="domcontentloaded")
        assert answer is not None
        assert answer.status == 200, path
        assert plain.locator("h1").first.inner_text().strip(), path
        assert plain.locator("main").inner_text().strip(), path
    plain.context.close()


def test_hostile_text_is_text_on_every_page(crawl: Crawl) -> None:
    """A dialog that opens, or a script that the policy refuses, is a complaint."""
    assert any("spiteful" in path for path in crawl.paths)
    assert crawl.planted == []
    assert crawl.complaints == []


def test_every_page_is_in_chinese_for_who_reads_it(
    shop: Shop, browser: "Browser", seen: list[str]
) -> None:
    looked = new_page(browser, base_url=shop.url)
    looked.context.add_cookies(
        [
            {"name": LANGUAGE_COOKIE, "value": Language.CHINESE.value, "url": shop.url},
            {"name": ZONE_COOKIE, "value": "Asia/Kolkata", "url": shop.url},
        ]
    )
    wrong: dict[str, list[str]] = {}
    for path in [*seen, "/preferences"]:
        looked.goto(path, wait_until="domcontentloaded")
        assert looked.locator("html").get_attribute("lang") == Language.CHINESE.tag, path
        assert re.search("[\u4e00-\u9fff]", looked.title() + looked.inner_text("main")), path
        if found := left_in_english(looked):
            wrong.setdefault(path, []).extend(found)
        widen(looked)
        if found := unfit(looked):
            wrong.setdefault(path, []).extend(found)
    looked.context.close()

    told = [f"{path}: {one}" for path, found in wrong.items() for one in found]
    assert not told, "\n".join(told)


@pytest.mark.parametrize(
    ("text", "is_english"),
    [
        ("Nobody holds the lock.", True),
        ("延迟 5 分钟, the database is away", True),
        ("队列 orders 3", False),
        ("mq consume orders --group billing", False),
        ("主题 orders 和 payments", False),
        ("UTC+5:30", False),
    ],
)
def test_a_sentence_in_english_is_told_from_names(text: str, is_english: bool) -> None:
    assert bool(english(text)) is is_english
