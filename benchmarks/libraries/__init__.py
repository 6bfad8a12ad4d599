"""The same four jobs for each client library, written as its documentation would: see `Library`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

LINGER_MS = 5
BATCH_BYTES = 262_144
FETCH_BYTES = 4_194_304
"""What every library is set to, so that they do the same work: acks=all, idempotent, no compression."""

NAMES = ("ottla", "ottla async", "confluent-kafka", "aiokafka", "kafka-python")
FLOOR = "raw socket"
"""Not a library: what a round trip takes without one."""
_MODULES = {
    "ottla": "ours",
    "ottla async": "ours_async",
    "confluent-kafka": "with_confluent",
    "aiokafka": "with_aiokafka",
    "kafka-python": "with_kafka_python",
    FLOOR: "raw_socket",
}


@dataclass(frozen=True)
class Job:
    """What to do, and where; `meter` is called when the work proper begins and ends."""

    address: str
    topic: str
    record_bytes: int
    records: int
    meter: Any

    @property
    def value(self) -> bytes:
        """What is sent."""
        return b"x" * self.record_bytes


def operation(library: str, name: str) -> Callable[[Job], Any]:
    """Return `produce`, `consume`, `arrow` or `latency` of a library."""
    found: Callable[[Job], Any] = getattr(import_module(f"benchmarks.libraries.{_MODULES[library]}"), name)
    return found


def table_of(rows: list[tuple[str, int, int, int, bytes | None, bytes | None]]) -> Any:
    """Return records (topic, partition, offset, timestamp, key, value) as a table: what users do by hand."""
    import pyarrow as pa

    names = ("topic", "partition", "offset", "timestamp", "key", "value")
    types = (pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary())
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(each, kind) for each, kind in zip(columns, types, strict=True)], names=names)
