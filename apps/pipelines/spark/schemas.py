"""Tables as Arrow has them. Knows columns and Arrow; no Spark session, no files."""

import pyarrow as pa

from apps.pipelines.columns import Kind, Table
from apps.pipelines.errors import RuleBroken

_KINDS = {
    Kind.TEXT: pa.string(),
    Kind.INTEGER: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.REAL: pa.float64(),
    Kind.TRUTH: pa.bool_(),
    Kind.MOMENT: pa.timestamp("us", tz="UTC"),
    Kind.DATE: pa.date32(),
    Kind.BYTES: pa.binary(),
    Kind.TEXTS: pa.map_(pa.string(), pa.string()),
}


def arrow_schema(table: Table) -> pa.Schema:
    """Return the columns of a table as Arrow has them."""
    return pa.schema(
        [
            pa.field(column.name, _KINDS[column.kind], nullable=column.is_nullable)
            for column in table.columns
        ]
    )


def checked(rows: pa.Table, table: Table) -> pa.Table:
    """Return rows as a table has them; raise RuleBroken where they break what it promises.

    That is: no value is missing that must be there, and no key is there twice.
    """
    missing = sorted({*table.names()} - {*rows.column_names})
    if missing:
        raise RuleBroken(f"{table.name} lacks the column {missing[0]}")
    columns = []
    for column in table.columns:
        values = rows.column(column.name)
        if values.null_count and not column.is_nullable:
            raise RuleBroken(f"{table.name}.{column.name} is missing in {values.null_count} rows")
        columns.append(values.cast(_KINDS[column.kind]))
    found = pa.table(columns, schema=arrow_schema(table))
    keys = found.select(list(table.key)).group_by(list(table.key)).aggregate([([], "count_all")])
    if keys.num_rows < found.num_rows:
        worst = keys.sort_by([("count_all", "descending")]).slice(0, 1).to_pylist()[0]
        times = worst.pop("count_all")
        raise RuleBroken(f"{table.name} has the key {worst} {times} times")
    return found
