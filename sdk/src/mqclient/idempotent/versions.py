"""Once by a version in the row of the effect. Knows DB-API 2.0 (PEP 249) only.

A message says which version of the row it was made for. The first one moves the row to the next
version; the same one again, and every older one, finds another version and changes nothing.
"""

from collections.abc import Mapping
from typing import Any

from mqclient.errors import InvalidArgument
from mqclient.idempotent.sql import DatabaseModule, identifier, place_of


class VersionedRows:
    """Changes rows of one table, each only from the version the change was made for."""

    def __init__(
        self, module: DatabaseModule, *, table: str, key: str = "id", version: str = "version"
    ) -> None:
        """Name the table and its columns; raise InvalidArgument for what is no name."""
        self._place = place_of(module)
        self._table = identifier(table)
        self._key = identifier(key)
        self._version = identifier(version)

    def update(
        self,
        connection: Any,
        key: object,
        *,
        version: int,
        values: Mapping[str, object],
    ) -> bool:  # DB-API has no type of a connection.
        """Set columns of the row that has the key and the version, and the version to the next.

        Return False, with nothing changed, where there is no such row: the change was made before,
        or another came first. The caller commits, and so may do more in the same transaction.
        Raise InvalidArgument where a value would change the key or the version.
        """
        if self._version in values or self._key in values:
            raise InvalidArgument("the key and the version are not the caller's to set")
        place = self._place
        changes = "".join(f"{identifier(name)} = {place}, " for name in values)
        statement = (
            # Names are checked and values are parameters, so nothing can be smuggled in.
            f"UPDATE {self._table} SET {changes}{self._version} = {place}"  # noqa: S608
            f" WHERE {self._key} = {place} AND {self._version} = {place}"
        )
        cursor = connection.cursor()
        cursor.execute(statement, (*values.values(), version + 1, key, version))
        return bool(cursor.rowcount == 1)
