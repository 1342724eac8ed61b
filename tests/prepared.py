"""A database that is migrated once a run and copied from then on; knows no test.

Making a cluster and migrating it takes longer than most of what is then done with it.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from apps.bridge import embedded
from apps.bridge.children import Child, Program
from apps.engine.clock import SystemClock

# A database nobody is connected to, which is what others can be made from.
PATTERN = "pattern"

_ROOT = Path(__file__).resolve().parents[1]
_READY_MS = 60_000
# What a power cut would lose is of no use after the run.
_HASTY = ("-c", "fsync=off", "-c", "full_page_writes=off")


def copy_to(data: Path) -> embedded.Cluster:
    """Give `data` a cluster whose database is migrated and holds no row; none may be there yet."""
    cluster = embedded.Cluster(data)
    data.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", str(_pattern().directory), str(cluster.directory)], check=True)
    cluster.prepare()
    return cluster


@contextmanager
def serving(cluster: embedded.Cluster) -> Iterator[None]:
    """Run the server of a cluster that is prepared."""
    child = Child(
        Program(
            name="postgres",
            command=[*cluster.command(), *_HASTY],
            account=embedded.account_under_root(),
            stop_signal=signal.SIGINT,
            log_file=cluster.log_file,
        )
    )
    clock = SystemClock()
    deadline_ms = clock.monotonic_ms() + _READY_MS
    cluster.wait_until_ready(clock=clock, sleep=time.sleep, deadline_ms=deadline_ms)
    try:
        yield
    finally:
        child.send(signal.SIGINT)
        child.wait()


def _pattern() -> embedded.Cluster:
    """Return what copies are made of, which the first of the run's processes makes."""
    run = Path(os.environ["MQWEB_TESTS_RUN"])
    made = embedded.Cluster(run / "prepared")
    with (run / "prepared.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not made.data.exists():
            _make(run / "preparing").rename(made.data)
    return made


def _make(data: Path) -> Path:
    shutil.rmtree(data, ignore_errors=True)
    cluster = embedded.Cluster(data)
    cluster.prepare()
    with serving(cluster):
        host = f"host={cluster.socket_directory}"
        migrate(f"postgresql://{embedded.ROLE}@/{embedded.DATABASE}?{host}")
        server = f"postgresql://{embedded.SUPERUSER}@/postgres?{host}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {PATTERN} TEMPLATE {embedded.DATABASE}")
    return data


def migrate(database_url: str) -> None:
    """Make all tables of a database."""
    own = {"DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "mqweb.settings"}
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0", "--skip-checks"]
    subprocess.run(command, cwd=_ROOT, env=os.environ | own, check=True)
