"""The source called as Spark calls it: readers of a store's files, and the rows of their plans."""

from pathlib import Path
from typing import Any

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from pyspark_mqweb import DefaultSource
from pyspark_mqweb.reading import BatchReader, StreamReader

NARROW = StructType([StructField("topic", StringType()), StructField("offset", LongType())])
PLACED = StructType([StructField("partition", IntegerType()), StructField("offset", LongType())])


def batch(store: Path, schema: StructType | None = None, **options: str) -> BatchReader:
    source = DefaultSource({"path": str(store), "subscribe": "orders", **options})
    return source.reader(source.schema() if schema is None else schema)


def stream(store: Path, **options: str) -> StreamReader:
    source = DefaultSource({"path": str(store), "subscribe": "orders", **options})
    return source.streamReader(NARROW)


def rows(reader: BatchReader | StreamReader, shares: Any) -> list[dict[str, Any]]:
    return [row for share in shares for part in reader.read(share) for row in part.to_pylist()]
