"""A source of Iceberg tables: first the rows of a snapshot, then those that later snapshots append.

The source partition is the table, its offset a snapshot: a batch is what the snapshots between two offsets
have added. Snapshots stay readable until the table expires them, so a batch can be read again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.connect.config.keys import HIGH, INT, LIST, LOW, ConfigKey, at_least
from ottla.connect.connectors.file_formats import schema_of_arrow
from ottla.connect.connectors.iceberg_sink import catalog_of
from ottla.connect.data.record import Record
from ottla.connect.errors import ConnectError
from ottla.connect.sdk import Offsets, SourceConnector, SourceReader, partition_of

log = logging.getLogger(__name__)

FAIL, SKIP = "fail", "skip"


class IcebergSource(SourceConnector):
    """Reads an Iceberg table, then rows that are appended to it."""

    keys = (
        ConfigKey("iceberg.table", doc="The table: db.orders.", importance=HIGH),
        ConfigKey("topic", doc="The topic to write to.", importance=HIGH),
        ConfigKey("iceberg.catalog", LIST, [], "KEY=VALUE catalogue properties of pyiceberg.", HIGH),
        ConfigKey("iceberg.catalog.name", default="default", doc="The name of the catalogue."),
        ConfigKey("key.field", default="", doc="The field to use as the record key."),
        ConfigKey(
            "iceberg.on.change",
            default=FAIL,
            doc="How to handle a snapshot that deletes or replaces rows.",
            values=(FAIL, SKIP),
        ),
        ConfigKey("batch.max.files", INT, 100, "Data files read by one task of a batch.", LOW, at_least(1)),
    )
    position_keys = ("iceberg.table", "iceberg.catalog", "topic")
    interval_ms = 5_000

    def reader(self, task: Mapping[str, str]) -> SourceReader:
        """Return the reader."""
        return IcebergReader(dict(self.settings))

    def topics(self) -> list[str]:
        """Return the topic."""
        return [self.settings["topic"]]

    def check_offsets(self, offsets: Offsets) -> None:
        """Check that an offset is a snapshot."""
        for partition, offset in offsets.items():
            if "table" not in json.loads(partition) or not isinstance(offset.get("snapshot"), int):
                raise ConnectError('the offsets of this connector: {"table": NAME} {"snapshot": NUMBER}')


class IcebergReader(SourceReader):
    """Reads snapshots."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.partition = partition_of(table=settings["iceberg.table"])

    def _table(self) -> Any:
        return catalog_of(self.settings).load_table(self.settings["iceberg.table"])

    def latest(self, start: Offsets) -> Offsets:
        """Return the current snapshot."""
        current = self._table().metadata.current_snapshot_id
        return start if current is None else {self.partition: {"snapshot": current}}

    def plan(self, start: Offsets, end: Offsets) -> Sequence[Any]:
        """Return the data files of a batch, in parts."""
        table = self._table()
        before = start.get(self.partition, {}).get("snapshot")
        last = end[self.partition]["snapshot"]
        files: list[str] = []
        if before is None:
            tasks = list(table.scan(snapshot_id=last).plan_files())
            if any(each.delete_files for each in tasks):
                return [(last, None)]
            files = [each.file.file_path for each in tasks]
        else:
            for snapshot in self._between(table, before, last):
                files += _added(table, snapshot)
        most = self.settings["batch.max.files"]
        return [(last, sorted(files)[at : at + most]) for at in range(0, len(files), most)]

    def _between(self, table: Any, before: int, last: int) -> list[Any]:
        """Return the snapshots after one, up to another, that append rows."""
        found = []
        snapshot = table.metadata.snapshot_by_id(last)
        while snapshot is not None and snapshot.snapshot_id != before:
            operation = snapshot.summary.operation.value if snapshot.summary is not None else "append"
            if operation == "append":
                found.append(snapshot)
            elif operation != "replace" and self.settings["iceberg.on.change"] == FAIL:
                raise ConnectError(
                    f"the snapshot {snapshot.snapshot_id} of {self.settings['iceberg.table']} changes rows "
                    f"({operation}), which a stream of rows cannot say: leave it out with "
                    "iceberg.on.change=skip"
                )
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.metadata.snapshot_by_id(parent)
        if snapshot is None:
            raise ConnectError(
                f"the snapshot {before} of {self.settings['iceberg.table']} has expired, or the table was "
                "rolled back: reset the offsets of the connector to read the table again"
            )
        return list(reversed(found))

    def read(self, part: Any) -> Iterator[Record]:
        """Yield the rows of some files."""
        import pyarrow.parquet as pq

        table = self._table()
        key = self.settings["key.field"]
        snapshot, files = part
        for path in [None] if files is None else files:
            if path is None:  # some rows of the files are deleted
                rows = table.scan(snapshot_id=snapshot).to_arrow()
            else:
                with table.io.new_input(path).open() as file:
                    rows = pq.read_table(file)
            schema = schema_of_arrow(rows.schema)
            for value in rows.to_pylist():
                record = Record(self.settings["topic"], value, schema)
                if key:
                    record.key = value.get(key)
                    record.key_schema = None if schema is None else schema.field_map().get(key)
                yield record


def _added(table: Any, snapshot: Any) -> list[str]:
    """Return the data files that a snapshot has added."""
    from pyiceberg.manifest import DataFileContent, ManifestEntryStatus

    return [
        entry.data_file.file_path
        for manifest in snapshot.manifests(table.io)
        if manifest.added_snapshot_id == snapshot.snapshot_id
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        if entry.status == ManifestEntryStatus.ADDED and entry.data_file.content == DataFileContent.DATA
    ]
