"""The door Spark comes in by: one class that makes readers and writers. Knows nothing else.

Spark loads every module named as this package is, in every application that has it on its path.
So what a read or a write needs is loaded when there is one: an application that has neither
pyarrow nor the engine, and does not use the source, is not hurt by it.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pyspark_mqweb.columns import all_columns
from pyspark_mqweb.options import has_headers, is_permissive, sink_options, source_options

if TYPE_CHECKING:
    from pyspark_mqweb.reading import BatchReader, StreamReader
    from pyspark_mqweb.sink import BatchWriter, StreamWriter


class DefaultSource(DataSource):
    """The data source `mqweb`; docs/PIPELINE.md has its options, columns and promises."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return "mqweb"

    def schema(self) -> StructType:
        """Return all columns; a schema that is passed to Spark narrows them."""
        return all_columns(
            has_headers=has_headers(self.options), has_corrupt=is_permissive(self.options)
        )

    def reader(self, schema: StructType) -> "BatchReader":
        """Return what reads a batch. Raises BadOption or BadColumns."""
        from pyspark_mqweb.reading import BatchReader

        return BatchReader(source_options(self.options), schema)

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802
        """Return what reads a stream. Raises BadOption or BadColumns."""
        from pyspark_mqweb.reading import StreamReader

        return StreamReader(source_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":
        """Return what sends the rows of a DataFrame. Raises BadOption or BadColumns."""
        from pyspark_mqweb.sink import BatchWriter

        return BatchWriter(sink_options(self.options), schema, is_overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":  # noqa: N802
        """Return what sends the rows of a stream. Raises BadOption or BadColumns."""
        del overwrite
        from pyspark_mqweb.sink import StreamWriter

        return StreamWriter(sink_options(self.options), schema)
