"""The run's own PostgreSQL, gone at the end, and a summary of what rows of the fault table said."""

import os
from collections.abc import Iterator

import hypothesis
import pytest
from django.conf import settings

from tests import emptying, prepared

# How long an example takes says something of the machine, not of the product.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest of the selected tests first in the share that each worker begins with."""
    longest = [item for item in items if item.get_closest_marker("longest")]
    others = [item for item in items if not item.get_closest_marker("longest")]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    shares = [len(items[number::workers]) for number in range(workers)]
    items.clear()
    # The smaller shares come first, as they are dealt out.
    for number, share in enumerate(sorted(shares)):
        first = longest[number::workers]
        items += first
        items += others[: share - len(first)]
        del others[: share - len(first)]


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


@pytest.fixture(autouse=True)
def _nobody_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget refusals that a test before counted: whichever writes next would write them too."""
    from apps.audit import refusals, services

    monkeypatch.setattr(services, "_tally", refusals.Tally())


@pytest.fixture(scope="session")
def embedded_postgres() -> Iterator[None]:
    """Run a server in the run's temporary directory, unless DATABASE_URL names another."""
    if settings.MQWEB.database_url is not None:
        yield
        return
    with prepared.serving(prepared.copy_to(settings.MQWEB.data)):
        yield


@pytest.fixture(scope="session")
def django_db_setup(embedded_postgres: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """Make the test database where the server is not the run's own, whose database is ready."""
    emptying.delete_rows_after_tests()
    if settings.MQWEB.database_url is None:
        yield
        return
    from django.test.utils import setup_databases, teardown_databases

    blocker = request.getfixturevalue("django_db_blocker")
    with blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False)
    yield
    with blocker.unblock():
        teardown_databases(made, verbosity=0)
