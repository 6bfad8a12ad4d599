"""A sink for Delta tables: each batch is one commit, whose application transaction names the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config.keys import BOOLEAN, HIGH, LIST, ConfigKey
from ottla.connect.connectors.lake import LakeWriter
from ottla.connect.errors import ConnectError
from ottla.connect.sdk import Batch, SinkConnector, SinkWriter


class DeltaSink(SinkConnector):
    """Appends records to Delta tables with delta-rs; needs no JVM and no catalogue."""

    keys = (
        ConfigKey(
            "delta.table",
            doc="A folder or a URL; may contain ${topic}: s3://lake/${topic}.",
            importance=HIGH,
        ),
        ConfigKey("delta.storage.options", LIST, [], "KEY=VALUE storage options of delta-rs.", HIGH),
        ConfigKey("delta.auto-create-enabled", BOOLEAN, True, "Create missing tables."),
        ConfigKey("delta.evolve-schema-enabled", BOOLEAN, True, "Add missing columns."),
    )
    guarantee = "exactly once"
    interval_ms = 30_000

    def writer(self, task: Mapping[str, str]) -> SinkWriter:
        """Return the writer."""
        return DeltaWriter(dict(self.settings))


class DeltaWriter(LakeWriter):
    """Appends to Delta tables."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings["delta.table"])
        self.settings = settings

    def append(self, name: str, rows: Any, batch: Batch) -> None:
        """Append rows, unless the table has the batch already."""
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        pairs = [each.partition("=") for each in self.settings["delta.storage.options"]]
        storage = {key: value for key, _, value in pairs}
        if DeltaTable.is_deltatable(name, storage):
            done = DeltaTable(name, storage_options=storage).transaction_version(batch.query)
            if done is not None and done >= batch.number:
                return
        elif not self.settings["delta.auto-create-enabled"]:
            raise ConnectError(f"there is no Delta table at {name}")
        write_deltalake(
            name,
            rows,
            mode="append",
            schema_mode="merge" if self.settings["delta.evolve-schema-enabled"] else None,
            storage_options=storage,
            commit_properties=CommitProperties(app_transactions=[Transaction(batch.query, batch.number)]),
        )
