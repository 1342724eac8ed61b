"""Empties the test database by deleting the rows there are; knows no table but those it keeps.

Django's own way truncates every table and makes content types and permissions anew: each time that
costs the server and the test more processor time than nearly every test does.
"""

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TransactionTestCase
from psycopg import sql

# It only grows: a trigger sees to that, which looks away where there is something to delete.
_GROWING = "audit_auditentry"
_EMPTIED = sql.SQL(
    "DO $$ BEGIN IF EXISTS (SELECT FROM {table}) THEN"
    " ALTER TABLE {table} DISABLE TRIGGER USER;"
    " DELETE FROM {table};"
    " ALTER TABLE {table} ENABLE TRIGGER USER;"
    " END IF; END $$"
).format(table=sql.Identifier(_GROWING))

# What migrating has written, which no test changes.
_KEPT = frozenset({"django_content_type", "auth_permission"})


def delete_rows_after_tests() -> None:
    """Have tests with transactions of their own end so, in this process from now on."""
    TransactionTestCase._fixture_teardown = _delete_rows  # type: ignore[method-assign]


def _delete_rows(test: TransactionTestCase) -> None:
    for alias in test._databases_names(include_mirrors=False):
        delete_rows(connections[alias])


def delete_rows(connection: BaseDatabaseWrapper) -> None:
    """Delete every row of a database but those that migrating has written."""
    names = sorted(set(connection.introspection.django_table_names()) - _KEPT - {_GROWING})
    deletions = sql.SQL(";").join(
        [_EMPTIED, *(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)) for name in names)]
    )
    # In one transaction, at whose end the references between tables are looked at.
    with connection.cursor() as cursor:
        cursor.execute(f"BEGIN;{deletions.as_string()};COMMIT")
