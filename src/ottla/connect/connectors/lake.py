"""What the sinks of lake tables share: workers make Parquet, the driver appends each batch once."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from typing import Any

from ottla.connect.connectors.file_formats import encode
from ottla.connect.data.record import Record
from ottla.connect.sdk import Batch, Refused, SinkWriter


class LakeWriter(SinkWriter):
    """Writes batches to tables; a subclass appends the rows of a table, unless the table has the batch."""

    by_partition = True

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def write(self, records: Iterator[Record], batch: Batch, refused: list[Refused]) -> Any:
        """Return the rows of each table as Parquet, in text."""
        tables: dict[str, list[Record]] = {}
        for record in records:
            tables.setdefault(self.pattern.replace("${topic}", record.topic), []).append(record)
        found = {}
        for table, rows in tables.items():
            data = encode("parquet", rows, refused)
            if data is not None:
                found[table] = base64.b64encode(data).decode()
        return found or None

    def commit(self, batch: Batch, messages: Sequence[Any]) -> None:
        """Append the rows of a batch to their tables."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables: dict[str, list[Any]] = {}
        for message in messages:
            for name, text in message.items():
                tables.setdefault(name, []).append(pq.read_table(io.BytesIO(base64.b64decode(text))))
        for name, parts in tables.items():
            self.append(name, pa.concat_tables(parts, promote_options="default"), batch)

    def append(self, name: str, rows: Any, batch: Batch) -> None:
        """Append rows (an Arrow table), once for each batch."""
        raise NotImplementedError
