"""The way on which commits are cut off does what it says: once, to the one that was meant."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from django.conf import settings

from tests.celery.brokers import database_url
from tests.process.commitcut import CommitCut, Fate, server_address

pytestmark = pytest.mark.process

FATES = pytest.mark.parametrize("fate", list(Fate))
WRITE = "INSERT INTO cut_numbers VALUES (%s)"


@pytest.fixture
def direct(embedded_postgres: None) -> Iterator[psycopg.Connection[Any]]:
    """Return a connection that nobody cuts, to a server with an empty table."""
    url = database_url(settings.DATABASES["default"], "postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE cut_numbers (number integer PRIMARY KEY)")
        yield connection
        connection.execute("DROP TABLE cut_numbers")


@pytest.fixture
def cut(direct: object) -> Iterator[CommitCut]:
    """Return a way to that server."""
    with CommitCut(server_address(settings.DATABASES["default"])) as cut:
        yield cut


def connected(
    cut: CommitCut, *, has_own_protocol: bool, autocommit: bool = False
) -> psycopg.Connection[Any]:
    """Connect through it; with a cursor that binds at the server, or one like Django's."""
    database = {**settings.DATABASES["default"], "HOST": "127.0.0.1", "PORT": cut.port}
    factory = psycopg.Cursor if has_own_protocol else psycopg.ClientCursor
    return psycopg.connect(
        database_url(database, "postgres"), autocommit=autocommit, cursor_factory=factory
    )


def committed(connection: psycopg.Connection[Any]) -> None:
    connection.execute(WRITE, (7,))
    connection.commit()


def numbers(direct: psycopg.Connection[Any]) -> list[int]:
    return [number for (number,) in direct.execute("SELECT number FROM cut_numbers ORDER BY 1")]


@FATES
@pytest.mark.parametrize("has_own_protocol", [True, False], ids=["extended", "simple"])
@pytest.mark.parametrize("autocommit", [True, False], ids=["implied", "explicit"])
def test_nobody_hears_of_the_commit_that_is_cut(
    cut: CommitCut, direct: Any, fate: Fate, has_own_protocol: bool, autocommit: bool
) -> None:
    connection = connected(cut, has_own_protocol=has_own_protocol, autocommit=autocommit)
    trap = cut.arm(rb"cut_numbers", fate)

    with pytest.raises(psycopg.OperationalError):
        committed(connection)

    assert connection.closed
    assert trap.has_fired.wait(10)
    assert cut.fired_count == 1
    assert numbers(direct) == ([7] if fate is Fate.APPLIED else [])


@FATES
def test_a_commit_of_something_else_passes(cut: CommitCut, direct: Any, fate: Fate) -> None:
    cut.arm(rb"another_table", fate)

    with connected(cut, has_own_protocol=True) as connection:
        connection.execute(WRITE, (7,))

    assert numbers(direct) == [7]
    assert cut.fired_count == 0


def test_a_commit_that_the_server_refuses_is_answered_and_the_trap_stays(
    cut: CommitCut, direct: Any
) -> None:
    direct.execute(
        "ALTER TABLE cut_numbers ADD other integer REFERENCES cut_numbers"
        " DEFERRABLE INITIALLY DEFERRED"
    )
    trap = cut.arm(rb"cut_numbers", Fate.APPLIED)

    with connected(cut, has_own_protocol=True) as connection:
        connection.execute("INSERT INTO cut_numbers VALUES (7, 8)")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.commit()
        assert not trap.has_fired.is_set()
        connection.execute(WRITE, (9,))
        with pytest.raises(psycopg.OperationalError):
            connection.commit()

    assert trap.has_fired.is_set()
    assert numbers(direct) == [9]


def test_a_trap_fires_once_and_what_comes_after_it_passes(cut: CommitCut, direct: Any) -> None:
    cut.arm(rb"cut_numbers", Fate.LOST)

    for _ in range(3):
        with suppress(psycopg.OperationalError), connected(cut, has_own_protocol=False) as again:
            again.execute(WRITE, (7,))
            again.commit()
            break

    assert cut.fired_count == 1
    assert numbers(direct) == [7]
