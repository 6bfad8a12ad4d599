"""kafka-python behind the interface of `clients.py`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetSpec, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource
from kafka.errors import KafkaError
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

QUICK = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 100, "retry_backoff_ms": 20}


@contextmanager
def translated() -> Iterator[None]:
    """Turn the library's errors into ours."""
    try:
        yield
    except KafkaError as error:
        raise Refused(getattr(error, "errno", None), str(error)) from error


class KafkaPythonProducer(Producer):
    def __init__(self, bootstrap: str, options: ProducerOptions) -> None:
        self._library = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks={"0": 0, "1": 1}.get(options.acks, options.acks),
            compression_type=None if options.codec == "none" else options.codec,
            enable_idempotence=options.idempotent,
            max_request_size=options.max_request_bytes,
            batch_size=options.batch_bytes,
            linger_ms=options.linger_ms,
            metadata_max_age_ms=500,
            max_block_ms=int(DEADLINE_S * 1000),
            delivery_timeout_ms=int(DEADLINE_S * 1000),
            request_timeout_ms=10_000,
            **QUICK,
        )
        self._acks = options.acks

    def send(self, topic: str, records: Sequence[Outgoing]) -> list[int | None]:
        with translated():
            futures = [
                self._library.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            self._library.flush(DEADLINE_S)
            done = [future.get(DEADLINE_S) for future in futures]
        return [None if self._acks == "0" else metadata.offset for metadata in done]

    def partition_count(self, topic: str) -> int:
        return len(self._library.partitions_for(topic) or ())

    def close(self) -> None:
        self._library.close(DEADLINE_S)


class KafkaPythonConsumer(Consumer):
    def __init__(self, bootstrap: str, reset: str) -> None:
        self._library = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset=reset,
            metadata_max_age_ms=500,
            fetch_max_wait_ms=100,
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
            polled = self._library.poll(timeout_ms=int(timeout_s * 1000), max_records=max_records)
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


class KafkaPythonClient(Client):
    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap, **QUICK)

    def make_producer(self, options: ProducerOptions) -> Producer:
        return KafkaPythonProducer(self.bootstrap, options)

    def consumer(self, reset: str = "none") -> Consumer:
        return KafkaPythonConsumer(self.bootstrap, reset)

    def request_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        asked = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs)}
        with translated():
            self._admin.create_topics({name: asked})

    def delete_topic(self, name: str) -> None:
        with translated():
            self._admin.delete_topics([name])

    def request_partitions(self, name: str, total: int) -> None:
        with translated():
            self._admin.create_partitions({name: total})

    def partition_count(self, topic: str) -> int:
        known = self._describe(topic)
        return 0 if known is None else sum(one["leader_id"] >= 0 for one in known["partitions"])

    def topic_id(self, topic: str) -> uuid.UUID | None:
        known = self._describe(topic)
        return None if known is None else uuid.UUID(str(known["topic_id"]))

    def _describe(self, topic: str) -> dict[str, Any] | None:
        # All topics: naming one that is not there would create it.
        described = (one for one in self._admin.describe_topics() if one["name"] == topic)
        return next((one for one in described if one["error_code"] == 0), None)

    def broker_id(self) -> int:
        return self._admin.describe_cluster()["brokers"][0]["broker_id"]

    def configs(self, kind: str, name: str) -> dict[str, ConfigValue]:
        with translated():
            described = self._admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
        return {
            key: ConfigValue(entry["value"], entry["config_source"], entry["read_only"])
            for key, entry in described[kind][name].items()
        }

    def alter_configs(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        entries: dict[str, Any] = {
            key: (AlterConfigOp.DELETE if value is None else AlterConfigOp.SET, value)
            for key, value in changes.items()
        }
        # The library returns the broker's refusal as text that starts with the code: "[Error 40] ...".
        with translated():
            answers = self._admin.alter_configs([ConfigResource(kind, name, entries)], raise_on_unknown=False)
        text = answers[kind][name]
        if text != "OK":
            raise Refused(int(text.partition("]")[0].removeprefix("[Error ")), text)

    def delete_records(self, place: Place, before_offset: int) -> int:
        asked = TopicPartition(*place)
        with translated():
            return self._admin.delete_records({asked: before_offset})[asked]["low_watermark"]

    def offset_of_max_timestamp(self, place: Place) -> int:
        asked = TopicPartition(*place)
        with translated():
            return self._admin.list_partition_offsets({asked: OffsetSpec.MAX_TIMESTAMP})[asked].offset

    def close(self) -> None:
        self._admin.close()
