"""A live page in a real browser: what it says of itself, and what it shows after a gap."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.browser import PROGRAM, Browser
from tests.process.product import Broker

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium"),
]

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


def state(wanted: str) -> str:
    return f"document.getElementById('state')?.dataset.state === '{wanted}'"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    found = Broker(tmp_path / "data")
    found.prepare(**{TOPIC: 2})
    found.start()
    yield found
    assert found.stop() == 0


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "browser") as found:
        yield found


def send(broker: Broker, count: int) -> None:
    for number in range(count):
        body = {"messages": [{"body": f"message {number}"}]}
        assert broker.call("POST", f"/api/v1/topics/{TOPIC}/messages", body)[0] == 201


def held(count: int) -> str:
    return f"document.querySelector({json.dumps(HELD)})?.textContent.trim() === '{count}'"


def test_a_page_follows_says_when_it_cannot_and_is_right_again_afterwards(
    broker: Broker, browser: Browser
) -> None:
    page = f"http://127.0.0.1:{broker.port}/"
    send(broker, 3)
    browser.open(page)
    browser.wait_for(state("live"), within_s=BACK_S_MAX)
    browser.wait_for(held(3), within_s=BACK_S_MAX)
    send(broker, 2)
    browser.wait_for(held(5), within_s=BACK_S_MAX)

    broker.kill()
    noticed_s = browser.wait_for(state("reconnecting"), within_s=NOTICED_S_MAX)
    word = browser.text("#state-word")
    broker.start()
    send(broker, 4)
    browser.wait_for(state("live"), within_s=BACK_S_MAX)
    browser.wait_for(held(9), within_s=BACK_S_MAX)
    after = json.loads(browser.read(SHOWN))
    browser.open(page)
    browser.wait_for(state("live"), within_s=BACK_S_MAX)
    fresh = json.loads(browser.read(SHOWN))

    print(f"a lost connection was told after {noticed_s:.2f} s")
    assert word == "Reconnecting, as of"
    assert len(after) > 10
    assert after == fresh


def test_a_page_whose_broker_says_nothing_is_stale_since_a_time(
    broker: Broker, browser: Browser
) -> None:
    browser.open(f"http://127.0.0.1:{broker.port}/topics/{TOPIC}/")
    browser.wait_for(state("live"), within_s=BACK_S_MAX)

    broker.signal(signal.SIGSTOP)
    try:
        noticed_s = browser.wait_for(state("stale"), within_s=NOTICED_S_MAX)
        word, since = browser.text("#state-word"), browser.text("#as-of")
    finally:
        broker.signal(signal.SIGCONT)
    browser.wait_for(state("live"), within_s=BACK_S_MAX)

    print(f"silence was told after {noticed_s:.2f} s")
    assert word == "Stale since"
    assert since is not None
    assert since.endswith("UTC")


def test_a_page_that_missed_a_version_asks_for_all_of_it(broker: Broker, browser: Browser) -> None:
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
    browser.before_each_page(drops)
    browser.open(f"http://127.0.0.1:{broker.port}/topics/{TOPIC}/")

    browser.wait_for("window.dropped === 1 && window.asked === 1", within_s=BACK_S_MAX)
    frames = int(browser.read("window.frames"))
    send(broker, 7)
    browser.wait_for(f"window.frames > {frames + 1}", within_s=BACK_S_MAX)
    browser.wait_for(
        "document.querySelector('[data-value=\"held\"]').textContent.trim() === '7'",
        within_s=BACK_S_MAX,
    )

    assert browser.read("window.asked") == 1
    assert browser.read(state("live"))
