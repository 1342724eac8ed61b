"""Columns of the source: their names and types, and which of them a read is asked for.

Knows Spark's types; not how values are made.
"""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_mqweb.errors import BadColumns

HEADERS = "headers"
CORRUPT = "_corrupt"

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

# The first seven, and headers, are those of Spark's Kafka connector.
COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(_HEADER),
    "storeTimestamp": TimestampType(),
    "dueTimestamp": TimestampType(),
    "tags": StringType(),
    "messageId": StringType(),
    "producerId": StringType(),
    "seq": LongType(),
    "shardingKey": StringType(),
    "reconsumeTimes": IntegerType(),
    "bornHost": StringType(),
    "storeHost": StringType(),
    "flag": IntegerType(),
    "sysFlag": IntegerType(),
    "commitLogOffset": LongType(),
    "storeSize": IntegerType(),
    CORRUPT: StringType(),
}


def all_columns(*, has_headers: bool, has_corrupt: bool) -> StructType:
    """Return the schema of a read that asks for nothing else."""
    left_out = {
        name for name, is_there in ((HEADERS, has_headers), (CORRUPT, has_corrupt)) if not is_there
    }
    return StructType(
        [StructField(name, kind) for name, kind in COLUMNS.items() if name not in left_out]
    )


def check_columns(schema: StructType) -> None:
    """Raise BadColumns unless a schema is a choice of our columns with our types, in any order."""
    names = [field.name for field in schema.fields]
    if len(set(names)) < len(names):
        raise BadColumns("a column is there twice")
    for field in schema.fields:
        known = COLUMNS.get(field.name)
        if known is None:
            raise BadColumns(f"there is no column {field.name}; there are {', '.join(COLUMNS)}")
        if not _is_same(field.dataType, known):
            raise BadColumns(
                f"column {field.name} is of type {known.simpleString()}, "
                f"not {field.dataType.simpleString()}"
            )


def _is_same(one: DataType, other: DataType) -> bool:
    """Say whether two types are equal but for what may be null."""
    return bool(one.simpleString() == other.simpleString())
