"""A real broker on real files whose log loses its front: filled, cleaned, started again, killed."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apps.engine.config import EngineConfig
from apps.engine.limits import MIB
from apps.engine.local import LocalEngine
from apps.engine.types import CatalogSnapshot, TopicSpec
from tests.process.product import NO_DATABASE, ROOT, START_S_MAX, Broker, Unanswered

pytestmark = pytest.mark.process

SEGMENT_BYTES = 32 * MIB
BODY_CHARACTERS = 1_000_000
# Ten in a request, and 33 in a segment.
REQUESTS, MESSAGES = 8, 10
VARIABLES = {"MQWEB_RETENTION": "1s", "MQWEB_RETENTION_FORCE_PERCENT": "100"}


async def _prepare(store: Path) -> None:
    engine = await LocalEngine.open(
        store, EngineConfig(segment_bytes=SEGMENT_BYTES, reserve_bytes=0)
    )
    topics = {"t": TopicSpec(name="t", queue_count=1)}
    engine.publish_catalog(CatalogSnapshot(version=1, topics=topics))
    await engine.close()


def filled(data: Path, **variables: str) -> Broker:
    """Return a running broker whose log has two segments and a half, all of it older than 1 s."""
    data.mkdir(parents=True, exist_ok=True)
    asyncio.run(_prepare(data / "store"))
    broker = Broker(data)
    broker.start(**VARIABLES, **variables)
    for request in range(REQUESTS):
        fill = "x" * BODY_CHARACTERS
        messages = [
            {"body": f"{request * MESSAGES + number} {fill}", "queue": 0}
            for number in range(MESSAGES)
        ]
        status, _ = broker.call("POST", "/api/v1/topics/t/messages", {"messages": messages})
        assert status == 201
    return broker


def clean(broker: Broker) -> subprocess.CompletedProcess[str]:
    """Run `manage.py cleanstore` beside a broker."""
    environment = {
        **os.environ,
        "MQWEB_DATA": str(broker.data),
        "MQWEB_PORT": str(broker.port),
        "DATABASE_URL": NO_DATABASE,
        "DJANGO_SETTINGS_MODULE": "tests.process.settings_away",
    }
    return subprocess.run(
        [sys.executable, "manage.py", "cleanstore"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=START_S_MAX,
        check=False,
    )


def first_offset(broker: Broker) -> int:
    """Pull from the very first offset, and prove what is there from the answered one on."""
    path = "/api/v1/topics/t/queues/0/messages?max=1000&max_bytes=16000000&offset="
    _, answer = broker.call("GET", f"{path}0")
    first = 0
    if answer["status"] == "OFFSET_ILLEGAL":
        first = int(answer["next_offset"])
        assert answer["min_offset"] == str(first)
    at = first
    while at < REQUESTS * MESSAGES:
        _, answer = broker.call("GET", f"{path}{at}")
        assert answer["status"] == "FOUND"
        for message in answer["messages"]:
            assert message["body"].split(" ")[0] == message["offset"] == str(at)
            at += 1
    return first


def segments(broker: Broker) -> list[int]:
    """Return where the segments on the disk begin."""
    return sorted(int(path.name) for path in (broker.data / "store" / "commitlog").glob("0*"))


def until_cleaned(broker: Broker) -> None:
    """Clean until the log is one segment, and what is allocated ahead."""
    for _ in range(100):
        done = clean(broker)
        assert done.returncode == 0, done.stderr
        if segments(broker)[0] > 0:
            return
    pytest.fail("nothing was deleted")


def test_what_was_deleted_stays_away_over_a_stop_and_a_kill(tmp_path: Path) -> None:
    broker = filled(tmp_path / "data")
    try:
        assert first_offset(broker) == 0

        until_cleaned(broker)
        first, left = first_offset(broker), segments(broker)
        broker.stop()
        broker.start(**VARIABLES)
        after_stop = first_offset(broker)
        broker.kill()
        broker.start(**VARIABLES)

        assert first > 0
        assert left[0] > 0
        assert (after_stop, first_offset(broker)) == (first, first)
    finally:
        broker.stop()


# Every other step is stopped at in the sweeps, on a disk that can also lose its cache.
@pytest.mark.parametrize("point", ["retention.after_start", "retention.after_unlink"])
def test_a_broker_killed_in_the_middle_is_followed_by_one_that_finishes(
    point: str, tmp_path: Path
) -> None:
    broker = filled(tmp_path / "data", MQWEB_FAILPOINTS=f"{point}=kill(1)")
    try:
        for _ in range(100):
            done = clean(broker)
            if done.returncode:
                break
        assert "was not cleaned" in done.stderr
        with pytest.raises(Unanswered):
            broker.call("GET", "/healthz")
        assert broker.ended() == -signal.SIGKILL

        broker.start(**VARIABLES)
        between = first_offset(broker)
        until_cleaned(broker)

        assert first_offset(broker) >= max(between, 1)
        assert (
            broker.call("POST", "/api/v1/topics/t/messages", {"messages": [{"body": "on"}]})[0]
            == 201
        )
    finally:
        broker.stop()
