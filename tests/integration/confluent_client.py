"""confluent-kafka (librdkafka) behind the interface of `clients.py`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import OFFSET_END, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka import Consumer as LibraryConsumer
from confluent_kafka import Producer as LibraryProducer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
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
)

from ottla.common.ids import parse_uuid
from ottla.protocol.errors import OffsetOutOfRange, UnknownTopicOrPartition

QUICK = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20}


@contextmanager
def translated() -> Iterator[None]:
    """Turn the library's errors into ours."""
    try:
        yield
    except KafkaException as error:
        raise refusal(error.args[0]) from error


def refusal(error: KafkaError) -> Refused:
    code = error.code()
    if code == KafkaError._AUTO_OFFSET_RESET:  # how librdkafka names it when there is no reset policy
        code = OffsetOutOfRange.code.value
    return Refused(code, error.str())


class ConfluentProducer(Producer):
    def __init__(self, bootstrap: str, options: ProducerOptions) -> None:
        self._acks = options.acks
        self._library = LibraryProducer(
            {
                "bootstrap.servers": bootstrap,
                "acks": options.acks,
                "compression.codec": options.codec,
                "enable.idempotence": options.idempotent,
                "message.max.bytes": options.max_request_bytes,
                "batch.size": options.batch_bytes,
                "linger.ms": options.linger_ms,
                "delivery.timeout.ms": int(DEADLINE_S * 1000),
                "topic.metadata.refresh.interval.ms": 500,
                **QUICK,
            }
        )

    def send(self, topic: str, records: Sequence[Outgoing]) -> list[int | None]:
        results: dict[int, Any] = {}
        with translated():
            for index, record in enumerate(records):
                self._library.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp=record.timestamp_ms or 0,
                    on_delivery=lambda error, message, at=index: results.update({at: error or message}),
                )
        unsent = self._library.flush(DEADLINE_S)
        assert unsent == 0, f"{unsent} records were neither delivered nor refused within {DEADLINE_S:g} s"
        for _, result in sorted(results.items()):
            if isinstance(result, KafkaError):
                raise refusal(result)
        if self._acks == "0":
            return [None] * len(records)
        return [results[index].offset() for index in range(len(records))]

    def partition_count(self, topic: str) -> int:
        return len(self._library.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions)

    def close(self) -> None:
        self._library.flush(DEADLINE_S)
        self._library.close()


class ConfluentConsumer(Consumer):
    def __init__(self, bootstrap: str, reset: str) -> None:
        self._library = LibraryConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "assigned by hand",  # the library wants one; it is never joined
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": {"none": "error"}.get(reset, reset),
                "topic.metadata.refresh.interval.ms": 500,
                "fetch.wait.max.ms": 100,
                **QUICK,
            }
        )

    def assign(self, positions: Mapping[Place, int]) -> None:
        self._library.assign([TopicPartition(*place, offset) for place, offset in positions.items()])

    def seek(self, place: Place, offset: int) -> None:
        # A partition that was assigned a moment ago may not be seekable yet.
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                return self._library.seek(TopicPartition(*place, offset))
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE or time.monotonic() > deadline:
                    raise
            self._library.poll(0)

    def poll(self, max_records: int, timeout_s: float) -> list[Incoming]:
        received = []
        # One message wakes it: consume(n) would wait for all n.
        first = self._library.poll(timeout_s)
        rest = self._library.consume(max_records - 1, 0) if first is not None and max_records > 1 else []
        for message in ([first] if first is not None else []) + rest:
            if message.error():
                raise refusal(message.error())
            kind, timestamp_ms = message.timestamp()
            received.append(
                Incoming(
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                    tuple(message.headers() or ()),
                    timestamp_ms,
                    kind - 1,  # librdkafka counts from "not available"
                )
            )
        return received

    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None:
        with translated():
            (found,) = self._library.offsets_for_times([TopicPartition(*place, timestamp_ms)], DEADLINE_S)
        if found.error:
            raise refusal(found.error)
        return None if found.offset == OFFSET_END else found.offset

    def beginning(self, place: Place) -> int:
        return self._watermarks(place)[0]

    def end(self, place: Place) -> int:
        return self._watermarks(place)[1]

    def close(self) -> None:
        self._library.close()

    def _watermarks(self, place: Place) -> tuple[int, int]:
        with translated():
            return self._library.get_watermark_offsets(TopicPartition(*place), DEADLINE_S, cached=False)


class ConfluentClient(Client):
    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK})

    def make_producer(self, options: ProducerOptions) -> Producer:
        return ConfluentProducer(self.bootstrap, options)

    def consumer(self, reset: str = "none") -> Consumer:
        return ConfluentConsumer(self.bootstrap, reset)

    def request_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        self._only(self._admin.create_topics([NewTopic(name, partitions, 1, config=dict(configs))]))

    def delete_topic(self, name: str) -> None:
        self._only(self._admin.delete_topics([name]))

    def request_partitions(self, name: str, total: int) -> None:
        self._only(self._admin.create_partitions([NewPartitions(name, total)]))

    def partition_count(self, topic: str) -> int:
        # All topics: naming one that is not there would create it.
        known = self._admin.list_topics(timeout=DEADLINE_S).topics.get(topic)
        return 0 if known is None else sum(one.leader >= 0 for one in known.partitions.values())

    def topic_id(self, topic: str) -> uuid.UUID | None:
        try:
            described = self._only(self._admin.describe_topics(TopicCollection([topic])))
        except Refused as error:
            if error.code == UnknownTopicOrPartition.code.value:
                return None
            raise
        return parse_uuid(str(described.topic_id))

    def broker_id(self) -> int:
        return next(iter(self._admin.list_topics(timeout=DEADLINE_S).brokers))

    def configs(self, kind: str, name: str) -> dict[str, ConfigValue]:
        described = self._only(self._admin.describe_configs([ConfigResource(kind, name)]))
        return {
            key: ConfigValue(entry.value, ConfigSource(entry.source).name, entry.is_read_only)
            for key, entry in described.items()
        }

    def alter_configs(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        entries = [
            ConfigEntry(
                key,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for key, value in changes.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        self._only(self._admin.incremental_alter_configs([resource]))

    def delete_records(self, place: Place, before_offset: int) -> int:
        done = self._only(self._admin.delete_records([TopicPartition(*place, before_offset)]))
        return done.low_watermark

    def offset_of_max_timestamp(self, place: Place) -> int:
        asked = {TopicPartition(*place): OffsetSpec.max_timestamp()}
        return self._only(self._admin.list_offsets(asked)).offset

    def close(self) -> None:
        del self._admin  # which is how this library closes it

    def _only(self, futures: Mapping[Any, Any]) -> Any:
        (future,) = futures.values()
        with translated():
            return future.result(DEADLINE_S)
