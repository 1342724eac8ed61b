"""INV-15 on real sockets: drops, viewers that do not read, reconnects, a broker that is killed.

Viewers keep every frame as it came; the checker knows nothing of the product.
"""

import contextlib
import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.histories import stream
from tests.histories.stream import Account, Frame, Known
from tests.histories.verdicts import Validity
from tests.process.product import Broker, Unanswered
from tests.rounds import rounds, seed_of_run

pytestmark = pytest.mark.process

VIEW = "overview"
QUEUES = 2
SETTLE_S_MAX = 60.0


def numbers_of(state: Any) -> dict[str, int | None]:
    """Return how far each queue of the topic is."""
    return {
        f"{topic['name']}/{row['queue']}": row["max_offset"]
        for topic in state["shown"]["topics"]
        for row in topic["queues"] or ()
    }


class Run:
    """One broker, who sends to it and who watches; everything that was seen."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.number = 1
        self.frames: list[Frame] = []
        self.answered: list[Known] = []
        self.asked: list[Known] = []
        self.is_over = threading.Event()
        self.is_sent = threading.Event()
        self._seed = seed
        self.resyncs = 0
        self._sent = dict.fromkeys(range(QUEUES), 0)

    def send(self) -> None:
        """Send to one queue after the other until the run is over."""
        while not self.is_sent.is_set():
            for queue in range(QUEUES):
                self._sent[queue] += 1
                name = f"orders/{queue}"
                self.asked.append(Known(at_ns=time.time_ns(), values={name: self._sent[queue]}))
                # What has no answer may have been carried out: it stays among what was asked for.
                with contextlib.suppress(Unanswered):
                    status, answer = self.broker.call(
                        "POST", "/api/v1/topics/orders/messages",
                        {"messages": [{"body": "x", "queue": queue}]},
                    )  # fmt: skip
                    if status == 201:
                        offset = int(answer["results"][0]["offset"])
                        self.answered.append(Known(at_ns=time.time_ns(), values={name: offset + 1}))
            self.is_sent.wait(0.02)

    def watch(self, name: str, *, drops: float = 0.0, naps: float = 0.0) -> None:
        """Watch until the run is over; drop the connection, or stop reading, by chance."""
        chance = random.Random(f"{self._seed} {name}")
        connection = 0
        while not self.is_over.is_set():
            with contextlib.suppress(OSError, WebSocketException, InvalidHandshake, TimeoutError):
                connection += 1
                self._watch(name, connection, chance, drops=drops, naps=naps)
            self.is_over.wait(0.1)

    def _watch(
        self, name: str, connection: int, chance: random.Random, *, drops: float, naps: float
    ) -> None:
        port, number = self.broker.port, self.number
        with connect(
            f"ws://127.0.0.1:{port}/ws/live/?view={VIEW}",
            origin=Origin(f"http://127.0.0.1:{port}"),
            open_timeout=5, close_timeout=1, max_size=None, max_queue=1,
        ) as socket:  # fmt: skip
            while not self.is_over.is_set():
                with contextlib.suppress(TimeoutError):
                    document = json.loads(socket.recv(timeout=0.5))
                    self.frames.append(
                        Frame(
                            viewer=name, connection=connection, run=number, view=VIEW,
                            at_ns=time.time_ns(), document=document,
                        )
                    )  # fmt: skip
                    if chance.random() < drops:
                        return
                    if chance.random() < naps:
                        self.is_over.wait(chance.uniform(2, 4))
                        # As a page does that has missed something.
                        socket.send("resync")
                        self.resyncs += 1

    def glance(self, name: str) -> None:
        """Take one frame as a newcomer, and go."""
        with contextlib.suppress(OSError, WebSocketException, TimeoutError):
            self._watch(name, 1, random.Random(0), drops=1.0, naps=0.0)

    def restart(self) -> None:
        """Kill the broker and start it again on its store."""
        self.broker.kill()
        self.number += 1
        self.broker.start()

    def final(self) -> dict[str, int]:
        """Return how far each queue is, as the door says."""
        found = {}
        for queue in range(QUEUES):
            path = f"/api/v1/topics/orders/queues/{queue}/messages?offset=0&max=1"
            status, answer = self.broker.call("GET", path)
            assert status == 200, answer
            found[f"orders/{queue}"] = int(answer["max_offset"])
        return found


@contextlib.contextmanager
def running(run: Run) -> Iterator[threading.Thread]:
    """Have all of them at work for the time of the block; give the one who sends."""
    sender = threading.Thread(target=run.send)
    viewers = [
        threading.Thread(target=run.watch, args=(name,), kwargs=habits)
        for name, habits in {
            "steady": {}, "steady too": {}, "dropping": {"drops": 0.3}, "sleepy": {"naps": 0.3},
        }.items()
    ]  # fmt: skip
    for thread in (sender, *viewers):
        thread.start()
    try:
        yield sender
    finally:
        run.is_sent.set()
        run.is_over.set()
        for thread in (sender, *viewers):
            thread.join(SETTLE_S_MAX)
            assert not thread.is_alive()


def judged(run: Run, final: dict[str, int]) -> stream.Verdict:
    account = Account(frames=run.frames, answered=run.answered, asked=run.asked, final=final)
    return stream.check(account, numbers_of)


@pytest.mark.parametrize("kills", [1, pytest.param(rounds(6), marks=pytest.mark.crash)])
def test_views_are_whole_and_true_over_drops_and_restarts(tmp_path: Path, kills: int) -> None:
    seed = seed_of_run()
    print(f"MQWEB_TEST_SEED={seed}")
    broker = Broker(tmp_path / "data")
    broker.prepare(orders=QUEUES)
    broker.start()
    run = Run(broker, seed)
    try:
        with running(run) as sender:
            for _ in range(kills):
                run.is_over.wait(8)
                run.restart()
            run.is_over.wait(8)
            run.is_sent.set()
            sender.join(SETTLE_S_MAX)
            final = run.final()
            _wait_until_shown(run, final)
        assert run.answered
        verdict = judged(run, final)
        print(verdict)
        assert verdict.validity is Validity.VALID, str(verdict)
        counts = verdict.counts
        # The faults have happened: viewers came back, asked for all of it, and brokers died.
        connections = len({(frame.viewer, frame.connection) for frame in run.frames})
        assert connections > 4 + kills
        assert run.resyncs > 0
        assert counts["wholes"] > connections
        assert len({frame.run for frame in run.frames}) == kills + 1
        assert counts["deltas"] > 20
        assert counts["compared"] > 10
    finally:
        broker.kill()


def _wait_until_shown(run: Run, final: dict[str, int]) -> None:
    """Wait until newcomers see the last numbers, and then until whoever naps has looked again."""
    deadline = time.monotonic() + SETTLE_S_MAX
    newcomer = 0
    while not any(
        frame.viewer.startswith("newcomer")
        and frame.document["kind"] == "whole"
        and frame.document["state"]["shown"] is not None
        and numbers_of(frame.document["state"]) == final
        for frame in list(run.frames)
    ):
        assert time.monotonic() < deadline, "the last numbers are never shown"
        newcomer += 1
        run.glance(f"newcomer {newcomer}")
        run.is_over.wait(0.5)
    # Those that are not up to date are no finding of this run; only their last look counts.
    run.frames = [one for one in run.frames if not one.viewer.startswith("newcomer")]
    run.is_over.wait(10)
