"""Viewers that do not read, over real TCP: they miss pictures, nobody else does, and nothing grows.

Nothing here waits for a time: pictures that a viewer who reads has got are the clock.
"""

import contextlib
import itertools
import json
import statistics
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.product import Broker
from tests.process.silent_viewer import SilentViewer
from tests.process.viewer import ARRIVE_S_MAX, Viewer
from tests.web.console.live import Held

pytestmark = pytest.mark.process

TOPICS, QUEUES = 150, 6
# So few that what changes is less than all there is, and is sent alone.
CHANGING = 10
SLOW = 25
# Pictures that nobody of them reads.
MISSED = 5
RESYNC = "resync"
PATIENT = ("tests/process/patient_broker.py",)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    found = Broker(tmp_path / "data", *PATIENT)
    # Long names make long frames, which fill what a kernel keeps for a socket.
    found.prepare(**{f"topic-{number:03}-{'x' * 100}": QUEUES for number in range(TOPICS)})
    found.start()
    yield found
    found.kill()


@contextlib.contextmanager
def sending(broker: Broker) -> Iterator[None]:
    """Have figures change for the time of the block."""
    is_over = threading.Event()

    def send() -> None:
        number = 0
        while not is_over.is_set():
            topic = f"topic-{number % CHANGING:03}-{'x' * 100}"
            document = {"messages": [{"body": "x"}], "ack": "async"}
            broker.call("POST", f"/api/v1/topics/{topic}/messages", document)
            number += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        is_over.set()
        sender.join(ARRIVE_S_MAX)
        assert not sender.is_alive()


def heap_bytes(broker: Broker) -> int:
    """Return the memory that is the process's own, without files that it has mapped."""
    lines = Path(f"/proc/{broker.pid}/smaps_rollup").read_text().splitlines()
    (found,) = [line for line in lines if line.startswith("Anonymous:")]
    return int(found.split()[1]) * 1024


def next_version(steady: Viewer, after: int) -> int:
    """Return the version of the next picture, when a viewer who reads has got it."""
    picture = steady.wait_for(lambda one: one["version"] > after, within_s=ARRIVE_S_MAX)
    return int(picture["version"])


def growth_a_picture(broker: Broker, steady: Viewer, pictures: int) -> float:
    """Return by how much the server's heap grows from picture to picture, as the median of these.

    What is put aside for viewers grows with every picture. A checkpoint or a block of the
    allocator's is as large, but comes with one of them.
    """
    sizes, version = [heap_bytes(broker)], steady.picture["version"]
    last = version + pictures
    while version < last:
        version = next_version(steady, version)
        sizes.append(heap_bytes(broker))
    return statistics.median(after - before for before, after in itertools.pairwise(sizes))


def wait_until_stuck(slow: list[SilentViewer], steady: Viewer) -> int:
    """Return the version from which on the server's kernel takes no more for any of them."""
    version, waiting = next_version(steady, steady.picture["version"]), [0]
    while True:
        found = [viewer.waiting_bytes() for viewer in slow]
        if found == waiting and all(found):
            return version
        waiting, version = found, next_version(steady, version)


def test_who_does_not_read_is_given_the_newest_and_nothing_between(broker: Broker) -> None:
    with (
        sending(broker),
        Viewer(broker.port) as steady,
        contextlib.ExitStack() as opened,
    ):
        # At first every row changes, and all of a view is less to send than what has.
        steady.wait_for(lambda one: one["kind"] == "delta", within_s=ARRIVE_S_MAX)
        without_bytes = growth_a_picture(broker, steady, MISSED)
        slow = [
            opened.enter_context(SilentViewer(broker.port, "overview", is_narrow=True))
            for _ in range(SLOW)
        ]
        # Twice all of a view is more than kernel and server put aside for a socket.
        for viewer in slow:
            viewer.say(RESYNC)
        stuck_at = wait_until_stuck(slow, steady)
        grown_bytes = growth_a_picture(broker, steady, MISSED)
        version = steady.picture["version"]
        waiting_bytes = sum(viewer.waiting_bytes() for viewer in slow)

        # Everybody else had each picture.
        versions = steady.versions
        assert versions == list(range(versions[0], versions[0] + len(versions)))

        # What comes first is from before; then all of the newest, and it goes on from there.
        sizes, whole_bytes = [], 0
        for viewer in slow[:3]:
            viewer.widen()
            held, jumps, seen = Held(), 0, []
            while not seen or seen[-1] < version:
                frame = viewer.frame()
                whole_bytes = max(whole_bytes, len(json.dumps(frame)))
                if frame["kind"] == "whole" and seen and frame["version"] > seen[-1] + 1:
                    jumps += 1
                held.take(frame)
                seen.append(frame["version"])
            assert jumps >= 1
            between = [one for one in seen if stuck_at < one < version]
            sizes.append(len(between))
            assert len(between) <= 1, between
            after = viewer.frame()
            assert after["kind"] == "delta" or after["version"] > seen[-1] + 1
            held.take(after)

    print(
        f"{SLOW} viewers stuck with {waiting_bytes // SLOW // 1024} KiB each in the kernel; with"
        f" each of {MISSED} pictures of {whole_bytes // 1024} KiB the server's heap grew by"
        f" {grown_bytes / 1024:.0f} KiB, and by {without_bytes / 1024:.0f} KiB before they came;"
        f" pictures between: {sizes}"
    )
    # By load alone it grows as well; beyond that, over all less than one picture for each.
    assert MISSED * (grown_bytes - max(0.0, without_bytes)) < SLOW * whole_bytes


def test_a_version_that_was_missed_and_a_new_connection_are_given_all_of_it(
    broker: Broker,
) -> None:
    with sending(broker), Viewer(broker.port) as steady:
        steady.wait_for(lambda one: one["kind"] == "delta", within_s=ARRIVE_S_MAX)
        with SilentViewer(broker.port, "overview") as viewer:
            first = viewer.frame()
            viewer.frame()
            # As a page does that lost the frame before.
            viewer.say(RESYNC)
            found = viewer.frame()
            while found["kind"] != "whole":
                found = viewer.frame()
            next_version(steady, steady.picture["version"])
            after = viewer.frame()

        with SilentViewer(broker.port, "overview") as again:
            anew = again.frame()

    assert (first["kind"], found["kind"], anew["kind"]) == ("whole", "whole", "whole")
    assert after["kind"] == "delta"
    assert after["version"] == found["version"] + 1
    assert anew["version"] >= after["version"]
    assert anew["state"]["shown"]["totals"]["topic_count"] == TOPICS
