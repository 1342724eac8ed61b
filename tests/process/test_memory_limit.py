"""A broker that the kernel kills because its control group has no memory left.

Row P10 of the fault table. Like a kill, but at the moment when most is under way: large batches in
memory, and pages of the log that are still dirty. Kills of `test_kill.py` stand for it elsewhere.
"""

import random
import signal
from pathlib import Path

import pytest

from tests.process.boxes import memory_limit
from tests.process.load import QUEUES, TOPIC, Load, judge, stored
from tests.process.product import Broker
from tests.process.test_kill import drained
from tests.rounds import report, rounds, seed_of_run

pytestmark = [pytest.mark.process, pytest.mark.crash]
MIB = 1024 * 1024


def test_a_broker_killed_for_want_of_memory_leaves_whole_batches(tmp_path: Path) -> None:
    seed, kills = seed_of_run(), rounds(3)
    print(f"seed {seed}")
    rng = random.Random(seed)
    broker = Broker(tmp_path)
    broker.prepare(**{TOPIC: QUEUES})
    broker.start()
    # Half a megabyte a batch, so that a group of them is more than what is left.
    load = Load(broker, producers=6, padding=50_000)
    load.start()
    try:
        for _ in range(kills):
            load.wait_for_acks(rng.randrange(20, 100))
            with memory_limit(rng.randrange(1, 5) * MIB) as box:
                box.take(broker.pid)
                assert broker.ended() == -signal.SIGKILL
                assert box.kills > 0
            broker.start()
        load.wait_for_acks(50)
    finally:
        load.stop()
    found = stored(broker)
    drained(broker, load)
    assert broker.stop() == 0

    assert load.history.unanswered > 0, "no kill hit a request"
    judge(load.history, found)
    report("P10 broker", kills=kills, seed=seed, acked=len(load.history.acked), acked_lost=0)
