"""The product killed under load: acknowledged messages stay, acknowledged deliveries stay away."""

import random
from pathlib import Path

import pytest

from apps.bridge.exits import Exit
from tests.process.inspection import inspect
from tests.process.load import GROUP, QUEUES, TOPIC, Load, judge, lost, stored
from tests.process.product import Broker
from tests.rounds import report, rounds, seed_of_run

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
    repeated = sum(history.delivered.values()) - len(history.delivered)
    report(
        "S3 power cut" if broker.is_volatile else "P1 kill",
        kills=kills,
        seed=seed,
        acked=len(history.acked),
        acked_lost=len(lost(history, found)),
        duplicates=repeated,
        after_acknowledgement=len(history.came_back),
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
    kill_and_judge(Broker(tmp_path), kills=2, seed=seed_of_run())


def test_a_power_cut_under_load_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kill_and_judge(Broker(tmp_path, *VOLATILE), kills=2, seed=seed_of_run())


def test_answering_before_the_sync_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQWEB_TEST_ACK", "early")
    broker = Broker(tmp_path, *VOLATILE)

    load = killed_under_load(broker, kills=3, seed=seed_of_run())
    missing = lost(load.history, stored(broker))
    broker.stop()

    assert missing, "a broker that answers too early went unnoticed"


def lost_by_a_lying_disk(broker: Broker, seed: int) -> int | None:
    """Cut the power of a disk that lies about its syncs; return how many acknowledged are lost.

    None where the store itself saw that something is missing, and refuses to open.
    """
    broker.prepare(**{TOPIC: QUEUES})
    broker.start(MQWEB_TEST_SYNC="lies")
    load = Load(broker)
    load.start()
    try:
        load.wait_for_acks(random.Random(seed).randrange(50, 600))
    finally:
        load.stop()
    broker.kill()
    broker.launch()
    if (code := broker.settled()) is not None:
        assert code == Exit.UNOPENABLE
        return None
    missing = lost(load.history, stored(broker))
    assert broker.stop() == 0
    return len(missing)


def test_a_disk_that_lies_about_its_syncs_is_noticed(tmp_path: Path) -> None:
    """Row S10: the negative control of the power cuts above."""
    seed = seed_of_run()
    print(f"seed {seed}")

    assert lost_by_a_lying_disk(Broker(tmp_path, *VOLATILE), seed) != 0


@pytest.mark.longest
@pytest.mark.crash
def test_a_disk_that_lies_about_its_syncs_is_noticed_every_time(tmp_path: Path) -> None:
    seed, runs = seed_of_run(), rounds(3)
    print(f"seed {seed}")

    missing = [
        lost_by_a_lying_disk(Broker(tmp_path / str(number), *VOLATILE), seed + number)
        for number in range(runs)
    ]

    assert 0 not in missing
    refused = missing.count(None)
    acked_lost = sum(filter(None, missing))
    report("S10", runs=runs, seed=seed, noticed=runs, refused=refused, acked_lost=acked_lost)


@pytest.mark.longest
@pytest.mark.crash
@pytest.mark.parametrize("command", [(), VOLATILE], ids=["kill", "power cut"])
def test_many_kills(tmp_path: Path, command: tuple[str, ...]) -> None:
    kill_and_judge(Broker(tmp_path, *command), kills=rounds(8), seed=seed_of_run())
