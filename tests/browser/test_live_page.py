"""A live page in a real browser: what it says of itself, and what it shows after a gap."""

import json
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import new_page
from tests.process.product import Broker
from tests.web.product import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.process]

TOPIC = "orders"
# The page itself promises 5 s; the rest is what a machine under load needs on top.
NOTICED_S_MAX = 5.0 + 15.0
BACK_S_MAX = 60.0
HELD = '[data-value="totals.held"]'
# All that the page binds, as it is shown; times and rates are of their own moment.
SHOWN = """JSON.stringify([...document.querySelectorAll('#content [data-value]')]
  .filter((one) => !one.closest('template') && one.checkVisibility())
  .filter((one) => /held|lag|count|offset|delivered|pending|name|type/.test(one.dataset.value))
  .map((one) => [one.dataset.value, one.textContent.trim()]))"""


def state(wanted: str, *, word: str = "") -> str:
    """Return the expression of a page's state, and of the word it has for it."""
    said = f" && document.getElementById('state-word').textContent === '{word}'" if word else ""
    return f"document.getElementById('state')?.dataset.state === '{wanted}'{said}"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    found = Broker(tmp_path / "data")
    # It runs a loop of its own, and the browser's goes on in this thread.
    with ThreadPoolExecutor(1) as aside:
        aside.submit(found.prepare, **{TOPIC: 2}).result()
    found.start()
    yield found
    assert found.stop() == 0


@pytest.fixture
def visitor(browser: "Browser") -> "Iterator[Page]":
    """Return a page that may complain: its broker goes away under it."""
    page = new_page(browser)
    yield page
    page.context.close()


def until(page: "Page", expression: str, *, within_s: float) -> float:
    """Return after how many seconds something is true on a page."""
    begun_s = time.monotonic()
    wait_for(lambda: page.evaluate(expression), within_s)
    return time.monotonic() - begun_s


def open_page(page: "Page", address: str) -> None:
    page.goto(address, wait_until="domcontentloaded")


def send(broker: Broker, count: int) -> None:
    for number in range(count):
        body = {"messages": [{"body": f"message {number}"}]}
        assert broker.call("POST", f"/api/v1/topics/{TOPIC}/messages", body)[0] == 201


def held(count: int) -> str:
    return f"document.querySelector({json.dumps(HELD)})?.textContent.trim() === '{count}'"


def test_a_page_follows_says_when_it_cannot_and_is_right_again_afterwards(
    broker: Broker, visitor: "Page"
) -> None:
    page = f"http://127.0.0.1:{broker.port}/"
    send(broker, 3)
    open_page(visitor, page)
    until(visitor, state("live"), within_s=BACK_S_MAX)
    until(visitor, held(3), within_s=BACK_S_MAX)
    send(broker, 2)
    until(visitor, held(5), within_s=BACK_S_MAX)

    broker.kill()
    lost = state("reconnecting", word="Reconnecting, as of")
    noticed_s = until(visitor, lost, within_s=NOTICED_S_MAX)
    broker.start()
    send(broker, 4)
    until(visitor, state("live"), within_s=BACK_S_MAX)
    until(visitor, held(9), within_s=BACK_S_MAX)
    print(f"a lost connection was told after {noticed_s:.2f} s")
    assert len(json.loads(visitor.evaluate(SHOWN))) > 10

    # Whoever comes now sees the same, as soon as both show the same version.
    newcomer = visitor.context.new_page()
    open_page(newcomer, page)
    until(newcomer, state("live"), within_s=BACK_S_MAX)
    wait_for(lambda: visitor.evaluate(SHOWN) == newcomer.evaluate(SHOWN), BACK_S_MAX)


def test_a_page_whose_broker_says_nothing_is_stale_since_a_time(
    broker: Broker, visitor: "Page"
) -> None:
    open_page(visitor, f"http://127.0.0.1:{broker.port}/topics/{TOPIC}/")
    until(visitor, state("live"), within_s=BACK_S_MAX)

    broker.signal(signal.SIGSTOP)
    try:
        stale = state("stale", word="Stale since")
        noticed_s = until(visitor, stale, within_s=NOTICED_S_MAX)
        expect(visitor.locator("#as-of")).to_have_text(re.compile("UTC$"))
    finally:
        broker.signal(signal.SIGCONT)
    until(visitor, state("live"), within_s=BACK_S_MAX)

    print(f"silence was told after {noticed_s:.2f} s")


def test_a_page_that_missed_a_version_asks_for_all_of_it(broker: Broker, visitor: "Page") -> None:
    """The browser drops a frame on its way: the next one does not fit, and the page recovers."""
    drops = """
      window.dropped = 0; window.asked = 0; window.frames = 0;
      const Real = WebSocket;
      window.WebSocket = class extends Real {
        addEventListener(kind, then) {
          super.addEventListener(kind, kind !== 'message' ? then : (event) => {
            window.frames += 1;
            if (window.frames === 3) { window.dropped += 1; return; }
            then(event);
          });
        }
        send(text) { window.asked += text === 'resync'; super.send(text); }
      };"""
    visitor.add_init_script(drops)
    open_page(visitor, f"http://127.0.0.1:{broker.port}/topics/{TOPIC}/")

    until(visitor, "window.dropped === 1 && window.asked === 1", within_s=BACK_S_MAX)
    frames = int(visitor.evaluate("window.frames"))
    send(broker, 7)
    until(visitor, f"window.frames > {frames + 1}", within_s=BACK_S_MAX)
    until(
        visitor,
        "document.querySelector('[data-value=\"held\"]').textContent.trim() === '7'",
        within_s=BACK_S_MAX,
    )

    assert visitor.evaluate("window.asked") == 1
    until(visitor, state("live"), within_s=BACK_S_MAX)
