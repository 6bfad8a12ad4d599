"""The reference page of connectors, transforms and converters, generated from their declarations."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import cleandoc

from ottla.connect.config.common_keys import SINK_KEYS, SOURCE_KEYS
from ottla.connect.config.keys import ConfigKey, shown
from ottla.connect.connectors.datagen import DatagenSource
from ottla.connect.connectors.delta_sink import DeltaSink
from ottla.connect.connectors.files import FileSink, FileSource
from ottla.connect.connectors.http_sink import HttpSink
from ottla.connect.connectors.iceberg_sink import IcebergSink
from ottla.connect.connectors.iceberg_source import IcebergSource
from ottla.connect.connectors.jdbc_sink import JdbcSink
from ottla.connect.connectors.jdbc_source import JdbcSource
from ottla.connect.connectors.mirror import MirrorSource
from ottla.connect.connectors.object_source import S3Source
from ottla.connect.connectors.object_store import S3Sink
from ottla.connect.connectors.postgres_cdc import PostgresCdcSource
from ottla.connect.connectors.postgres_sink import PostgresSink
from ottla.connect.connectors.postgres_source import PostgresSource
from ottla.connect.connectors.search_sink import SearchSink
from ottla.connect.options import WORKER_KEYS
from ottla.connect.plugins import CONVERTERS
from ottla.connect.sdk import SinkConnector, SourceConnector
from ottla.connect.transforms.chain import PREDICATE_TYPES, TRANSFORMS

HEAD = """\
# Connectors

Made from the code by `make docs`; [connect.md](connect.md) says how they are used. `connector.class` takes
the name of the class alone.

