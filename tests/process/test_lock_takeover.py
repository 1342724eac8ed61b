"""A consumer is killed and another process gets its queue: what viewer, API and log tell of it.

Two real consumers of an ordered group, and a viewer of the page of locks, all processes of their
own beside the product.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin

from apps.engine.clock import SystemClock
from tests.bound import bound
from tests.web.console.live import Held
from tests.web.product import Product, wait_for

pytestmark = pytest.mark.process

LOCK = "billing~orders~0"
# A viewer waits for a second or two; a machine under load is slower, and only a hang must fail.
SHOWN_S_MAX = 30.0


class Watcher:
    """A viewer of the page of locks that notes when it first saw what."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._held = Held()
        self.seen: dict[str, tuple[float, dict[str, Any]]] = {}
        self.owners: list[tuple[str, str | None]] = []

    def watch(self) -> None:
        """Follow the view of one group until the socket is closed."""
        address = f"ws://127.0.0.1:{self._port}/ws/live/?view=locks.group%3Dbilling"
        origin = Origin(f"http://127.0.0.1:{self._port}")
        with connect(address, origin=origin, max_size=None) as self.socket:
            try:
                for text in self.socket:
                    self._take(self._held.take(json.loads(text)))
            except ConnectionClosed:
                pass

    def _take(self, picture: dict[str, Any]) -> None:
        for line in picture["lines"]:
            self.seen.setdefault(line["id"], (SystemClock().wall_ms() / 1000, line))
        for row in picture["rows"]:
            state = (row["hold"], row["owner"])
            if row["lock"] == LOCK and self.owners[-1:] != [state]:
                self.owners.append(state)

    def line(self, change: str) -> tuple[float, dict[str, Any]] | None:
        """Return when the first line of a change was seen, and the line."""
        found = [one for one in self.seen.values() if one[1]["change"] == change]
        return min(found, key=lambda one: one[0]) if found else None


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    product = Product(tmp_path / "data", MQWEB_QUEUE_LOCK_MS="2000")
    try:
        product.wait_until_ready()
        yield product
    finally:
        product.kill_everything()


@contextmanager
def consumer(product: Product) -> Iterator[subprocess.Popen[bytes]]:
    """Run an ordered consumer in a process of its own."""
    command = [
        sys.executable, "-c", "import sys; from mqclient.cli import main; sys.exit(main())",
        "consume", "orders", "--group", "billing", "--ordered",
    ]  # fmt: skip
    environment = {**os.environ, "MQWEB_URL": f"http://127.0.0.1:{product.port}"}
    process = subprocess.Popen(
        bound(command), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def watching(product: Product) -> Iterator[Watcher]:
    watcher = Watcher(product.port)
    thread = threading.Thread(target=watcher.watch)
    thread.start()
    try:
        yield watcher
    finally:
        watcher.socket.close()
        thread.join(30)


def owner_of(product: Product) -> str:
    _, _, found = product.request("GET", "/api/v1/locks?group=billing")
    return next((lock["owner"] for lock in found["items"] if lock["id"] == LOCK), "")


def transitions(product: Product) -> list[dict[str, Any]]:
    _, _, found = product.request("GET", f"/api/v1/locks/{LOCK}/transitions")
    return list(reversed(found["items"]))


def test_a_killed_owners_lock_runs_out_and_is_taken_over_before_everybodys_eyes(
    product: Product,
) -> None:
    status, _, answer = product.request("PUT", "/api/v1/topics/orders", {"queue_count": 1})
    assert status == 201, answer

    with watching(product) as watcher, consumer(product) as first:
        wait_for(lambda: owner_of(product))
        dead = owner_of(product)
        with consumer(product):
            first.kill()
            wait_for(lambda: watcher.line("taken over") is not None)
            heir = owner_of(product)

    assert heir not in ("", dead)
    for change in ("expired", "taken over"):
        found = watcher.line(change)
        assert found is not None, watcher.seen
        seen_at, line = found
        happened = [one for one in transitions(product) if one["number"] == line["id"]]
        (at,) = [one["at"] for one in happened] or [line["at"]]
        shown_s = seen_at - seconds(at)
        print(f"{change}: shown after {shown_s:.2f} s")
        assert shown_s < SHOWN_S_MAX
        assert dead in line["text"]
    assert watcher.owners.index(("held", dead)) < watcher.owners.index(("expired", dead))
    assert watcher.owners.index(("expired", dead)) < watcher.owners.index(("held", heir))
    wait_for(lambda: "taken_over" in [line["change"] for line in transitions(product)])
    told = [
        (line["change"], line["previous_owner"], line["owner"]) for line in transitions(product)
    ]
    begin = told.index(("acquired", "", dead))
    assert told[begin : begin + 3] == [
        ("acquired", "", dead), ("expired", dead, ""), ("taken_over", dead, heir),
    ]  # fmt: skip
    (logged,) = product.events("lock_taken_over")
    assert (logged["previous_owner"], logged["owner"]) == (dead, heir)
    assert [event["owner"] for event in product.events("lock_expired")][:1] == [dead]
    _, _, page = product.request("GET", f"/locks/{LOCK}/")
    assert dead in page.decode()
    assert heir in page.decode()


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
