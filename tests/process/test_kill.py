"""The product killed under load: acknowledged messages stay, acknowledged deliveries stay away."""

import random
from pathlib import Path

import pytest

from tests.process.inspection import inspect
from tests.process.load import GROUP, QUEUES, TOPIC, Load, judge, lost, stored
from tests.process.product import Broker

pytestmark = pytest.mark.process
VOLATILE = ("tests/process/volatile_broker.py",)


def killed_under_load(broker: Broker, *, kills: int, seed: int) -> Load:
    """Run load over so many kills, each after a random number of acknowledged sends."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    broker.prepare(**{TOPIC: QUEUES})
    broker.start()
    load = Load(broker)
    load.start()
    try:
        for _ in range(kills):
            load.wait_for_acks(rng.randrange(50, 600))
            broker.kill()
            broker.start()
        load.wait_for_acks(50)
    finally:
        load.stop()
    return load


def drained(broker: Broker, load: Load) -> None:
    """Consume until every message of the topic is settled."""
    for _ in range(10_000):
        if load.consume_once(wait_ms=0):
            continue
        _, answer = broker.call("GET", "/metrics")
        lag = [line for line in answer.decode().splitlines() if _is_lag(line)]
        if all(line.endswith((" 0", " 0.0")) for line in lag):
            return
        load.consume_once(wait_ms=200)
    pytest.fail("the topic was never drained")


def _is_lag(line: str) -> bool:
    return line.startswith("rocketmq_consumer_lag_messages{") and f'"{GROUP}"' in line


def kill_and_judge(broker: Broker, *, kills: int, seed: int) -> None:
    load = killed_under_load(broker, kills=kills, seed=seed)
    found = stored(broker)
    drained(broker, load)
    code = broker.stop()
    inspection = inspect(broker.data / "store")

    history = load.history
    print(
        f"{kills} kills, {len(history.acked)} acked, {len(found)} stored, "
        f"{history.unanswered} sends unanswered, {sum(history.delivered.values())} deliveries"
    )
    judge(history, found)
    assert history.unanswered > 0, "no kill hit a request"
    assert set(found.values()) <= set(history.delivered)
    assert code == 0
    # The log and its queues, read by somebody else, are what the broker served.
    assert inspection.faults == []
    on_disk = {
        (queue, str(record.queue_offset)): record.body.decode().rstrip(".")
        for (topic, queue), records in inspection.records.items()
        if topic == TOPIC
        for record in records
    }
    assert on_disk == found


def test_kill_9_under_load_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kill_and_judge(Broker(tmp_path), kills=3, seed=random.randrange(1 << 32))


def test_a_power_cut_under_load_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kill_and_judge(Broker(tmp_path, *VOLATILE), kills=3, seed=random.randrange(1 << 32))


def test_answering_before_the_sync_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQWEB_TEST_ACK", "early")
    broker = Broker(tmp_path, *VOLATILE)

    load = killed_under_load(broker, kills=3, seed=random.randrange(1 << 32))
    missing = lost(load.history, stored(broker))
    broker.stop()

    assert missing, "a broker that answers too early went unnoticed"


@pytest.mark.crash
@pytest.mark.parametrize("command", [(), VOLATILE], ids=["kill", "power cut"])
def test_many_kills(tmp_path: Path, command: tuple[str, ...]) -> None:
    kill_and_judge(Broker(tmp_path, *command), kills=60, seed=random.randrange(1 << 32))
