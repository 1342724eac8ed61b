"""The embedded server's directory: made whole or not at all, and cleared of what a kill left."""

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from apps.bridge import embedded
from apps.bridge.children import Child, Program
from apps.engine.clock import SystemClock
from tests.web.product import lives, wait_for

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster() -> Iterator[embedded.Cluster]:
    """Make one cluster for all tests of the module."""
    with tempfile.TemporaryDirectory(prefix="mqweb-pg-") as directory:
        made = embedded.Cluster(Path(directory))
        made.prepare()
        yield made


def start(cluster: embedded.Cluster) -> Child:
    child = Child(
        Program(
            name="postgres",
            command=[*cluster.command(), "-c", "fsync=off"],
            account=embedded.account_under_root(),
            log_file=cluster.log_file,
        )
    )
    clock = SystemClock()
    cluster.wait_until_ready(
        clock=clock, sleep=time.sleep, deadline_ms=clock.monotonic_ms() + 30_000
    )
    return child


def connect(cluster: embedded.Cluster) -> psycopg.Connection:
    return psycopg.connect(
        host=str(cluster.socket_directory),
        user=embedded.ROLE,
        dbname=embedded.DATABASE,
        autocommit=True,
    )


def test_a_server_killed_with_all_its_children_starts_again_with_its_data(
    cluster: embedded.Cluster,
) -> None:
    child = start(cluster)
    with connect(cluster) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    family = [psutil.Process(child.pid), *psutil.Process(child.pid).children()]
    for process in family:
        process.kill()
    # Nobody reaps the server before the next start: it is still in the process table.
    wait_for(lambda: not any(lives(process) for process in family))
    assert psutil.pid_exists(child.pid)
    assert (cluster.directory / "postmaster.pid").exists()

    cluster.prepare()
    again = start(cluster)

    with connect(cluster) as connection:
        assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
    again.send(signal.SIGINT)
    assert again.wait() == 0
    child.wait()


def test_our_role_is_no_superuser_and_the_socket_is_private(cluster: embedded.Cluster) -> None:
    child = start(cluster)

    with connect(cluster) as connection:
        assert not _is_superuser(connection)
        listening = connection.execute("SHOW listen_addresses").fetchone()
    socket_file = cluster.socket_directory / ".s.PGSQL.5432"
    assert listening == ("",)
    assert socket_file.stat().st_mode & 0o777 == 0o700
    assert cluster.directory.stat().st_mode & 0o077 == 0

    child.send(signal.SIGINT)
    child.wait()


def test_a_pid_file_of_another_program_is_cleared(cluster: embedded.Cluster) -> None:
    stale = cluster.directory / "postmaster.pid"
    stale.write_text(f"{os.getppid()}\n")

    cluster.prepare()

    assert not stale.exists()


def test_a_server_that_runs_is_not_touched(cluster: embedded.Cluster) -> None:
    child = start(cluster)

    with pytest.raises(embedded.CannotPrepare, match=f"pid {child.pid} already runs"):
        cluster.prepare()

    assert (cluster.directory / "postmaster.pid").exists()
    child.send(signal.SIGINT)
    child.wait()


def test_a_directory_half_made_is_made_again(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="mqweb-pg-") as directory:
        half = Path(directory) / "postgres.new"
        half.mkdir()
        (half / "PG_VERSION").write_text("18\n")
        cluster = embedded.Cluster(Path(directory))
        assert not cluster.is_made

        cluster.prepare()

        assert cluster.is_made
        assert not half.exists()
        assert (cluster.directory / "global").is_dir()


def test_a_failing_initdb_is_told_and_leaves_nothing_that_looks_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "initdb").write_text("#!/bin/sh\necho 'no room' >&2\nexit 1\n")
    (broken / "initdb").chmod(0o755)
    monkeypatch.setattr(embedded, "_binaries", lambda: broken)
    with tempfile.TemporaryDirectory(prefix="mqweb-pg-") as directory:
        cluster = embedded.Cluster(Path(directory))

        with pytest.raises(embedded.CannotPrepare, match=r"no room|not permitted|denied"):
            cluster.prepare()

        assert not cluster.is_made


def test_a_long_path_gets_a_socket_elsewhere_and_always_the_same() -> None:
    data = Path("/" + "/".join(["deep" * 8] * 4))

    first, second = (embedded.Cluster(data).socket_directory for _ in range(2))

    assert first == second
    assert first.parent == Path(tempfile.gettempdir())
    assert len(os.fsencode(first / ".s.PGSQL.5432")) < 104
    assert embedded.Cluster(Path("/short")).socket_directory == Path("/short/postgres")


def test_a_server_whose_path_is_too_long_for_a_socket_serves_from_elsewhere() -> None:
    with tempfile.TemporaryDirectory(prefix="mqweb-pg-") as directory:
        cluster = embedded.Cluster(Path(directory) / ("deep" * 30))
        cluster.prepare()

        child = start(cluster)

        with connect(cluster) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert cluster.socket_directory.stat().st_mode & 0o777 == 0o700
        child.send(signal.SIGINT)
        child.wait()
        cluster.socket_directory.rmdir()


def test_a_server_that_never_answers_is_given_up() -> None:
    class Hasty:
        now_ms = 0

        def wall_ms(self) -> int:
            return 0

        def monotonic_ms(self) -> int:
            self.now_ms += 1_000
            return self.now_ms

    with pytest.raises(embedded.CannotPrepare, match="does not answer"):
        embedded.Cluster(Path("/nowhere")).wait_until_ready(
            clock=Hasty(), sleep=lambda _: None, deadline_ms=3_000
        )


def _is_superuser(connection: psycopg.Connection) -> bool:
    row = connection.execute("SELECT usesuper FROM pg_user WHERE usename = current_user").fetchone()
    assert row is not None
    return bool(row[0])
