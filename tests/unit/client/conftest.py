"""A broker in memory for the client's tests: real frames, no sockets.

`FakeNetwork` replaces `create_connection` of every event loop. Whoever connects to a registered
`FakeBroker` gets a transport that hands frames to it; everybody else is refused.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from kio.schema.api_versions.v3.response import ApiVersion, ApiVersionsResponse
from kio.schema.create_partitions.v3 import response as create_partitions
from kio.schema.create_topics.v7 import response as create_topics
from kio.schema.delete_topics.v5 import response as delete_topics
from kio.schema.describe_configs.v4 import response as describe_configs
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12 import response as fetch_by_name
from kio.schema.fetch.v17 import response as fetch_by_id
from kio.schema.incremental_alter_configs.v1 import response as alter_configs
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.list_offsets.v7 import response as list_offsets
from kio.schema.metadata.v12 import response as metadata
from kio.schema.produce.v11 import response as produce
from tests.unit.client import fake_epochs, fake_groups

from ottla.client.address import Address
from ottla.client.client_options import ClientOptions
from ottla.common.ids import new_uuid
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frames import SIZE, decode_request_header, encode_frame, encode_response_header
from ottla.protocol.messages import request_decoder, response_encoder
from ottla.protocol.record_batch import decode_header, stamp
from ottla.protocol.records import decode_records
from ottla.protocol.types import NO_THROTTLE

LATEST, EARLIEST = -1, -2
REFUSALS = (ErrorCode.invalid_record, ErrorCode.message_too_large)
HERE = Address("fake", 9092)


@dataclass
class FakePartition:
    batches: list[bytearray] = field(default_factory=list)
    start: int = 0
    leader: int = 1
    leader_epoch: int = 3
    preferred_replica: int = -1

    @property
    def end(self) -> int:
        return decode_header(self.batches[-1]).next_offset if self.batches else self.start

    def append(self, batch: bytes) -> int:
        base, stamped = self.end, bytearray(batch)
        stamp(memoryview(stamped), base, self.leader_epoch)
        self.batches.append(stamped)
        return base

    def records(self) -> list[Any]:
        return [record for batch in self.batches for record in decode_records(memoryview(batch))]


@dataclass
class FakeTopic:
    partitions: list[FakePartition]
    topic_id: uuid.UUID = field(default_factory=new_uuid)
    configs: dict[str, str] = field(default_factory=dict)


class FakeBroker:
    """Answers the requests that the client sends, from a dict of topics."""

    def __init__(self, node_id: int = 1, address: Address = HERE) -> None:
        self.node_id = node_id
        self.address = address
        self.advertised = {node_id: address}
        self.topics: dict[str, FakeTopic] = {}
        self.auto_create = False
        self.names_leaders = False
        """Whether an answer to Produce says who leads, as brokers do since Kafka 3.7."""
        self.versions = {
            ApiKey.PRODUCE: (3, 11),
            ApiKey.FETCH: (4, 17),
            ApiKey.LIST_OFFSETS: (1, 7),
            ApiKey.METADATA: (0, 12),
            ApiKey.API_VERSIONS: (0, 3),
            ApiKey.CREATE_TOPICS: (2, 7),
            ApiKey.DELETE_TOPICS: (1, 5),
            ApiKey.CREATE_PARTITIONS: (0, 3),
            ApiKey.DESCRIBE_CONFIGS: (1, 4),
            ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
            ApiKey.INIT_PRODUCER_ID: (0, 4),
            **fake_epochs.VERSIONS,
            **fake_groups.VERSIONS,
        }
        self.groups: dict[str, fake_groups.FakeGroup] = {}
        self.requests: list[tuple[int, int, Any]] = []
        self.next_producer_id = 100
        self.faults: dict[int, deque[ErrorCode | str]] = {}
        """What goes wrong with an API's next requests: an error code, or `drop`, `lose reply`, `silent`."""

    def add_topic(self, name: str, partitions: int = 1) -> FakeTopic:
        self.topics[name] = FakeTopic([FakePartition() for _ in range(partitions)])
        return self.topics[name]

    def fail(self, api_key: int, *faults: ErrorCode | str) -> None:
        self.faults.setdefault(api_key, deque()).extend(faults)

    def sent(self, api_key: int) -> list[Any]:
        return [request for key, _, request in self.requests if key == api_key]

    def answer(self, frame: memoryview) -> bytes | str | None:
        header, at = decode_request_header(frame)
        key, version = header.api_key, header.api_version
        oldest, newest = self.versions[ApiKey(key)]
        if key == ApiKey.API_VERSIONS and version > newest:
            body = int(ErrorCode.unsupported_version).to_bytes(2, "big") + bytes(4)
            return encode_frame(encode_response_header(key, 0, header.correlation_id), body)
        assert oldest <= version <= newest, f"client sent {ApiKey(key).name} v{version}"
        as_version = self._as_version(key, version)
        request = request_decoder(key, version, as_version)(frame, at)
        self.requests.append((key, version, request))
        faults = self.faults.get(key)
        fault = faults.popleft() if faults else None
        if fault in ("drop", "silent"):
            return fault
        response = HANDLERS[ApiKey(key)](self, request, fault if isinstance(fault, ErrorCode) else None)
        if fault == "lose reply":
            return "drop"
        if response is None:
            return None
        body = response_encoder(key, version, as_version)(response)
        return encode_frame(encode_response_header(key, version, header.correlation_id), body)

    @staticmethod
    def _as_version(key: int, version: int) -> int:
        if key == ApiKey.FETCH:
            return 17 if version >= 13 else 12
        if key == ApiKey.API_VERSIONS:
            return 3
        if ApiKey(key) in fake_groups.HANDLERS:
            return fake_groups.as_version(key, version)
        return NEWEST[ApiKey(key)]

    def api_versions(self, request: Any, fault: ErrorCode | None) -> Any:
        keys = tuple(
            ApiVersion(api_key=k, min_version=a, max_version=b) for k, (a, b) in self.versions.items()
        )
        return ApiVersionsResponse(error_code=ErrorCode.none, api_keys=keys, throttle_time=NO_THROTTLE)

    def metadata(self, request: Any, fault: ErrorCode | None) -> Any:
        names = list(self.topics) if request.topics is None else [each.name for each in request.topics]
        if self.auto_create and request.allow_auto_topic_creation:
            for name in names:
                if name not in self.topics:
                    self.add_topic(name)
        return metadata.MetadataResponse(
            throttle_time=NO_THROTTLE,
            brokers=tuple(
                metadata.MetadataResponseBroker(node_id=node, host=at.host, port=at.port)
                for node, at in self.advertised.items()
            ),
            cluster_id="fake-cluster",
            controller_id=self.node_id,
            topics=tuple(self._topic_metadata(name, fault) for name in names),
        )

    def _topic_metadata(self, name: str, fault: ErrorCode | None) -> Any:
        topic = self.topics.get(name)
        if topic is None or fault:
            return metadata.MetadataResponseTopic(
                error_code=fault or ErrorCode.unknown_topic_or_partition,
                name=name,
                topic_id=None,
                partitions=(),
            )
        return metadata.MetadataResponseTopic(
            error_code=ErrorCode.none,
            name=name,
            topic_id=topic.topic_id,
            is_internal=name.startswith("__"),
            partitions=tuple(
                metadata.MetadataResponsePartition(
                    error_code=ErrorCode.none,
                    partition_index=index,
                    leader_id=each.leader,
                    leader_epoch=each.leader_epoch,
                    replica_nodes=(1,),
                    isr_nodes=(1,),
                )
                for index, each in enumerate(topic.partitions)
            ),
        )

    def create_topics(self, request: Any, fault: ErrorCode | None) -> Any:
        asked = request.topics[0]
        bad = next((each.name for each in asked.configs if each.name != "retention.ms"), None)
        error, message = fault or ErrorCode.none, None
        if asked.name in self.topics:
            error, message = ErrorCode.topic_already_exists, f"Topic '{asked.name}' already exists."
        elif bad:
            error, message = ErrorCode.invalid_config, f"Unknown topic config name: {bad}"
        count = 1 if asked.num_partitions == -1 else asked.num_partitions
        if not error and not request.validate_only:
            self.add_topic(asked.name, count).configs.update(
                {each.name: each.value for each in asked.configs}
            )
        result = create_topics.CreatableTopicResult(
            name=asked.name,
            topic_id=self.topics[asked.name].topic_id if asked.name in self.topics else None,
            error_code=error,
            error_message=message,
            num_partitions=count,
            replication_factor=1,
            configs=(),
        )
        return create_topics.CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=(result,))

    def delete_topics(self, request: Any, fault: ErrorCode | None) -> Any:
        name = request.topic_names[0]
        if not fault:
            del self.topics[name]
        result = delete_topics.DeletableTopicResult(name=name, error_code=fault or ErrorCode.none)
        return delete_topics.DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=(result,))

    def create_partitions(self, request: Any, fault: ErrorCode | None) -> Any:
        asked = request.topics[0]
        partitions = self.topics[asked.name].partitions
        error, message = fault or ErrorCode.none, None
        if asked.count <= len(partitions):
            error, message = (
                ErrorCode.invalid_partitions,
                f"{asked.name} has {len(partitions)} partitions already",
            )
        elif not request.validate_only:
            partitions.extend(FakePartition() for _ in range(asked.count - len(partitions)))
        result = create_partitions.CreatePartitionsTopicResult(
            name=asked.name, error_code=error, error_message=message
        )
        return create_partitions.CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=(result,))

    def describe_configs(self, request: Any, fault: ErrorCode | None) -> Any:
        name = request.resources[0].resource_name
        overrides = self.topics[name].configs
        values = {"cleanup.policy": "delete", "retention.ms": "604800000", **overrides}
        result = describe_configs.DescribeConfigsResult(
            error_code=fault or ErrorCode.none,
            error_message=None,
            resource_type=2,
            resource_name=name,
            configs=tuple(
                describe_configs.DescribeConfigsResourceResult(
                    name=key,
                    value=value,
                    read_only=False,
                    config_source=1 if key in overrides else 5,
                    is_sensitive=False,
                    synonyms=(),
                    documentation=None,
                )
                for key, value in values.items()
            ),
        )
        return describe_configs.DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=(result,))

    def alter_configs(self, request: Any, fault: ErrorCode | None) -> Any:
        resource = request.resources[0]
        error, message = fault or ErrorCode.none, None
        for each in resource.configs:
            if each.name not in ("retention.ms", "cleanup.policy"):
                error, message = ErrorCode.invalid_config, f"Unknown topic config name: {each.name}"
        if not error and not request.validate_only:
            configs = self.topics[resource.resource_name].configs
            for each in resource.configs:
                configs.pop(each.name, None)
                if each.config_operation == 0:
                    configs[each.name] = each.value
        result = alter_configs.AlterConfigsResourceResponse(
            error_code=error, error_message=message, resource_type=2, resource_name=resource.resource_name
        )
        return alter_configs.IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=(result,))

    def init_producer_id(self, request: Any, fault: ErrorCode | None) -> Any:
        self.next_producer_id += 1
        return InitProducerIdResponse(
            throttle_time=NO_THROTTLE,
            error_code=fault or ErrorCode.none,
            producer_id=self.next_producer_id,
            producer_epoch=0,
        )

    def list_offsets(self, request: Any, fault: ErrorCode | None) -> Any:
        return list_offsets.ListOffsetsResponse(
            throttle_time=NO_THROTTLE,
            topics=tuple(
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(self._offset(topic.name, each, fault) for each in topic.partitions),
                )
                for topic in request.topics
            ),
        )

    def _offset(self, name: str, asked: Any, fault: ErrorCode | None) -> Any:
        partition = self.topics[name].partitions[asked.partition_index]
        if asked.timestamp == EARLIEST:
            offset, timestamp = partition.start, -1
        elif asked.timestamp == LATEST:
            offset, timestamp = partition.end, -1
        else:
            later = [each for each in partition.records() if each.timestamp >= asked.timestamp]
            offset, timestamp = (later[0].offset, later[0].timestamp) if later else (-1, -1)
        return list_offsets.ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            error_code=fault or ErrorCode.none,
            timestamp=timestamp,
            offset=offset,
        )

    def produce(self, request: Any, fault: ErrorCode | None) -> Any:
        """Append the batches; a fault hits the first partition of the request."""
        answers = []
        for topic in request.topic_data:
            results = []
            for asked in topic.partition_data:
                error, base = self._append(topic.name, asked.index, bytes(asked.records), fault)
                fault = None
                has_moved = error is ErrorCode.not_leader_or_follower and self.names_leaders
                results.append(
                    produce.PartitionProduceResponse(
                        index=asked.index,
                        error_code=error,
                        base_offset=base,
                        log_append_time=None,
                        record_errors=(),
                        error_message=None,
                        current_leader=self._leader(topic.name, asked.index)
                        if has_moved
                        else produce.LeaderIdAndEpoch(),
                    )
                )
            answers.append(produce.TopicProduceResponse(name=topic.name, partition_responses=tuple(results)))
        if request.acks == 0:
            return None
        nodes = tuple(
            produce.NodeEndpoint(node_id=node, host=at.host, port=at.port)
            for node, at in self.advertised.items()
            if self.names_leaders
        )
        return produce.ProduceResponse(responses=tuple(answers), node_endpoints=nodes)

    def _leader(self, name: str, index: int) -> Any:
        partition = self.topics[name].partitions[index]
        return produce.LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)

    def _append(self, name: str, index: int, batch: bytes, fault: ErrorCode | None) -> tuple[ErrorCode, int]:
        """Append a batch as a broker does: what comes twice once, and nothing out of order."""
        if name not in self.topics:
            return ErrorCode.unknown_topic_or_partition, -1
        partition = self.topics[name].partitions[index]
        if partition.leader != self.node_id:
            return ErrorCode.not_leader_or_follower, -1
        new = decode_header(batch)
        before = [
            old for old in map(decode_header, partition.batches) if old.producer_id == new.producer_id >= 0
        ]
        for old in before[-5:]:
            if (old.producer_epoch, old.base_sequence) == (new.producer_epoch, new.base_sequence):
                # What was good once is not refused for what is in it.
                return (ErrorCode.none, old.base_offset) if fault in (None, *REFUSALS) else (fault, -1)
        if fault:
            return fault, -1
        expected = 0
        if before and before[-1].producer_epoch == new.producer_epoch:
            expected = before[-1].base_sequence + before[-1].record_count
        if before and before[-1].producer_epoch > new.producer_epoch:
            return ErrorCode.invalid_producer_epoch, -1
        if new.producer_id >= 0 and new.base_sequence != expected:
            return ErrorCode.out_of_order_sequence_number, -1
        return ErrorCode.none, partition.append(batch)

    def fetch(self, request: Any, fault: ErrorCode | None) -> Any:
        by_id = hasattr(request.topics[0], "topic_id")
        module: Any = fetch_by_id if by_id else fetch_by_name
        responses = []
        for asked in request.topics:
            name = self._name_of(asked.topic_id) if by_id else asked.topic
            answers = tuple(self._fetched(module, name, each, fault) for each in asked.partitions)
            who = {"topic_id": asked.topic_id} if by_id else {"topic": asked.topic}
            responses.append(module.FetchableTopicResponse(**who, partitions=answers))
        return module.FetchResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, responses=tuple(responses)
        )

    def _fetched(self, module: Any, name: str | None, asked: Any, fault: ErrorCode | None) -> Any:
        if name is None:
            fault, partition = ErrorCode.unknown_topic_id, FakePartition()
        else:
            partition = self.topics[name].partitions[asked.partition]
            fault = fault or fake_epochs.fault(self, partition, asked.current_leader_epoch)
            if not partition.start <= asked.fetch_offset <= partition.end:
                fault = ErrorCode.offset_out_of_range
        wanted = (
            []
            if fault
            else [b for b in partition.batches if decode_header(b).last_offset >= asked.fetch_offset]
        )
        return module.PartitionData(
            partition_index=asked.partition,
            error_code=fault or ErrorCode.none,
            high_watermark=partition.end,
            aborted_transactions=None,
            **fake_epochs.redirect(self, partition),
            records=b"".join(wanted) if fake_epochs.serves(self, partition) else b"",
        )

    def _name_of(self, topic_id: uuid.UUID) -> str | None:
        return next((name for name, topic in self.topics.items() if topic.topic_id == topic_id), None)


