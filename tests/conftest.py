"""The run's own PostgreSQL, gone at the end, and a summary of what rows of the fault table said."""

import signal
import time
from collections.abc import Iterator

import hypothesis
import pytest
from django.conf import settings

from apps.bridge import embedded
from apps.bridge.children import Child, Program
from apps.engine.clock import SystemClock

_READY_MS = 60_000

# How long an example takes says something of the machine, not of the product.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what `tests.rounds.report` was told by tests that passed, in whichever process."""
    reports = terminalreporter.stats.get("passed", [])
    rows = {
        line for told in reports for line in told.capstdout.splitlines() if line.startswith("ROW ")
    }
    if rows:
        terminalreporter.section("rows of the fault table")
        for line in sorted(rows):
            terminalreporter.write_line(line.removeprefix("ROW "))


@pytest.fixture(scope="session")
def embedded_postgres() -> Iterator[None]:
    """Run a server in the run's temporary directory, unless DATABASE_URL names another."""
    if settings.MQWEB.database_url is not None:
        yield
        return
    cluster = embedded.Cluster(settings.MQWEB.data)
    cluster.prepare()
    # What a power cut would lose is of no use after the run.
    command = [*cluster.command(), "-c", "fsync=off", "-c", "full_page_writes=off"]
    child = Child(
        Program(
            name="postgres",
            command=command,
            account=embedded.account_under_root(),
            stop_signal=signal.SIGINT,
            log_file=cluster.log_file,
        )
    )
    clock = SystemClock()
    deadline_ms = clock.monotonic_ms() + _READY_MS
    cluster.wait_until_ready(clock=clock, sleep=time.sleep, deadline_ms=deadline_ms)
    yield
    child.send(signal.SIGINT)
    child.wait()


@pytest.fixture(scope="session")
def django_db_setup(embedded_postgres: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """Make the test database once the server runs, and drop it before the server stops."""
    from django.test.utils import setup_databases, teardown_databases

    blocker = request.getfixturevalue("django_db_blocker")
    with blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False)
    yield
    with blocker.unblock():
        teardown_databases(made, verbosity=0)
