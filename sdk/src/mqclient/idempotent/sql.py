"""Once by a unique mark in the database of the effect. Knows DB-API 2.0 (PEP 249) only.

    CREATE TABLE mq_once (scope VARCHAR(127), effect VARCHAR(255), PRIMARY KEY (scope, effect))

The mark and the effect are one transaction: both are there, or neither. Two who try at once are put
in order by the database, the second waits for the first.
"""

import re
from collections.abc import Callable
from typing import Any, Protocol

from mqclient.errors import InvalidArgument
from mqclient.idempotent.keys import KEY_CHARACTERS_MAX, checked_key
from mqclient.names import checked_name

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_PLACES = {"qmark": "?", "format": "%s", "pyformat": "%s"}


class DatabaseModule(Protocol):
    """What is used of a DB-API module, such as sqlite3 or psycopg."""

    paramstyle: str
    IntegrityError: type[Exception]


def place_of(module: DatabaseModule) -> str:
    """Return what stands for a parameter; raise InvalidArgument for a style nobody uses here."""
    place = _PLACES.get(module.paramstyle)
    if place is None:
        raise InvalidArgument(f"paramstyle {module.paramstyle!r} is none of {sorted(_PLACES)}")
    return place


def identifier(name: str) -> str:
    """Return the name of a table or column; raise InvalidArgument for what is none."""
    if not _IDENTIFIER.fullmatch(name):
        raise InvalidArgument(f"{name!r} is no name of a table or column")
    return name


def check_transactional(connection: Any) -> None:  # DB-API has no type of it.
    """Raise InvalidArgument for a connection that commits every statement by itself."""
    kind = type(connection).__module__.split(".")[0]
    is_sqlite_autocommit = kind == "sqlite3" and connection.isolation_level is None
    if getattr(connection, "autocommit", None) is True or is_sqlite_autocommit:
        raise InvalidArgument("an autocommit connection keeps the mark without the effect")


class SqlOnce:
    """Runs work at most once for a key, with its mark in the same transaction.

    `scope` keeps the marks of different effects apart, such as two groups that read one topic.
    """

    def __init__(self, module: DatabaseModule, *, scope: str, table: str = "mq_once") -> None:
        """Bind to a DB-API module and a table; raise InvalidArgument or InvalidName."""
        self._module = module
        self._scope = checked_name(scope, "scope")
        self._table = identifier(table)
        place = place_of(module)
        # Names are checked and values are parameters, so nothing can be smuggled in.
        self._insert = f"INSERT INTO {self._table} (scope, effect) VALUES ({place}, {place})"  # noqa: S608

    def create_table(self, connection: Any) -> None:  # DB-API has no type of it.
        """Create the table unless it is there, and commit."""
        cursor = connection.cursor()
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} (scope VARCHAR(127) NOT NULL,"
            f" effect VARCHAR({KEY_CHARACTERS_MAX}) NOT NULL, PRIMARY KEY (scope, effect))"
        )
        connection.commit()

    def run(
        self, connection: Any, key: str, work: Callable[[], object]
    ) -> bool:  # DB-API has no type of it.
        """Mark the key, run `work`, and commit both; return False where the mark was there already.

        `work` uses the same connection and does not commit. What it raises is raised after a
        roll-back, and so is what the commit raises: then nothing has happened, or, where the
        database was lost during the commit, everything has, and the mark says so. The connection
        should have no transaction open: its end would be this one's.
        """
        check_transactional(connection)
        parameters = (self._scope, checked_key(key))
        try:
            try:
                connection.cursor().execute(self._insert, parameters)
            except self._module.IntegrityError:
                connection.rollback()
                return False
            work()
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        return True
