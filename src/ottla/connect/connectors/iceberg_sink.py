"""A sink for Iceberg tables: each batch is one snapshot, which names the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config.keys import BOOLEAN, HIGH, LIST, ConfigKey
from ottla.connect.connectors.lake import LakeWriter
from ottla.connect.errors import ConnectError
from ottla.connect.sdk import Batch, SinkConnector, SinkWriter

PROPERTY = "ottla.batch."


class IcebergSink(SinkConnector):
    """Appends records to Iceberg tables."""

    keys = (
        ConfigKey("iceberg.tables", doc="The table; may contain ${topic}: db.${topic}.", importance=HIGH),
        ConfigKey("iceberg.catalog", LIST, [], "KEY=VALUE catalogue properties of pyiceberg.", HIGH),
        ConfigKey("iceberg.catalog.name", default="default", doc="The name of the catalogue."),
        ConfigKey("iceberg.tables.auto-create-enabled", BOOLEAN, True, "Create missing tables."),
        ConfigKey("iceberg.tables.evolve-schema-enabled", BOOLEAN, True, "Add missing columns."),
    )
    guarantee = "exactly once"
    interval_ms = 30_000

    def writer(self, task: Mapping[str, str]) -> SinkWriter:
        """Return the writer."""
        return IcebergWriter(dict(self.settings))


def catalog_of(settings: Mapping[str, Any]) -> Any:
    """Return the catalogue of a config."""
    from pyiceberg.catalog import load_catalog

    pairs = [each.partition("=") for each in settings["iceberg.catalog"]]
    properties = {key.strip(): value for key, _, value in pairs}
    for key in properties:
        if key.endswith("impl"):
            raise ConnectError(f"iceberg.catalog: {key} names code to load, which a config may not")
    return load_catalog(settings["iceberg.catalog.name"], **properties)


class IcebergWriter(LakeWriter):
    """Appends to Iceberg tables."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings["iceberg.tables"])
        self.settings = settings

    def append(self, name: str, rows: Any, batch: Batch) -> None:
        """Append rows, unless a snapshot of the table has the batch already."""
        from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError

        catalog = catalog_of(self.settings)

        try:
            table = catalog.load_table(name)
        except NoSuchTableError:
            if not self.settings["iceberg.tables.auto-create-enabled"]:
                raise ConnectError(f"there is no Iceberg table {name}") from None
            try:
                catalog.create_namespace(name.rpartition(".")[0])
            except NamespaceAlreadyExistsError:
                pass
            table = catalog.create_table(name, rows.schema)
        key = PROPERTY + batch.query
        done = [
            int(each.summary.additional_properties[key])
            for each in table.metadata.snapshots
            if each.summary is not None and key in each.summary.additional_properties
        ]
        if done and max(done) >= batch.number:
            return
        if self.settings["iceberg.tables.evolve-schema-enabled"]:
            with table.update_schema() as update:
                update.union_by_name(rows.schema)
        table.append(rows, snapshot_properties={key: str(batch.number)})
