"""aiokafka behind the interface of `clients.py`: its coroutines run on a loop in a thread of their own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource
from aiokafka.errors import KafkaError, for_code
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
from tests.integration.kafka_python_client import KafkaPythonClient
from tests.loop_thread import LoopThread

CONFIG_SOURCES = (
    "UNKNOWN",
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
)
OVERRIDE_SOURCES = {"topic": "DYNAMIC_TOPIC_CONFIG", "broker": "DYNAMIC_BROKER_CONFIG"}


class AiokafkaLoop(LoopThread):
    """The loop of the library; its errors become ours."""

    def __init__(self) -> None:
        super().__init__("aiokafka")
        self.start()

    def run(self, work: Coroutine[Any, Any, Any], timeout_s: float | None = DEADLINE_S) -> Any:
        try:
            return super().run(asyncio.wait_for(work, timeout_s), None)
        except KafkaError as error:
            raise Refused(getattr(error, "errno", None), str(error)) from error


class AiokafkaProducer(Producer):
    def __init__(self, loop: AiokafkaLoop, bootstrap: str, options: ProducerOptions) -> None:
        self._loop = loop
        self._acks = options.acks
        loop.run(self._start(bootstrap, options))

    async def _start(self, bootstrap: str, options: ProducerOptions) -> None:
        self._library = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            acks={"0": 0, "1": 1}.get(options.acks, options.acks),
            compression_type=None if options.codec == "none" else options.codec,
            enable_idempotence=options.idempotent,
            max_request_size=options.max_request_bytes,
            max_batch_size=options.batch_bytes,
            linger_ms=options.linger_ms,
            metadata_max_age_ms=500,
            retry_backoff_ms=20,
        )
        await self._library.start()

    def send(self, topic: str, records: Sequence[Outgoing]) -> list[int | None]:
        return self._loop.run(self._send(topic, records))

    async def _send(self, topic: str, records: Sequence[Outgoing]) -> list[int | None]:
        futures = [
            await self._library.send(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        done = await asyncio.gather(*futures)
        return [None if self._acks == "0" else metadata.offset for metadata in done]

    def partition_count(self, topic: str) -> int:
        return len(self._loop.run(self._library.partitions_for(topic)))

    def close(self) -> None:
        self._loop.run(self._library.stop())


class AiokafkaConsumer(Consumer):
    def __init__(self, loop: AiokafkaLoop, bootstrap: str, reset: str) -> None:
        self._loop = loop
        loop.run(self._start(bootstrap, reset))

    async def _start(self, bootstrap: str, reset: str) -> None:
        self._library = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset=reset,
            metadata_max_age_ms=500,
            fetch_max_wait_ms=100,
            retry_backoff_ms=20,
        )
        await self._library.start()

    def assign(self, positions: Mapping[Place, int]) -> None:
        self._loop.run(self._assign(positions))

    async def _assign(self, positions: Mapping[Place, int]) -> None:
        self._library.assign([TopicPartition(*place) for place in positions])
        for place, offset in positions.items():
            self._library.seek(TopicPartition(*place), offset)

    def seek(self, place: Place, offset: int) -> None:
        self._loop.run(self._seek(place, offset))

    async def _seek(self, place: Place, offset: int) -> None:
        self._library.seek(TopicPartition(*place), offset)

    def poll(self, max_records: int, timeout_s: float) -> list[Incoming]:
        polled = self._loop.run(
            self._library.getmany(timeout_ms=int(timeout_s * 1000), max_records=max_records)
        )
        return incoming(polled)

    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None:
        asked = TopicPartition(*place)
        found = self._loop.run(self._library.offsets_for_times({asked: timestamp_ms}))[asked]
        return None if found is None else found.offset

    def beginning(self, place: Place) -> int:
        asked = TopicPartition(*place)
        return self._loop.run(self._library.beginning_offsets([asked]))[asked]

    def end(self, place: Place) -> int:
        asked = TopicPartition(*place)
        return self._loop.run(self._library.end_offsets([asked]))[asked]

    def close(self) -> None:
        self._loop.run(self._library.stop())


class AiokafkaClient(Client):
    """Its admin knows neither topic ids nor the newest timestamp; kafka-python does those steps."""

    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._loop = AiokafkaLoop()
        self._loop.run(self._start(bootstrap))
        self._other = KafkaPythonClient(bootstrap)

    async def _start(self, bootstrap: str) -> None:
        self._admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, retry_backoff_ms=20)
        await self._admin.start()

    def make_producer(self, options: ProducerOptions) -> Producer:
        return AiokafkaProducer(self._loop, self.bootstrap, options)

    def consumer(self, reset: str = "none") -> Consumer:
        return AiokafkaConsumer(self._loop, self.bootstrap, reset)

    def request_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        topic = NewTopic(name, partitions, 1, topic_configs=dict(configs))
        answer = self._loop.run(self._admin.create_topics([topic]))
        for _, code, message in answer.topic_errors:
            refuse_unless_ok(code, message)

    def delete_topic(self, name: str) -> None:
        answer = self._loop.run(self._admin.delete_topics([name]))
        for _, code in answer.topic_error_codes:
            refuse_unless_ok(code, name)

    def request_partitions(self, name: str, total: int) -> None:
        self._loop.run(self._admin.create_partitions({name: NewPartitions(total)}))

    def partition_count(self, topic: str) -> int:
        # All topics: naming one that is not there would create it.
        for known in self._loop.run(self._admin.describe_topics()):
            if known["topic"] == topic and known["error_code"] == 0:
                return sum(one["leader"] >= 0 for one in known["partitions"])
        return 0

    def topic_id(self, topic: str) -> uuid.UUID | None:
        return self._other.topic_id(topic)

    def broker_id(self) -> int:
        return self._loop.run(self._admin.describe_cluster())["brokers"][0]["node_id"]

    def configs(self, kind: str, name: str) -> dict[str, ConfigValue]:
        (answer,) = self._loop.run(self._admin.describe_configs([ConfigResource(kind, name)]))
        ((code, message, _, _, entries),) = answer.resources
        refuse_unless_ok(code, message)
        return {
            key: ConfigValue(value, CONFIG_SOURCES[source], bool(read_only))
            for key, value, read_only, source, *_ in entries
        }

    def alter_configs(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        # The library only has AlterConfigs, which resets what it does not name: so name what is set now too.
        wanted: dict[str, str | None] = {
            key: entry.value
            for key, entry in self.configs(kind, name).items()
            if entry.source == OVERRIDE_SOURCES[kind]
        }
        wanted.update(changes)
        kept = {key: value for key, value in wanted.items() if value is not None}
        answers = self._loop.run(self._admin.alter_configs([ConfigResource(kind, name, kept)]))
        for answer in answers:
            for code, message, _, _ in answer.resources:
                refuse_unless_ok(code, message)

    def delete_records(self, place: Place, before_offset: int) -> int:
        asked = TopicPartition(*place)
        done = self._loop.run(self._admin.delete_records({asked: RecordsToDelete(before_offset)}))
        return done[asked]

    def offset_of_max_timestamp(self, place: Place) -> int:
        return self._other.offset_of_max_timestamp(place)

    def close(self) -> None:
        self._other.close()
        self._loop.run(self._admin.close())
        self._loop.stop()


def refuse_unless_ok(code: int, message: str | None) -> None:
    if code:
        raise Refused(code, message or for_code(code).__name__)
