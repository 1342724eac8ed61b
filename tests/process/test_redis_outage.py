"""Redis killed, paused and flushed under load: the data plane is untouched, pages stay live.

Redis carries the console's frames between processes when REDIS_URL is set. It promises nothing
about a frame, so what viewers see in the end must not depend on any frame having arrived.
"""

import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.process.load import GROUP, QUEUES, TOPIC, Load, judge, stored
from tests.process.product import Broker, free_port
from tests.process.redis_server import RedisServer
from tests.process.viewer import Viewer
from tests.rounds import rounds, seed_of_run

pytestmark = pytest.mark.process

# What the road through Redis is called there; the test knows that it is really used.
MEMBERS = "ZCARD asgi:group:overview"
SENDS_IN_AN_OUTAGE = 1_000
# Longer than the patience of the parts that talk to Redis, so that each has given up once.
OUTAGE_S = 4.0
LONG_OUTAGE_S = 8.0
# A call that waited for Redis would take as long as the outage, or as a time-out of seconds.
CALL_S_MAX = 2.0
# They come every second, and none would where the page waited for Redis.
PICTURES_MIN = 2
# 5 s on an idle machine; a machine under load is slower, and only a hang must fail.
RESYNC_S_MAX = 60.0


class TimedBroker(Broker):
    """A broker that knows how long each of its clients' calls took."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self._lock = threading.Lock()
        self._ended: list[tuple[float, float]] = []

    def call(self, verb: str, path: str, body: object = None) -> tuple[int, Any]:
        began = time.monotonic()
        try:
            return super().call(verb, path, body)
        finally:
            ended = time.monotonic()
            with self._lock:
                self._ended.append((ended, ended - began))

    def durations_s(self, since: float) -> list[float]:
        """Return how long the calls took that ended since a moment of the monotonic clock."""
        with self._lock:
            return [duration for ended, duration in self._ended if ended >= since]


@dataclass(slots=True)
class Scene:
    """A product under load, its Redis, and a viewer who came before the fault."""

    broker: TimedBroker
    redis: RedisServer
    load: Load
    viewer: Viewer
    faults: list[str] = field(default_factory=list)

    def run(self, fault: "Fault", *, lasts_s: float = OUTAGE_S) -> None:
        """Go through one fault, and see that nobody but Redis is the worse for it."""
        since = time.monotonic()
        fault.begin(self)
        self.load.wait_for_acks(SENDS_IN_AN_OUTAGE)
        with Viewer(self.broker.port) as latecomer:
            assert latecomer.picture["history"]
        while time.monotonic() < since + lasts_s:
            self.load.wait_for_acks(50)
        fault.end(self)
        is_back = time.monotonic()
        wait_until(self.is_road_open, within_s=RESYNC_S_MAX)
        shown = self.viewer.picture["version"]
        self.viewer.wait_for(
            lambda picture: picture["version"] > shown,
            within_s=RESYNC_S_MAX - (time.monotonic() - is_back),
        )

        durations = sorted(self.broker.durations_s(since))
        silence_s = self.viewer.longest_silence_s(since)
        print(
            f"{fault.name}: {len(durations)} calls, median {durations[len(durations) // 2]:.4f} s,"
            f" longest {durations[-1]:.3f} s; longest silence of the page {silence_s:.2f} s"
        )
        self.faults.append(fault.name)
        # If anything waited for Redis, every call of the outage would: a single slow one is the
        # machine's affair, as is how long a page was silent. That pictures came is not.
        assert durations[len(durations) * 99 // 100] < CALL_S_MAX
        assert self.viewer.count_since(since) >= PICTURES_MIN
        assert self.viewer.is_open

    def is_road_open(self) -> bool:
        """Say whether Redis knows where to hand the console's frames."""
        try:
            return self.redis.ask(MEMBERS) not in ("", ":0")
        except OSError:
            return False

    def settle(self) -> None:
        """End the load, and see that viewer, metrics and log tell the same story."""
        self.load.stop()
        assert self.load.history.unanswered == 0
        found = stored(self.broker)
        judge(self.load.history, found)

        ends = [sum(1 for place in found if place[0] == queue) for queue in range(QUEUES)]
        committed = self.committed()
        picture = self.viewer.wait_for(
            lambda picture: ends_of(picture) == ends and committed_of(picture) == committed,
            within_s=RESYNC_S_MAX,
        )
        _, page = self.broker.call("GET", f"/topics/{TOPIC}/")
        held = re.search(rb'data-value="held"[^>]*title="([^"]*)"', page)
        assert held is not None
        assert int(re.sub(rb"\D", b"", held[1])) == topic_of(picture)["held"] == len(found)
        versions = self.viewer.versions
        assert versions == sorted(set(versions)), "a picture came twice, or after a newer one"

    def committed(self) -> int:
        """Return what the group has settled, by the broker's metrics."""
        _, answer = self.broker.call("GET", "/metrics")
        lags = [
            float(line.rpartition(" ")[2])
            for line in answer.decode().splitlines()
            if line.startswith("rocketmq_consumer_lag_messages{") and f'"{GROUP}"' in line
        ]
        assert lags
        return len(stored(self.broker)) - int(sum(lags))


