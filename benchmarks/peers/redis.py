"""Redis Streams with redis-py: pipelines of XADD, XREADGROUP and XACK.

Batches are measured with the C parser hiredis, which is an extra package, and without it; all else
with it. Better than usual on purpose: the append-only file is never rewritten.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.pacing import ticks
from benchmarks.peers import installed
from benchmarks.servers import HOST, Server, free_port
from benchmarks.sides import PATIENCE_S, Durability, Pace, Terms, Variant

_PIPELINE = 1000
_FETCH = 1000
_GROUP = "g"
_FIELD = b"b"
_FSYNC = {Durability.ASYNC: "everysec", Durability.SYNC: "always"}
_TERMS = {
    Durability.ASYNC: "AOF everysec: answered when written, fsync each second",
    Durability.SYNC: "AOF always: answered after fsync",
}


@dataclass(frozen=True, slots=True)
class RedisClient:
    """One connection."""

    port: int
    is_pure_python: bool = False

    def create(self, topic: str) -> None:
        """Make an empty stream with a group at its start."""
        redis = self._connect()
        redis.delete(topic)
        redis.xgroup_create(topic, _GROUP, "0", mkstream=True)

    def produce(self, topic: str, bodies: Sequence[bytes]) -> float:
        """XADD in pipelines of 1,000."""
        return self.produce_batches(topic, bodies, _PIPELINE)

    def produce_batches(self, topic: str, bodies: Sequence[bytes], batch: int) -> float:
        """XADD in pipelines of a size."""
        redis = self._connect()
        started = time.perf_counter()
        for start in range(0, len(bodies), batch):
            pipeline = redis.pipeline(transaction=False)
            for body in bodies[start : start + batch]:
                pipeline.xadd(topic, {_FIELD: body})
            pipeline.execute()
        return time.perf_counter() - started

    def consume(self, topic: str, count: int) -> tuple[float, list[bytes]]:
        """XREADGROUP of up to 1,000, and one XACK for all of them."""
        redis = self._connect()
        bodies: list[bytes] = []
        started = time.perf_counter()
        while len(bodies) < count and (entries := _read(redis, topic)):
            redis.xack(topic, _GROUP, *[name for name, _ in entries])
            bodies += [fields[_FIELD] for _, fields in entries]
        return time.perf_counter() - started, bodies

    def one_by_one(self, topic: str, bodies: Sequence[bytes]) -> float:
        """XADD, each answered before the next."""
        redis = self._connect()
        started = time.perf_counter()
        for body in bodies:
            redis.xadd(topic, {_FIELD: body})
        return time.perf_counter() - started

    def send_paced(self, topic: str, bodies: Sequence[bytes], pace: Pace) -> None:
        """XADD what is due at each tick in one pipeline."""
        redis = self._connect()
        for due in ticks(pace, len(bodies)):
            pipeline = redis.pipeline(transaction=False)
            for index in due:
                pipeline.xadd(topic, {_FIELD: bodies[index]})
            pipeline.execute()

    def receive_stamped(self, topic: str, count: int) -> list[tuple[float, bytes]]:
        """XREADGROUP as entries come."""
        redis = self._connect()
        found: list[tuple[float, bytes]] = []
        while len(found) < count and (entries := _read(redis, topic)):
            now_s = time.monotonic()
            found += [(now_s, fields[_FIELD]) for _, fields in entries]
            redis.xack(topic, _GROUP, *[name for name, _ in entries])
        return found

    def _connect(self) -> Any:  # redis-py's annotations describe both of its dialects at once.
        import redis
        from redis._parsers import _HiredisParser, _RESP2Parser

        pool = redis.ConnectionPool(
            host=HOST,
            port=self.port,
            # The one whose answers `_read` takes apart; neither protocol was clearly faster.
            protocol=2,
            # Longer than a read may wait.
            socket_timeout=PATIENCE_S + 5,
            parser_class=_RESP2Parser if self.is_pure_python else _HiredisParser,
        )
        return redis.Redis(connection_pool=pool)


def _read(redis: Any, topic: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
    answer = redis.xreadgroup(_GROUP, "c", {topic: ">"}, count=_FETCH, block=int(PATIENCE_S * 1000))
    return list(answer[0][1]) if answer else []


class Redis:
    """A redis-server with nothing but an append-only file."""

    name = "Redis Streams"

    def __init__(self) -> None:
        """Start nothing yet."""
        self._server: Server | None = None
        self._port = 0

    def missing(self) -> str:
        """Say what has to be installed."""
        return installed.missing("redis-server", "redis", "hiredis")

    def versions(self) -> str:
        """Return the versions of server and client."""
        server = installed.output_of("redis-server", "--version").split()[2].removeprefix("v=")
        return f"redis-server {server}, {installed.clients('redis', 'hiredis')}"

    def terms(self, durability: Durability) -> Terms:
        """Say how the append-only file is synced."""
        return Terms(text=_TERMS[durability])

    def start(self, durability: Durability, directory: Path) -> None:
        """Start on a free port, without snapshots."""
        self._port = free_port()
        settings = {
            "--bind": HOST,
            "--port": str(self._port),
            "--dir": str(directory),
            "--appendonly": "yes",
            "--appendfsync": _FSYNC[durability],
            "--auto-aof-rewrite-percentage": "0",
            "--save": "",
        }
        command = [
            installed.program("redis-server"),
            *(part for item in settings.items() for part in item),
        ]
        self._server = Server(command, directory=directory)
        self._server.wait_for(self._port)

    def clients(self) -> Sequence[Variant]:
        """Return redis-py with and without its C parser."""
        fast, pure = RedisClient(self._port), RedisClient(self._port, is_pure_python=True)
        return [Variant("(hiredis)", "(hiredis)", fast), Variant("(pure)", "(pure)", pure)]

    def stop(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.stop()
            self._server = None