NEWEST = {
    ApiKey.PRODUCE: 11,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.INIT_PRODUCER_ID: 4,
    **fake_epochs.NEWEST,
}

HANDLERS: dict[ApiKey, Callable[[FakeBroker, Any, ErrorCode | None], Any]] = {
    ApiKey.API_VERSIONS: FakeBroker.api_versions,
    ApiKey.METADATA: FakeBroker.metadata,
    ApiKey.CREATE_TOPICS: FakeBroker.create_topics,
    ApiKey.DELETE_TOPICS: FakeBroker.delete_topics,
    ApiKey.CREATE_PARTITIONS: FakeBroker.create_partitions,
    ApiKey.DESCRIBE_CONFIGS: FakeBroker.describe_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: FakeBroker.alter_configs,
    ApiKey.INIT_PRODUCER_ID: FakeBroker.init_producer_id,
    ApiKey.LIST_OFFSETS: FakeBroker.list_offsets,
    ApiKey.PRODUCE: FakeBroker.produce,
    ApiKey.FETCH: FakeBroker.fetch,
    **fake_epochs.HANDLERS,
    **fake_groups.HANDLERS,
}


class FakeTransport(asyncio.Transport):
    """The client's end of a connection to a FakeBroker, or to raw bytes."""

    def __init__(
        self, protocol: asyncio.BufferedProtocol, answer: Callable[[memoryview], bytes | str | None]
    ) -> None:
        super().__init__()
        self._protocol = protocol
        self._answer = answer
        self._received = bytearray()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self._received += data
        while not self._closed and len(self._received) >= 4:
            size = SIZE.unpack_from(self._received)[0]
            if len(self._received) < 4 + size:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            reply = self._answer(memoryview(frame))
            if reply == "drop":
                self.lose()
            elif isinstance(reply, bytes):
                half = len(reply) // 2  # replies come in pieces, as they do in life
                self._loop.call_soon(self._deliver, reply[:half])
                self._loop.call_soon(self._deliver, reply[half:])

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def _deliver(self, data: bytes) -> None:
        while data and not self._closed:
            buffer = self._protocol.get_buffer(len(data))
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            self._protocol.buffer_updated(count)

    def lose(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self._protocol.connection_lost, ConnectionResetError(104, "reset"))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self._closed


