"""A client of bare bytes, for what no real client would send. kio writes and reads, not our own codec."""

from __future__ import annotations

import dataclasses
import datetime
import io
import socket
import struct
import sys
import typing
from typing import Any, Self
from uuid import UUID

from kio.serial import entity_reader, entity_writer

from ottla.protocol.records.records import Record, encode_batch
from ottla.protocol.schema.messages import request_class, response_class


class Closed(Exception):
    """The broker closed the connection."""


class Wire:
    """One connection."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._reader = self._socket.makefile("rb")
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def request(self, key: int, version: int, **fields: Any) -> Any:
        """Return a request of this version; struct fields are given as dictionaries."""
        return build(request_class(key, version), fields)

    def call(self, key: int, version: int, **fields: Any) -> Any:
        """Send a request and return its response."""
        correlation_id = self.send(key, version, **fields)
        return self.receive(key, version, correlation_id)

    def send(self, key: int, version: int, **fields: Any) -> int:
        """Send a request without waiting for its response; return its correlation id."""
        schema = request_class(key, version)
        body = io.BytesIO()
        entity_writer(schema)(body, build(schema, fields))
        return self.send_raw(key, version, body.getvalue(), flexible=schema.__flexible__)

    def send_raw(
        self, key: int, version: int, body: bytes, *, flexible: bool, client_id: str | None = None
    ) -> int:
        """Send any bytes as the body of a request."""
        self._correlation_id += 1
        name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id))
        header = struct.pack(">hhi", key, version, self._correlation_id) + name + (client_id or "").encode()
        self.send_frame(header + (b"\x00" if flexible else b"") + body)
        return self._correlation_id

    def send_frame(self, frame: bytes) -> None:
        """Send any bytes as a frame."""
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, key: int, version: int, correlation_id: int) -> Any:
        """Return the next response, which must be the one to `correlation_id`."""
        frame = self.receive_frame()
        schema = response_class(key, version)
        assert struct.unpack_from(">i", frame)[0] == correlation_id
        at = 5 if schema.__flexible__ and key != 18 else 4
        response, size = entity_reader(schema)(frame, at)
        assert at + size == len(frame)
        return response

    def receive_frame(self) -> bytes:
        """Return the next frame; Closed if there is none."""
        try:
            head = self._reader.read(4)
        except ConnectionResetError:
            head = b""
        if len(head) < 4:
            raise Closed
        return self._reader.read(struct.unpack(">i", head)[0])


def build(schema: type[Any], fields: dict[str, Any]) -> Any:
    """Return an entity; nested structs may be dictionaries, and what is not named has its default."""
    hints = typing.get_type_hints(schema, vars(sys.modules[schema.__module__]))
    values: dict[str, Any] = {}
    for field in dataclasses.fields(schema):
        if field.name not in fields:
            if field.default is dataclasses.MISSING:
                values[field.name] = _zero(hints[field.name], field.metadata.get("kafka_type", ""))
            continue
        value = fields[field.name]
        inner = [each for each in _arguments(hints[field.name]) if dataclasses.is_dataclass(each)]
        if inner and isinstance(value, list | tuple):
            value = tuple(build(inner[0], each) for each in value)
        elif inner and isinstance(value, dict):
            value = build(inner[0], value)
        elif isinstance(value, list):
            value = tuple(value)
        values[field.name] = value
    return schema(**values)


def _arguments(hint: Any) -> list[Any]:
    arguments = typing.get_args(hint)
    return [hint] if not arguments else [deep for each in arguments for deep in _arguments(each)]


def _zero(hint: Any, kafka_type: str) -> Any:
    import datetime

    if type(None) in typing.get_args(hint):
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    if kafka_type.startswith("timedelta"):
        return datetime.timedelta(0)
    return {"string": "", "bool": False, "bytes": b"", "records": b""}.get(kafka_type, 0)


def batch(*values: bytes | None, timestamp: int = 1_700_000_000_000, **options: Any) -> bytes:
    """Return one batch with a record for each value."""
    key = options.pop("key", None)
    records = [Record(index, timestamp + index, key, value, ()) for index, value in enumerate(values)]
    return bytes(encode_batch(records, **options))


def produce(
    wire: Wire, topic: str, records: bytes, *, version: int = 9, acks: int = 1, partition: int = 0
) -> Any:
    """Produce one batch by topic name and return the partition's result."""
    fields = produce_fields(topic, records, acks=acks, partition=partition)
    return wire.call(0, version, **fields).responses[0].partition_responses[0]


def produce_fields(topic: str | UUID, records: bytes, *, acks: int = 1, partition: int = 0) -> dict[str, Any]:
    """Return the fields of a Produce request with one batch."""
    key = {"topic_id": topic} if isinstance(topic, UUID) else {"name": topic}
    data = [{**key, "partition_data": [{"index": partition, "records": records}]}]
    return {"acks": acks, "timeout": datetime.timedelta(seconds=10), "topic_data": data}


def fetch_fields(topic: str | UUID, *partitions: tuple[int, int], **options: Any) -> dict[str, Any]:
    """Return the fields of a Fetch request for (partition, offset) pairs."""
    key = {"topic_id": topic} if isinstance(topic, UUID) else {"topic": topic}
    wait_ms = options.pop("max_wait_ms", 0)
    wanted = [
        {
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": options.get("partition_max_bytes", 1 << 20),
            "current_leader_epoch": options.get("current_leader_epoch", -1),
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
        }
        for index, offset in partitions
    ]
    return {
        "replica_id": options.get("replica_id", -1),
        "max_wait": datetime.timedelta(milliseconds=wait_ms),
        "min_bytes": options.get("min_bytes", 1),
        "max_bytes": options.get("max_bytes", 1 << 20),
        "isolation_level": options.get("isolation_level", 0),
        "session_id": options.get("session_id", 0),
        "session_epoch": options.get("session_epoch", -1),
        "topics": [{**key, "partitions": wanted}] if wanted else [],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def create_topic(wire: Wire, name: str, partitions: int = 1, **configs: str) -> UUID:
    """Create a topic and return its id."""
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }
    response = wire.call(19, 7, topics=[topic], timeout=datetime.timedelta(seconds=10))
    assert response.topics[0].error_code == 0, response
    return response.topics[0].topic_id
