"""A full disk: sends are refused, everything else goes on, and room is noticed. Real disks."""

import resource
from pathlib import Path

import pytest

from tests.process.limited import BODY_BYTES, MIB, TICKS, TOPIC, Limited, tiny_disk, until
from tests.process.product import SEGMENT_BYTES

pytestmark = pytest.mark.process
SETTINGS = {"MQWEB_RESERVE_BYTES": str(8 * MIB)}


def judge_full(broker: Limited, taken: list[str]) -> None:
    """Check what must go on while sends are refused."""
    refused = broker.send("x" * BODY_BYTES)
    assert (refused[0], refused[1]["code"], refused[1]["retriable"]) == (507, "store_full", True)
    assert broker.room() == "full"
    metrics = broker.call("GET", "/metrics")[1].decode().splitlines()
    assert "mqweb_store_full 1" in metrics
    # Reads, acknowledgements, offsets and the clockwork's own lane.
    (name, handle), *_ = broker.receive()
    assert name == taken[0]
    broker.ack(handle)
    path = f"/api/v1/topics/{TOPIC}/queues/0/messages?offset=1&max=1"
    status, answer = broker.call("GET", path)
    assert (status, answer["messages"][0]["body"][:6]) == (200, taken[1])
    commit = {"offsets": [{"topic": TOPIC, "queue": 0, "offset": "2"}], "client_id": "c"}
    assert broker.call("POST", "/api/v1/groups/other/offsets:commit", commit)[0] == 204
    assert broker.send("tick", TICKS)[0] == 201


def judge_after(broker: Limited, taken: list[str]) -> None:
    """Check that it recovered by itself, said so once, and has lost nothing."""
    resumed_s = until(lambda: broker.room() != "full")
    print(f"{len(taken)} messages of 3 MiB, sends again after {resumed_s:.1f} s")
    assert broker.send("after.")[0] == 201
    assert [one["event"] for one in broker.events("disk_full", "disk_has_room")] == [
        "disk_full",
        "disk_has_room",
    ]
    assert broker.drain() == [*taken[1:], "after."]


@pytest.mark.crash
def test_a_full_disk_refuses_sends_alone_and_takes_them_when_there_is_room(tmp_path: Path) -> None:
    try:
        with tiny_disk(tmp_path / "data", 100) as resize:
            broker = Limited(tmp_path / "data")
            broker.prepare(**{TOPIC: 1, TICKS: 1})
            broker.start(**SETTINGS)
            taken = broker.fill()
            assert len(taken) > 12
            judge_full(broker, taken)
            resize(400)
            judge_after(broker, taken)
            assert broker.stop() == 0
    except PermissionError as error:
        pytest.skip(str(error))


@pytest.mark.crash
def test_what_others_write_stops_sends_and_their_deletion_lets_them_go_on(tmp_path: Path) -> None:
    try:
        with tiny_disk(tmp_path / "data", 200):
            broker = Limited(tmp_path / "data")
            broker.prepare(**{TOPIC: 1, TICKS: 1})
            # Tests have no such limit else: how full their disk is, is nobody's business.
            broker.start(**SETTINGS, MQWEB_DISK_PERCENT_MAX="90")
            taken = ["000000", "000001", "000002"]
            for name in taken:
                assert broker.send(name)[0] == 201
            foreign = tmp_path / "data" / "foreign"
            foreign.write_bytes(bytes(125 * MIB))
            until(lambda: broker.room() == "full")
            judge_full(broker, taken)
            assert "% of the disk are used" in broker.send("x")[1]["detail"]
            foreign.unlink()
            judge_after(broker, taken)
            assert broker.stop() == 0
    except PermissionError as error:
        pytest.skip(str(error))


@pytest.mark.crash
def test_a_broker_killed_while_its_disk_is_full_starts_again_and_serves(tmp_path: Path) -> None:
    try:
        with tiny_disk(tmp_path / "data", 100):
            broker = Limited(tmp_path / "data")
            broker.prepare(**{TOPIC: 1, TICKS: 1})
            broker.start(**SETTINGS)
            taken = broker.fill()
            judge_full(broker, taken)
            broker.kill()
            broker.start(**SETTINGS)
            assert broker.send("x" * BODY_BYTES)[0] == 507
            assert broker.drain() == taken[1:]
            assert broker.stop() == 0
    except PermissionError as error:
        pytest.skip(str(error))


def test_a_limit_of_file_sizes_is_a_full_disk_as_well(tmp_path: Path) -> None:
    broker = Limited(tmp_path / "data")
    broker.prepare(**{TOPIC: 1, TICKS: 1})
    broker.start(**SETTINGS)
    # The segment that is there may be written to its end; no other can be made.
    broker.limit(resource.RLIMIT_FSIZE, SEGMENT_BYTES - 1)

    taken = broker.fill()

    assert len(taken) > 12
    judge_full(broker, taken)
    (event,) = broker.events("disk_full")
    assert "File too large" in event["reason"]
    broker.limit(resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)
    judge_after(broker, taken)
    assert broker.stop() == 0
