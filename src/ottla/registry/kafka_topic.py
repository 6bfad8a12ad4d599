"""The `_schemas` topic on a cluster of the Kafka protocol.

On Ottla an append is one ConditionalAppend request at the partition's leader. Apache Kafka has no such
request: there see elected_topic.py.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self, cast

from kio.static.primitive import i32Timedelta

from ottla.client import AsyncConsumer, ClientError, ConsumerOptions, KafkaError, LogTruncated, NoOffset
from ottla.client.admin.topic_admin import TopicAdmin, create_compacted_topic
from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster, TopicInfo
from ottla.client.errors import error_for
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.errors import (
    InvalidRecord,
    InvalidUpdateVersion,
    MessageTooLarge,
    RecordListTooLarge,
    UnknownTopicOrPartition,
)
from ottla.protocol.own_messages import ConditionalAppendRequest, ConditionalAppendResponse
from ottla.protocol.records.records import Record, encode_batch
from ottla.protocol.types import TopicName, i32, i64
from ottla.registry.topic import Conflict, LogRecord, LogReset, Read, RecordTooLarge, Unavailable

log = logging.getLogger(__name__)

WRITE_HEADER = "ottla-write"
APPEND_TIMEOUT_S = 2.0


class WrongTopic(Exception):
    """The topic exists, but is not fit for schemas."""


class KafkaTopic:
    """One partition of a topic; use it as `async with KafkaTopic(options)`."""

    reads_before_writes = False

    def __init__(
        self, options: ClientOptions, name: str = "_schemas", *, read_committed: bool = False
    ) -> None:
        self.name = name
        self.partition = TopicPartition(name, 0)
        self.cluster = Cluster(options=options)
        self._consumer = AsyncConsumer.on(
            self.cluster,
            ConsumerOptions.of(
                auto_offset_reset="none",
                enable_auto_commit=False,
                isolation_level="read_committed" if read_committed else "read_uncommitted",
            ),
        )

    async def __aenter__(self) -> Self:
        try:
            await self.cluster.start()
            await ensure_topic(self.cluster, self.name)
            await self._consumer.start()
        except BaseException:
            await self._close()
            raise
        self._consumer.assign([self.partition])
        self.rewind()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        await self._consumer.close()
        await self.cluster.close()

    # Topic

    def rewind(self) -> None:
        """Read from the beginning again."""
        self._consumer.seek_to_beginning(self.partition)

    async def read(self, timeout_s: float) -> Read:
        """Return the next committed records; wait for some, no longer than the timeout."""
        try:
            found = await self._consumer.getmany(timeout_ms=timeout_s * 1000)
            position = await self._consumer.position(self.partition)
        except (LogTruncated, NoOffset) as error:
            raise LogReset(str(error)) from None
        except (KafkaError, ClientError) as error:
            raise Unavailable(str(error)) from None
        records = [
            LogRecord(each.offset, each.timestamp, each.key, each.value, _write_id(each.headers))
            for each in found.get(self.partition, ())
        ]
        return Read(records, position)

    async def end_offset(self) -> int:
        """Return the offset behind the last committed record."""
        try:
            return (await self._consumer.end_offsets([self.partition]))[self.partition]
        except (KafkaError, ClientError) as error:
            raise Unavailable(str(error)) from None

    async def append(
        self, records: Sequence[tuple[bytes, bytes | None]], expected: int, write_id: bytes, now_ms: int
    ) -> int:
        """Append records as one batch if the log ends at `expected`; see Topic."""
        headers = ((WRITE_HEADER, write_id),)
        batch = encode_batch(
            [Record(offset, now_ms, key, value, headers) for offset, (key, value) in enumerate(records)]
        )
        request = ConditionalAppendRequest(
            topic=TopicName(self.name),
            partition_index=i32(0),
            expected_end_offset=i64(expected),
            batch=bytes(batch),
            timeout=cast(i32Timedelta, timedelta(seconds=APPEND_TIMEOUT_S)),
        )
        try:
            leader = await self.cluster.leader(self.partition)
            connection = await self.cluster.broker(leader)
            response = await connection.request(
                request, ConditionalAppendResponse, timeout_ms=APPEND_TIMEOUT_S * 2000
            )
            if response.error_code:
                raise error_for(response.error_code, response.error_message)
        except InvalidUpdateVersion:
            raise Conflict from None
        except (MessageTooLarge, RecordListTooLarge):
            raise RecordTooLarge from None
        except InvalidRecord:
            raise
        except (KafkaError, ClientError) as error:
            self.cluster.forget(self.name)
            raise Unavailable(str(error)) from None
        return response.base_offset


def _write_id(headers: Sequence[tuple[str, bytes | None]]) -> bytes | None:
    return next((value for name, value in headers if name == WRITE_HEADER), None)


async def is_conditional(options: ClientOptions) -> bool:
    """Return whether the brokers append conditionally: Ottla's do."""
    async with Cluster(options=options) as cluster:
        connection = await cluster.any_broker()
        return ApiKey.CONDITIONAL_APPEND in connection.session.versions


async def ensure_topic(cluster: Cluster, name: str) -> None:
    """Create the topic if it is not there; refuse one that would lose schemas."""
    try:
        found = await cluster.topic(name)
    except UnknownTopicOrPartition:
        if await create_compacted_topic(cluster, name):
            log.info("created the topic %s", name)
        found = await _await_topic(cluster, name)
    if len(found.partitions) != 1:
        raise WrongTopic(f"{name} has {len(found.partitions)} partitions: the schemas need a topic with one")
    policy = (await TopicAdmin(cluster).topics_config("cleanup.policy", [name])).get(name, "compact")
    if "compact" not in policy:
        raise WrongTopic(f"{name} has cleanup.policy={policy}, which loses schemas: it must be compact")


async def _await_topic(cluster: Cluster, name: str) -> TopicInfo:
    async def known() -> TopicInfo:
        return await cluster.topic(name)

    return await cluster.retrying(known, also=frozenset({UnknownTopicOrPartition.code}))
