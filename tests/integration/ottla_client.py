"""Our own clients behind the interface of `clients.py`: as they are, and the asyncio ones."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.integration.clients import (
    DEADLINE_S,
    Client,
    ConfigValue,
    Consumer,
    Incoming,
    Outgoing,
    Place,
    Producer,
    ProducerOptions,
    Refused,
    incoming,
)
from tests.integration.ottla_faces import open_face

from ottla import client as ottla
from ottla.client import ClientError, TopicPartition
from ottla.client.admin import ConfigSource
from ottla.protocol.errors import KafkaError

QUICK = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 100, "retry_backoff_ms": 20}
FRESH = {"metadata_max_age_ms": 500}
MAX_TIMESTAMP = -3

CONFIG_SOURCES = {
    ConfigSource.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    ConfigSource.DYNAMIC_BROKER: "DYNAMIC_BROKER_CONFIG",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    ConfigSource.STATIC_BROKER: "STATIC_BROKER_CONFIG",
    ConfigSource.DEFAULT: "DEFAULT_CONFIG",
}


@contextmanager
def translated() -> Iterator[None]:
    """Turn what a broker answered into the table's error, also where it is the cause of another one."""
    try:
        yield
    except (KafkaError, ClientError) as error:
        seen: BaseException | None = error
        while seen is not None and not isinstance(seen, KafkaError):
            seen = seen.__cause__
        raise Refused(None if seen is None else seen.code.value, str(error)) from error


class OttlaProducer(Producer):
    def __init__(self, is_async: bool, bootstrap: str, options: ProducerOptions) -> None:
        self._acks = options.acks
        self._library = open_face(
            ottla.AsyncProducer if is_async else ottla.Producer,
            bootstrap,
            acks=options.acks,
            compression_type=options.codec,
            enable_idempotence=options.idempotent,
            max_request_size=options.max_request_bytes,
            batch_size=options.batch_bytes,
            linger_ms=options.linger_ms,
            delivery_timeout_ms=int(DEADLINE_S * 1000),
            **FRESH,
            **QUICK,
        )

    def send(self, topic: str, records: Sequence[Outgoing]) -> list[int | None]:
        with translated():
            deliveries = [
                self._library.send(
                    topic,
                    record.value,
                    record.key,
                    headers=record.headers,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            done = [each.result(DEADLINE_S) for each in deliveries]
        return [None if self._acks == "0" else metadata.offset for metadata in done]

    def partition_count(self, topic: str) -> int:
        return len(self._library.partitions_for(topic))

    def close(self) -> None:
        self._library.close()


class OttlaConsumer(Consumer):
    def __init__(self, is_async: bool, bootstrap: str, reset: str) -> None:
        self._library = open_face(
            ottla.AsyncConsumer if is_async else ottla.Consumer,
            bootstrap,
            auto_offset_reset=reset,
            fetch_max_wait_ms=100,
            **FRESH,
            **QUICK,
        )

    def assign(self, positions: Mapping[Place, int]) -> None:
        self._library.assign([TopicPartition(*place) for place in positions])
        for place, offset in positions.items():
            self._library.seek(TopicPartition(*place), offset)

    def seek(self, place: Place, offset: int) -> None:
        self._library.seek(TopicPartition(*place), offset)

    def poll(self, max_records: int, timeout_s: float) -> list[Incoming]:
        with translated():
            polled = self._library.getmany(timeout_ms=timeout_s * 1000, max_records=max_records)
        return incoming(polled)

    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None:
        asked = TopicPartition(*place)
        with translated():
            found = self._library.offsets_for_times({asked: timestamp_ms})[asked]
        return None if found is None else found.offset

    def beginning(self, place: Place) -> int:
        asked = TopicPartition(*place)
        with translated():
            return self._library.beginning_offsets([asked])[asked]

    def end(self, place: Place) -> int:
        asked = TopicPartition(*place)
        with translated():
            return self._library.end_offsets([asked])[asked]

    def close(self) -> None:
        self._library.close()


class OttlaClient(Client):
    name = "ottla"
    is_async = False

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin: Any = open_face(
            ottla.AsyncAdmin if self.is_async else ottla.Admin, bootstrap, **FRESH, **QUICK
        )

    def make_producer(self, options: ProducerOptions) -> Producer:
        return OttlaProducer(self.is_async, self.bootstrap, options)

    def consumer(self, reset: str = "none") -> Consumer:
        return OttlaConsumer(self.is_async, self.bootstrap, reset)

    def request_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        with translated():
            self._admin.create_topic(name, partitions=partitions, replication_factor=1, configs=configs)

    def delete_topic(self, name: str) -> None:
        with translated():
            self._admin.delete_topic(name)

    def request_partitions(self, name: str, total: int) -> None:
        with translated():
            self._admin.create_partitions(name, total)

    def partition_count(self, topic: str) -> int:
        with translated():
            known = self._admin.list_topics().get(topic)
        return 0 if known is None else sum(one.leader >= 0 for one in known.partitions.values())

    def topic_id(self, topic: str) -> uuid.UUID | None:
        known = self._admin.list_topics().get(topic)
        return None if known is None else known.topic_id

    def broker_id(self) -> int:
        return next(iter(self._admin.describe_cluster().brokers))

    def configs(self, kind: str, name: str) -> dict[str, ConfigValue]:
        with translated():
            if kind == "topic":
                entries = self._admin.topic_configs(name)
            else:
                entries = self._admin.broker_configs(int(name))
        return {
            each.name: ConfigValue(each.value, CONFIG_SOURCES[each.source], each.is_read_only)
            for each in entries
        }

    def alter_configs(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        change = {
            "set_to": {key: value for key, value in changes.items() if value is not None},
            "unset": [key for key, value in changes.items() if value is None],
        }
        with translated():
            if kind == "topic":
                self._admin.alter_topic_configs(name, **change)
            else:
                self._admin.alter_broker_configs(int(name), **change)

    def delete_records(self, place: Place, before_offset: int) -> int:
        asked = TopicPartition(*place)
        with translated():
            return self._admin.delete_records({asked: before_offset})[asked]

    def offset_of_max_timestamp(self, place: Place) -> int:
        asked = TopicPartition(*place)
        with translated():
            return self._admin.list_offsets({asked: MAX_TIMESTAMP})[asked].offset

    def close(self) -> None:
        self._admin.close()


class OttlaAsyncClient(OttlaClient):
    name = "ottla-async"
    is_async = True