Every source writes to topics exactly once: a batch is written as a whole, and once. "Exactly once" of a sink
means that a batch that is repeated after a crash leaves the target as it was.
"""

NOTES: dict[type, tuple[str, str]] = {
    DatagenSource: ("exactly once", "Record N of a task is always the same, so tests can compare."),
    FileSource: (
        "exactly once",
        "Files may grow; they must not shrink or change. A last line without an end is read when the "
        "file has not changed for 5 s. "
        "The first line of a CSV file has the names; a value has no line breaks.",
    ),
    FileSink: (
        "exactly once",
        "A file is `TOPIC/TOPIC+PARTITION+OFFSET.EXT`, by the offset of its first record, and "
        "appears when it is whole. "
        "A repeated batch replaces its own files. After the offsets were changed by hand, batches "
        "begin elsewhere: remove the files "
        "behind that place first.",
    ),
    PostgresSource: (
        "exactly once for rows that it sees",
        "Deletes are not seen, nor are rows that a long transaction commits behind rows with larger "
        "numbers: `PostgresCdcSource` sees "
        "all. A first read is split into ranges, which are read in parallel.",
    ),
    PostgresCdcSource: (
        "exactly once",
        "PostgreSQL needs `wal_level=logical` and a free sender (`max_wal_senders`): the changes are "
        "streamed. "
        "Where a connection for replication is refused, the slot is queried, which costs more CPU. "
        "Topics are `PREFIX.SCHEMA.TABLE`, records are "
        "Debezium's (envelope, key, tombstone). "
        "The snapshot is read in ranges at one exported snapshot; if its holder dies, the rest is "
        "read at a newer one, and changes in "
        "between come again. New columns appear with the first change after them. The slot advances "
        "after the records are in "
        "their topics. A slot that holds more of the log than `wal.retention.alarm.bytes` is an "
        "alarm in the worker's log and in "
        "`ottla_connect_alarms`, also while the connector does not run. TRUNCATE is not passed on. "
        "Deleting the connector leaves the "
        "slot: `SELECT pg_drop_replication_slot('ottla')`.",
    ),
    PostgresSink: (
        "exactly once",
        "The table `ottla_connect_offsets` beside the rows has what is written of each partition, in the "
        "same transaction. Values of "
        "Debezium's envelope are unwrapped. Rows that PostgreSQL refuses go where `errors.tolerance` says.",
    ),
    JdbcSource: (
        "exactly once for rows that it sees",
        "For SQLite, and for every database with a Python driver (DB-API 2.0): PostgreSQL has its own "
        "connectors. Deletes are not seen. The type of a field is that of its value. Tested with SQLite.",
    ),
    JdbcSink: (
        "exactly once",
        "For SQLite, and for every database with a Python driver (DB-API 2.0) and transactions. The table "
        "`ottla_connect_offsets` beside the rows has the last batch of each partition, by which a batch "
        "that comes again is known; so keep the worker's storage, as for DeltaSink. Databases that end a "
        "transaction at CREATE or ALTER TABLE (MySQL, Oracle) need tables that exist. Tested with SQLite.",
    ),
    HttpSink: ("at least once", "A server that looks at `Idempotency-Key` takes each record once."),
    S3Sink: ("exactly once", "As FileSink. Tested with moto."),
    SearchSink: (
        "exactly once by document",
        "The version of a document is the record's offset, so a topic for an index, with one "
        "partition for each key. Tested with OpenSearch 2.19 and with a fake of the bulk API.",
    ),
    S3Source: (
        "exactly once",
        "Each object is read once, and again if it is replaced. The offsets have all objects that were read: "
        "move old ones to another prefix. Tested with moto.",
    ),
    IcebergSource: (
        "exactly once",
        "The first batch has the rows of the current snapshot, later ones what snapshots append. A snapshot "
        "that deletes or replaces rows fails the task, unless `iceberg.on.change=skip`. Do not expire "
        "snapshots that are not read yet. Tested with pyiceberg's SQL catalogue.",
    ),
    DeltaSink: (
        "exactly once",
        "The commit of a batch has an application transaction with query and batch, by which a batch that "
        "comes again is known; so keep the worker's storage: without the query's checkpoint the last batch "
        "may come under another number. The rows of a batch go "
        "through the driver: keep batches below some 100 MB. Tested on a local disk.",
    ),
    IcebergSink: (
        "exactly once",
        "A snapshot of the table names its query and batch. The rows of a batch go through the "
        "driver: keep batches "
        "below some 100 MB. Tested with pyiceberg's SQL catalogue.",
    ),
    MirrorSource: (
        "exactly once",
        "Use it with `ByteArrayConverter` for keys, values and headers. Topics are created, grown "
        "and configured as at the source; "
        "offsets of groups without members in the mirror are translated and committed. Each copy has "
        "its offset at the source in "
        "the header `ottla.mirror.offset`. ACLs of single topics are copied, as MirrorMaker 2 does: what "
        "allows WRITE is left out, ALL becomes READ. A topic that is deleted and created again is copied "
        "from its beginning. `source.cluster.NAME` and `target.cluster.NAME` are options of the clients "
        "(`source.cluster.security.protocol`); `source.consumer.NAME`, `source.admin.NAME` and "
        "`target.admin.NAME` override them.",
    ),
}
"""Of each connector: its guarantee, and what to know."""


def connectors_page() -> str:
    """Return the page."""
    parts = [HEAD, "| connector | direction | delivery |\n|---|---|---|"]
    parts[-1] += "".join(
        f"\n| [{kind.__name__}](#{kind.__name__.lower()}) | {_kind(kind)} | {notes[0]} |"
        for kind, notes in NOTES.items()
    )
    for kind, (guarantee, text) in NOTES.items():
        summary = cleandoc(kind.__doc__ or "").splitlines()[0]
        parts += [f"\n## {kind.__name__}\n\n{summary} {text}\n\nDelivery: {guarantee}.\n", _table(kind.keys)]  # type: ignore[attr-defined]
    common = {each.name: each for each in (*SOURCE_KEYS, *SINK_KEYS)}
    parts += ["\n## Keys of all connectors\n", _table(list(common.values()))]
    parts.append("\n## Keys of a worker\n\n| key | meaning |\n|---|---|")
    parts[-1] += "".join(f"\n| `{key}` | {doc} |" for key, doc in WORKER_KEYS.items())
    parts.append("\n## Converters\n\n" + "\n".join(f"- `{name}`" for name in sorted(CONVERTERS)))
    parts.append(
        "\n## Transforms\n\nWith Connect's names and keys; `org.apache.kafka.connect.transforms.` "
        "may be left out, as may `ottla.transforms.` of `Sql`.\n"
    )
    parts.append("| transform | |\n|---|---|")
    for name, transform in sorted(TRANSFORMS.items()):
        parts[-1] += (
            f"\n| `{name.rpartition('.')[2]}` | {cleandoc(transform.__doc__ or '').splitlines()[0]} |"
        )
    parts.append(
        "\nPredicates: " + ", ".join(f"`{each.rpartition('.')[2]}`" for each in sorted(PREDICATE_TYPES)) + "."
    )
    return "\n".join(parts) + "\n"


def _kind(kind: type) -> str:
    return (
        "source" if issubclass(kind, SourceConnector) else "sink" if issubclass(kind, SinkConnector) else ""
    )


def _table(keys: Sequence[ConfigKey]) -> str:
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for each in keys:
        default = (
            "required" if each.is_required else f"`{shown(each.type, each.default) or ''}`".replace("``", "")
        )
        values = f" ({', '.join(each.values)})" if each.values else ""
        rows.append(
            f"| `{each.name}` | {each.type.lower()} | {default} | {each.doc}{values} |".replace("|  |", "| |")
        )
    return "\n".join(rows)