class FakeNetwork:
    """Who listens where."""

    def __init__(self) -> None:
        self.listening: dict[tuple[str, int], Callable[[memoryview], bytes | str | None]] = {}
        self.connections: list[FakeTransport] = []

    def start(self, broker: FakeBroker) -> FakeBroker:
        self.listening[broker.address] = broker.answer
        return broker

    def cut(self) -> None:
        for each in self.connections:
            each.lose()

    async def connect(self, factory: Callable[[], asyncio.BufferedProtocol], host: str, port: int) -> Any:
        if (host, port) not in self.listening:
            raise ConnectionRefusedError(111, f"Connect call failed ({host!r}, {port})")
        protocol = factory()
        transport = FakeTransport(protocol, lambda frame: self.listening[host, port](frame))
        protocol.connection_made(transport)
        self.connections.append(transport)
        return transport, protocol


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> FakeNetwork:
    fake = FakeNetwork()

    async def create_connection(loop: Any, factory: Any, host: str, port: int, ssl: None = None) -> Any:
        return await fake.connect(factory, host, port)

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", create_connection)
    quick = ClientOptions(
        default_api_timeout_ms=30_000,
        retry_backoff_ms=1,
        retry_backoff_max_ms=3,
        reconnect_backoff_ms=1,
        reconnect_backoff_max_ms=3,
    )
    monkeypatch.setattr("ottla.client.cluster.DEFAULTS", quick)
    monkeypatch.setattr("ottla.client.cluster.CREATION_TIMEOUT_MS", 200)
    return fake


@pytest.fixture
def peer(network: FakeNetwork) -> FakeBroker:
    return network.start(FakeBroker())
