"""A broker in memory for the client's tests: it answers real frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kio.schema.api_versions.v3.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.metadata.v12 import response as metadata
from tests.unit.client import fake_admin, fake_epochs, fake_groups, fake_log
from tests.unit.client.fake_log import FakePartition, FakeTopic

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.frames import decode_request_header, encode_frame, encode_response_header
from ottla.protocol.schema.messages import request_decoder, response_encoder
from ottla.protocol.types import NO_THROTTLE
from ottla.wire.address import Address

HERE = Address("fake", 9092)


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
            ApiKey.METADATA: (0, 12),
            ApiKey.API_VERSIONS: (0, 3),
            ApiKey.INIT_PRODUCER_ID: (0, 4),
            **fake_log.VERSIONS,
            **fake_admin.VERSIONS,
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

    def init_producer_id(self, request: Any, fault: ErrorCode | None) -> Any:
        self.next_producer_id += 1
        return InitProducerIdResponse(
            throttle_time=NO_THROTTLE,
            error_code=fault or ErrorCode.none,
            producer_id=self.next_producer_id,
            producer_epoch=0,
        )


NEWEST = {
    ApiKey.METADATA: 12,
    ApiKey.INIT_PRODUCER_ID: 4,
    **fake_log.NEWEST,
    **fake_admin.NEWEST,
    **fake_epochs.NEWEST,
}

HANDLERS: dict[ApiKey, Callable[[FakeBroker, Any, ErrorCode | None], Any]] = {
    ApiKey.API_VERSIONS: FakeBroker.api_versions,
    ApiKey.METADATA: FakeBroker.metadata,
    ApiKey.INIT_PRODUCER_ID: FakeBroker.init_producer_id,
    **fake_log.HANDLERS,
    **fake_admin.HANDLERS,
    **fake_epochs.HANDLERS,
    **fake_groups.HANDLERS,
}
