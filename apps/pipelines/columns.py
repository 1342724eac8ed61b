"""What a table of the pipelines is: columns with types, a version. Knows neither Spark nor Django.

Types are named as Spark's DDL names them, since that is where most of them are used.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The type of a column."""

    TEXT = "string"
    INTEGER = "int"
    LONG = "bigint"
    REAL = "double"
    TRUTH = "boolean"
    MOMENT = "timestamp"
    DATE = "date"
    BYTES = "binary"
    TEXTS = "map<string,string>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. A value that may be null is unknown or does not exist, as `meaning` says."""

    name: str
    kind: Kind
    meaning: str
    is_nullable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table: of the lake, of the database, or of both.

    `key` names the columns that tell rows of one run apart; none where rows may repeat. Columns
    are only ever added, with a higher `version`. `model` is the Django model that keeps its rows
    for people, by name; empty for a table that is in the lake alone. `in_lake` is false for what
    is an input made of the database's rows. `begins` and `ends` name the columns that say from when
    to when a row is; empty for rows that are of their run's window as a whole.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    version: int = 1
    model: str = ""
    in_lake: bool = True
    begins: str = ""
    ends: str = ""

    def ddl(self) -> str:
        """Return the columns as Spark's DDL."""
        return ", ".join(
            f"`{column.name}` {column.kind.value}" + ("" if column.is_nullable else " NOT NULL")
            for column in self.columns
        )

    def names(self) -> tuple[str, ...]:
        """Return the columns' names, in order."""
        return tuple(column.name for column in self.columns)


def text(name: str, meaning: str, *, null: bool = False) -> Column:
    """Return a column of text."""
    return Column(name=name, kind=Kind.TEXT, meaning=meaning, is_nullable=null)


def integer(name: str, meaning: str, *, null: bool = False) -> Column:
    """Return a column of 32-bit integers."""
    return Column(name=name, kind=Kind.INTEGER, meaning=meaning, is_nullable=null)


def long(name: str, meaning: str, *, null: bool = False) -> Column:
    """Return a column of 64-bit integers."""
    return Column(name=name, kind=Kind.LONG, meaning=meaning, is_nullable=null)


def real(name: str, meaning: str, *, null: bool = False) -> Column:
    """Return a column of doubles."""
    return Column(name=name, kind=Kind.REAL, meaning=meaning, is_nullable=null)


def truth(name: str, meaning: str, *, null: bool = False) -> Column:
    """Return a column of true and false."""
    return Column(name=name, kind=Kind.TRUTH, meaning=meaning, is_nullable=null)


def moment(name: str, meaning: str, *, null: bool = False) -> Column:
    """Return a column of points in time, UTC."""
    return Column(name=name, kind=Kind.MOMENT, meaning=meaning, is_nullable=null)
