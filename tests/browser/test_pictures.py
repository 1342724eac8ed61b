"""The pictures of README and docs, taken of a product while the demo plays: `make pictures`.

A picture is kept only after the page showed what the text beside it claims.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apps.engine.clock import SystemClock
from tests.bound import bound
from tests.browser.conftest import Kept, new_page
from tests.browser.shop import ordered_member
from tests.spark.operating import Jobs
from tests.web.product import ROOT, Product, environment, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.pictures, pytest.mark.process]

TOPIC, LATER = "orders", "reminders"
GROUPS = {"billing", "shipping"}
WAIT_S = 600.0
# Charts of the last minutes need some.
PLAYED = 5_000
HOUR_MS = 3_600_000
MEMBERS = 2


@pytest.fixture(scope="module")
def since_ms() -> int:
    return SystemClock().wall_ms()


@pytest.fixture(scope="module")
def product(since_ms: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Return a product with a Spark worker, on which the demo plays."""
    started = Product(
        tmp_path_factory.mktemp("pictures") / "data", worker_processes=1, switches=("--spark",)
    )
    demo: subprocess.Popen[bytes] | None = None
    members: list[subprocess.Popen[bytes]] = []
    try:
        started.wait_until_ready()
        started.request("PUT", f"/api/v1/topics/{LATER}", {"queue_count": 2})
        for level in (3, 5, 9, 9, 14, 16, 16, 16, 18):
            send(started, {"body": f"level {level}", "delay_level": level}, count=level)
        for number, delay_ms in enumerate((20_000, 90_000, 20 * 60_000, HOUR_MS, 5 * HOUR_MS)):
            body = {"body": f"reminder {number}", "keys": [f"order-{number}"], "delay_ms": delay_ms}
            send(started, body, count=number + 2)
        server = f"http://127.0.0.1:{started.port}"
        demo = subprocess.Popen(
            bound([sys.executable, "manage.py", "demo", "--server", server]),
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(lambda: played(started) > 0, WAIT_S)
        members = [ordered_member(server, TOPIC, "tills") for _ in range(MEMBERS)]
        wait_for(lambda: played(started) >= PLAYED, WAIT_S)
        yield started
    finally:
        for client in (demo, *members):
            if client is not None:
                client.kill()
                client.wait()
        started.kill_everything()


def send(product: Product, body: dict[str, object], *, count: int) -> None:
    """Send the same message some times."""
    path = f"/api/v1/topics/{LATER}/messages"
    status, _, answer = product.request("POST", path, {"messages": [body] * count})
    assert status == 201, answer


def played(product: Product) -> int:
    """Return how many messages the demo has sent."""
    status, _, answer = product.request("GET", f"/api/v1/topics/{TOPIC}")
    return sum(int(one["max_offset"] or 0) for one in answer["queues"]) if status == 200 else 0


@pytest.fixture
def visit(product: Product, browser: "Browser") -> "Iterator[Page]":
    visitor = new_page(
        browser,
        base_url=f"http://127.0.0.1:{product.port}",
        viewport={"width": 1280, "height": 900},
        locale="en-GB",
        color_scheme="light",
    )
    yield visitor
    visitor.context.close()


def settled(page: "Page", path: str) -> None:
    """Open a page and wait until it is live and has drawn what it draws."""
    page.goto(path)
    page.locator("#state[data-state=live]").wait_for(timeout=WAIT_S * 1_000)
    page.wait_for_load_state("networkidle")


def test_the_overview_shows_rates_backlog_topics_and_groups(visit: "Page", kept: Kept) -> None:
    settled(visit, "/")
    assert visit.locator("a.name", has_text=re.compile(f"^{TOPIC}$")).count() >= 1
    for group in GROUPS:
        visit.get_by_role("link", name=re.compile(group)).first.wait_for()
    kept.picture(visit, "overview")


def test_the_page_of_locks_shows_who_holds_which_queue(visit: "Page", kept: Kept) -> None:
    settled(visit, "/locks")
    held = visit.locator("tbody[data-row]").filter(has_text="tills").filter(has_text="held")
    held.nth(3).wait_for()
    kept.picture(visit, "locks")


def test_the_page_of_delays_shows_what_is_due_when(visit: "Page", kept: Kept) -> None:
    settled(visit, "/delays")
    assert visit.get_by_role("button", name="Cancel").count() >= 10
    kept.picture(visit, "delays")


def test_the_list_of_groups_shows_backlog_age_and_trend(visit: "Page", kept: Kept) -> None:
    # Its rows are of the last sample: the page is told nothing.
    visit.goto("/groups")
    for group in GROUPS:
        assert visit.get_by_role("link", name=re.compile(f"^{group}")).count() >= 1
    kept.picture(visit, "groups")


def test_the_page_of_losses_shows_what_the_demo_left_out(
    product: Product, since_ms: int, visit: "Page", kept: Kept
) -> None:
    jobs = Jobs(product, since_ms, topics=[TOPIC])
    jobs.until_now()
    run = jobs.run("loss")
    missing = jobs.counts("loss_totals", run, "queue", "missing")
    assert sum(count for _, count in missing) > 0

    visit.goto("/pipelines/results/loss/")
    visit.locator("main").get_by_text(TOPIC, exact=False).locator("visible=true").first.wait_for()
    kept.picture(visit, "loss")


def test_the_pictures_that_the_documents_show_are_those_of_this_run() -> None:
    """A document must not show a picture that nobody takes again."""
    here = Path(__file__).read_text() + (Path(__file__).parent / "test_journeys.py").read_text()
    taken = set(re.findall(r'kept\.picture\(\w+, "([a-z-]+)"\)', here))
    texts = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {
        name for text in texts for name in re.findall(r"images/([a-z-]+)\.png", text.read_text())
    }
    assert shown <= taken
    assert {path.stem for path in (ROOT / "docs/images").glob("*.png")} == shown