def topic_of(picture: dict[str, Any]) -> dict[str, Any]:
    return next(row for row in picture["topics"] if row["name"] == TOPIC)


def ends_of(picture: dict[str, Any]) -> list[int]:
    return [queue["max_offset"] for queue in topic_of(picture)["queues"]]


def committed_of(picture: dict[str, Any]) -> int:
    return sum(row["committed"] for row in picture["groups"] if row["name"] == GROUP)


def wait_until(condition: Callable[[], bool], *, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to Redis, and how it ends."""

    name: str
    begin: Callable[[Scene], None]
    end: Callable[[Scene], None]


def flush(scene: Scene) -> None:
    assert scene.is_road_open()
    assert scene.redis.flush() > 0, "there was nothing to flush"


KILLED = Fault("killed", lambda scene: scene.redis.kill(), lambda scene: scene.redis.start())
PAUSED = Fault("paused", lambda scene: scene.redis.pause(), lambda scene: scene.redis.resume())
FLUSHED = Fault("flushed", flush, lambda scene: None)


@contextmanager
def scene_of(tmp_path: Path) -> Iterator[Scene]:
    redis = RedisServer(tmp_path / "redis", free_port())
    redis.start()
    broker = TimedBroker(tmp_path / "data")
    broker.prepare(**{TOPIC: QUEUES})
    try:
        broker.start(REDIS_URL=redis.url)
        load = Load(broker)
        with Viewer(broker.port) as viewer:
            scene = Scene(broker, redis, load, viewer)
            wait_until(scene.is_road_open, within_s=RESYNC_S_MAX)
            load.start()
            try:
                load.wait_for_acks(SENDS_IN_AN_OUTAGE)
                yield scene
            finally:
                load.stop()
        assert broker.stop() == 0
    finally:
        broker.stop()
        redis.stop()


def test_outages_of_redis_touch_neither_the_data_plane_nor_the_page(tmp_path: Path) -> None:
    with scene_of(tmp_path) as scene:
        for fault in (KILLED, PAUSED, FLUSHED):
            scene.run(fault)
        scene.settle()
        assert scene.faults == ["killed", "paused", "flushed"]


def test_a_broker_stops_in_order_while_redis_is_paused(tmp_path: Path) -> None:
    with scene_of(tmp_path) as scene:
        scene.redis.pause()
        scene.load.wait_for_acks(SENDS_IN_AN_OUTAGE)
        scene.load.stop()

        began = time.monotonic()
        code = scene.broker.stop()

        assert code == 0
        # Without a limit it would wait for Redis, which is not resumed.
        print(f"stopped after {time.monotonic() - began:.2f} s")


@pytest.mark.longest
@pytest.mark.crash
def test_many_outages_of_redis(tmp_path: Path) -> None:
    seed = seed_of_run()
    print(f"seed {seed}")
    faults = random.Random(seed).choices([KILLED, PAUSED, FLUSHED], k=rounds(6))
    with scene_of(tmp_path) as scene:
        for fault in faults:
            scene.run(fault, lasts_s=LONG_OUTAGE_S)
        scene.settle()
        assert scene.faults == [fault.name for fault in faults]
