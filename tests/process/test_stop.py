"""A broker asked to stop under load: it drains, syncs and leaves nothing to scan.

Row P12 of the fault table.
"""

import time
from pathlib import Path

import pytest

from tests.process.inspection import inspect
from tests.process.load import QUEUES, TOPIC, Load, judge, stored
from tests.process.product import Broker
from tests.rounds import report, rounds

pytestmark = pytest.mark.process


def stopped_under_load(broker: Broker, *, stops: int) -> tuple[float, float]:
    """Stop and start so often while there is load; return the longest of both, in seconds."""
    broker.prepare(**{TOPIC: QUEUES})
    broker.start()
    load = Load(broker)
    load.start()
    longest_stop_s = longest_start_s = 0.0
    try:
        for _ in range(stops):
            load.wait_for_acks(200)
            began_s = time.monotonic()
            assert broker.stop() == 0
            stopped_s = time.monotonic()
            broker.start()
            longest_stop_s = max(longest_stop_s, stopped_s - began_s)
            longest_start_s = max(longest_start_s, time.monotonic() - stopped_s)
        load.wait_for_acks(50)
    finally:
        load.stop()
    judge(load.history, stored(broker))
    assert broker.stop() == 0
    assert inspect(broker.data / "store").faults == []
    for opening in broker.openings():
        assert (opening["clean"], opening["scanned_bytes"], opening["cut_bytes"]) == (True, 0, 0)
    assert len(broker.openings()) == stops + 1
    print(f"{stops} stops, the longest {longest_stop_s:.2f} s; start {longest_start_s:.2f} s")
    return longest_stop_s, longest_start_s


def test_a_stop_under_load_leaves_nothing_to_scan(tmp_path: Path) -> None:
    stopped_under_load(Broker(tmp_path), stops=2)


@pytest.mark.longest
@pytest.mark.crash
def test_many_stops_under_load(tmp_path: Path) -> None:
    stops = rounds(6)

    stop_s, start_s = stopped_under_load(Broker(tmp_path), stops=stops)

    report("P12", stops=stops, stop_s_max=f"{stop_s:.2f}", start_s_max=f"{start_s:.2f}", scanned=0)
