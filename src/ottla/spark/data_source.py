"""The Spark data source `ottla`: `spark.read.format("ottla")`, `readStream`, `write` and `writeStream`.

Spark instantiates this class in several processes before the first batch, each of which has to import what it
needs: so modules are imported only where they are used.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)

from ottla.spark.options import INCLUDE_HEADERS, SOURCE, GivenOptions
from ottla.spark.source.columns import COLUMN_TYPES, HEADERS, choose_columns
from ottla.spark.worker import skip_hypothesis_import

if TYPE_CHECKING:
    from ottla.spark.source.deserializing import Deserializer


VALUE_OPTIONS = ("deserialize", "valueSchema", "schemaRegistryUrl", "badRecords", "timeZone")
"""The options that turn values into columns."""


skip_hypothesis_import()


class OttlaSource(DataSource):
    """Kafka topics as tables and streams."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = dict(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "ottla"

    def schema(self) -> str:
        """Return the columns and their types."""
        columns, deserializer = self._columns()
        types = COLUMN_TYPES if deserializer is None else {**COLUMN_TYPES, **deserializer.types}
        return ", ".join(f"`{name}` {types[name]}" for name in columns)

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the batch reader."""
        from ottla.spark.source.batch_reader import BatchReader
        from ottla.spark.source.options import read_source_options

        return BatchReader(read_source_options(self.options, is_stream=False), *self._columns(schema))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """Return the stream reader."""
        from ottla.spark.source.options import read_source_options
        from ottla.spark.source.stream_reader import StreamReader

        return StreamReader(read_source_options(self.options, is_stream=True), *self._columns(schema))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Return the batch writer."""
        from ottla.spark.sink.writers import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Return the stream writer."""
        from ottla.spark.sink.writers import stream_writer

        return stream_writer(self.options, schema)

    def _columns(self, schema: Any = None) -> tuple[list[str], Deserializer | None]:
        given = GivenOptions(self.options, SOURCE)
        available = [name for name in COLUMN_TYPES if name != HEADERS]
        if given.value(INCLUDE_HEADERS):
            available.append(HEADERS)
        if not any(given.text(name) for name in VALUE_OPTIONS):
            return choose_columns(given.text("columns"), available), None
        return self._columns_of_values(given, available, schema)

    @staticmethod
    def _columns_of_values(
        given: GivenOptions, available: list[str], schema: Any
    ) -> tuple[list[str], Deserializer | None]:
        from pyspark.sql.pandas.types import to_arrow_schema

        from ottla.spark.source.deserializing import read_deserializer

        deserializer = read_deserializer(given)
        columns = choose_columns(given.text("columns"), deserializer.available(available))
        deserializer = deserializer.choosing(columns)
        if schema is not None:
            deserializer = deserializer.typed(to_arrow_schema(schema, timezone="UTC"))
        return columns, deserializer
