"""The log and the database of one product, each as it was at another moment.

Row S5 of the fault table. Both are copied twice while the whole product stands still, with work of
every kind in between; a product is then started on the log of one moment and the database of the
other. Both open, each kind of difference is told in the log, and nothing is passed over in silence.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clockwork.machine import Machine
from tests.outcomes.field import wait_for
from tests.process.boxes import all_frozen
from tests.rounds import report

pytestmark = [pytest.mark.process, pytest.mark.crash]
KEPT, LATER, HALVES = "kept", "later", "halves"
GROUP = "readers"
DIFFERENCES = frozenset({
    "catalog_older_than_engine", "dead_letters_ahead_of_log",
    "progress_ahead_of_log", "decisions_ahead_of_log",
})  # fmt: skip


@pytest.fixture
def directory() -> Iterator[Path]:
    """Return a directory whose name is short enough for a socket."""
    path = Path(tempfile.mkdtemp(prefix="mqweb-apart-"))
    yield path
    shutil.rmtree(path)


class Site:
    """One product, and what is asked of it."""

    def __init__(self, data: Path) -> None:
        """Start it, with a keeper of its catalog and no clockwork."""
        self.machine = Machine(data)

    def ask(self, method: str, path: str, document: object = None) -> Any:
        """Make a request; return its document."""
        status, _, found = self.machine.product.request(method, f"/api/v1{path}", document)
        assert status < 400, (status, found)
        return found

    def send(self, topic: str, *bodies: str) -> None:
        """Send messages to a topic's one queue."""
        self.ask("POST", f"/topics/{topic}/messages", {"messages": [{"body": b} for b in bodies]})

    def read(self, topic: str) -> list[str]:
        """Return every body of a topic."""
        found = self.ask("GET", f"/topics/{topic}/queues/0/messages?offset=0&max=100")
        return [message["body"] for message in found["messages"]]

    def receive(self, count: int) -> list[str]:
        """Receive messages; return their handles."""
        wanted = {"topic": KEPT, "max": count, "wait_ms": 1_000, "invisible_ms": 60_000}
        found = self.ask("POST", f"/groups/{GROUP}/messages:receive", wanted)
        return [message["receipt_handle"] for message in found["messages"]]

    def settle(self, count: int) -> None:
        """Acknowledge so many messages."""
        handles = self.receive(count)
        assert len(handles) == count
        self.ask("POST", f"/groups/{GROUP}/messages:ack", {"receipt_handles": handles})

    def bury(self, count: int) -> None:
        """Let so many messages fail; the group has no second attempt."""
        handles = self.receive(count)
        assert len(handles) == count
        document = {"receipt_handles": handles, "reason": "bad"}
        self.ask("POST", f"/groups/{GROUP}/messages:nack", document)

    def have_one_checked(self) -> None:
        """Begin a transaction, and let an operator ask its producers."""
        half = {"message": {"body": "half"}, "producer_group": "payers"}
        begun = self.ask("POST", f"/topics/{HALVES}/transactions", half)
        self.ask("POST", f"/transactions/{begun['transaction_id']}:check-now")

    def rows(self, table: str) -> int:
        """Count rows."""
        ((count,),) = self.machine.ask(f"SELECT count(*) FROM {table}")
        return int(count)

    def committed(self) -> int:
        """Return how far the rows say that the group is."""
        rows = self.machine.ask(
            "SELECT committed FROM groups_consumeroffset WHERE topic = %s AND \"group\" = %s",
            KEPT, GROUP,
        )  # fmt: skip
        return int(rows[0][0]) if rows else 0

    def wait_for_rows(self, *, letters: int, committed: int) -> None:
        """Return when the rows are level with what was done."""
        wait_for(lambda: self.rows("deadletters_deadletter") == letters, f"{letters} letters")
        wait_for(lambda: self.committed() >= committed, f"{committed} are committed in rows")

    def cut(self, to: Path) -> None:
        """Copy log and database as they are at one moment."""
        product = self.machine.product
        pids = [product.process.pid, *(process.pid for process in product.family())]
        with all_frozen(pids):
            # With the owners of files: a database trusts nobody else's.
            subprocess.run(["cp", "-a", str(self.machine.data), str(to)], check=True)


@contextmanager
def site(data: Path) -> Iterator[Site]:
    """Run a product for a while, and leave nothing of it behind."""
    found = Site(data)
    try:
        found.machine.product.wait_until_ready()
        yield found
    finally:
        found.machine.product.kill_everything()


@contextmanager
def put_together(to: Path, *, log: Path, database: Path) -> Iterator[Site]:
    """Run a product on the log of one copy and the database of the other."""
    subprocess.run(["cp", "-a", str(database), str(to)], check=True)
    shutil.rmtree(to / "store")
    subprocess.run(["cp", "-a", str(log / "store"), str(to / "store")], check=True)
    with site(to) as found:
        yield found
        assert found.machine.product.interrupt() == 0, found.machine.product.output[-4_000:]


def told(site: Site) -> dict[str, dict[str, Any]]:
    """Return what a product has said about differences."""
    output = site.machine.product
    return {name: events[-1] for name in DIFFERENCES if (events := output.events(name))}


def test_log_and_database_of_different_moments_open_and_every_difference_is_told(
    directory: Path,
) -> None:
    early, late = directory / "early", directory / "late"
    with site(directory / "data") as first:
        first.ask("PUT", f"/topics/{KEPT}", {"queue_count": 1})
        first.ask("PUT", f"/topics/{HALVES}", {"queue_count": 1})
        first.ask("PUT", f"/groups/{GROUP}", {"retry_max": 0})
        first.send(KEPT, *(f"{number:02d}" for number in range(20)))
        first.settle(4)
        first.bury(2)
        first.wait_for_rows(letters=2, committed=6)
        first.cut(early)
        first.ask("PUT", f"/topics/{LATER}", {"queue_count": 1})
        first.send(LATER, "a", "b")
        first.settle(4)
        first.bury(3)
        first.have_one_checked()
        first.wait_for_rows(letters=5, committed=13)
        first.cut(late)

    with put_together(directory / "newer-log", log=late, database=early) as site_:
        # The log knows what rows do not: they follow it, and a topic's messages stay.
        site_.wait_for_rows(letters=5, committed=13)
        newer = told(site_)
        assert newer["catalog_older_than_engine"]["topics"] == [LATER]
        assert site_.read(LATER) == ["a", "b"]
        site_.send(LATER, "c")
        site_.bury(1)
        site_.wait_for_rows(letters=6, committed=14)

    with put_together(directory / "newer-rows", log=early, database=late) as site_:
        wait_for(lambda: len(told(site_)) == len(DIFFERENCES) - 1, "each difference is told")
        older = told(site_)
        assert older["dead_letters_ahead_of_log"]["count"] == 3
        assert older["progress_ahead_of_log"]["topic"] == KEPT
        assert older["decisions_ahead_of_log"]["count"] == 1
        # Of the topic the log knows nothing: it is there, and empty.
        assert site_.read(LATER) == []
        site_.send(LATER, "d")
        assert site_.read(LATER) == ["d"]
        # What died after the cut dies again, and has a row at the place of the one that is lost.
        site_.settle(4)
        site_.bury(1)
        site_.wait_for_rows(letters=3, committed=11)

    assert newer.keys() | older.keys() == DIFFERENCES
    report("S5", cuts=2, differences=len(DIFFERENCES), crashes=0)
