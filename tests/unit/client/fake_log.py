"""The partitions of the client tests' broker in memory: produce, fetch, list offsets."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12 import response as fetch_by_name
from kio.schema.fetch.v17 import response as fetch_by_id
from kio.schema.list_offsets.v7 import response as list_offsets
from kio.schema.produce.v11 import response as produce
from tests.unit.client import fake_epochs

from ottla.common.ids import new_uuid
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.records.batch import decode_header, stamp
from ottla.protocol.records.records import decode_records
from ottla.protocol.types import NO_THROTTLE

LATEST, EARLIEST = -1, -2
REFUSALS = (ErrorCode.invalid_record, ErrorCode.message_too_large)


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


def answer_list_offsets(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    return list_offsets.ListOffsetsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            list_offsets.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(_offset(broker, topic.name, each, fault) for each in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _offset(broker: Any, name: str, asked: Any, fault: ErrorCode | None) -> Any:
    partition = broker.topics[name].partitions[asked.partition_index]
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


def answer_produce(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    """Append the batches; a fault hits the first partition of the request."""
    answers = []
    for topic in request.topic_data:
        results = []
        for asked in topic.partition_data:
            error, base = _append(broker, topic.name, asked.index, bytes(asked.records), fault)
            fault = None
            has_moved = error is ErrorCode.not_leader_or_follower and broker.names_leaders
            results.append(
                produce.PartitionProduceResponse(
                    index=asked.index,
                    error_code=error,
                    base_offset=base,
                    log_append_time=None,
                    record_errors=(),
                    error_message=None,
                    current_leader=_leader(broker, topic.name, asked.index)
                    if has_moved
                    else produce.LeaderIdAndEpoch(),
                )
            )
        answers.append(produce.TopicProduceResponse(name=topic.name, partition_responses=tuple(results)))
    if request.acks == 0:
        return None
    nodes = tuple(
        produce.NodeEndpoint(node_id=node, host=at.host, port=at.port)
        for node, at in broker.advertised.items()
        if broker.names_leaders
    )
    return produce.ProduceResponse(responses=tuple(answers), node_endpoints=nodes)


def _leader(broker: Any, name: str, index: int) -> Any:
    partition = broker.topics[name].partitions[index]
    return produce.LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)


def _append(
    broker: Any, name: str, index: int, batch: bytes, fault: ErrorCode | None
) -> tuple[ErrorCode, int]:
    """Append a batch as a broker does: what comes twice once, and nothing out of order."""
    if name not in broker.topics:
        return ErrorCode.unknown_topic_or_partition, -1
    partition = broker.topics[name].partitions[index]
    if partition.leader != broker.node_id:
        return ErrorCode.not_leader_or_follower, -1
    new = decode_header(batch)
    before = [old for old in map(decode_header, partition.batches) if old.producer_id == new.producer_id >= 0]
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


def answer_fetch(broker: Any, request: Any, fault: ErrorCode | None) -> Any:
    by_id = hasattr(request.topics[0], "topic_id")
    module: Any = fetch_by_id if by_id else fetch_by_name
    responses = []
    for asked in request.topics:
        name = _name_of(broker, asked.topic_id) if by_id else asked.topic
        answers = tuple(_fetched(broker, module, name, each, fault) for each in asked.partitions)
        who = {"topic_id": asked.topic_id} if by_id else {"topic": asked.topic}
        responses.append(module.FetchableTopicResponse(**who, partitions=answers))
    return module.FetchResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, responses=tuple(responses)
    )


def _fetched(broker: Any, module: Any, name: str | None, asked: Any, fault: ErrorCode | None) -> Any:
    if name is None:
        fault, partition = ErrorCode.unknown_topic_id, FakePartition()
    else:
        partition = broker.topics[name].partitions[asked.partition]
        fault = fault or fake_epochs.fault(broker, partition, asked.current_leader_epoch)
        if not partition.start <= asked.fetch_offset <= partition.end:
            fault = ErrorCode.offset_out_of_range
    wanted = (
        [] if fault else [b for b in partition.batches if decode_header(b).last_offset >= asked.fetch_offset]
    )
    return module.PartitionData(
        partition_index=asked.partition,
        error_code=fault or ErrorCode.none,
        high_watermark=partition.end,
        aborted_transactions=None,
        **fake_epochs.redirect(broker, partition),
        records=b"".join(wanted) if fake_epochs.serves(broker, partition) else b"",
    )


def _name_of(broker: Any, topic_id: uuid.UUID) -> str | None:
    return next((name for name, topic in broker.topics.items() if topic.topic_id == topic_id), None)


VERSIONS = {
    ApiKey.PRODUCE: (3, 11),
    ApiKey.FETCH: (4, 17),
    ApiKey.LIST_OFFSETS: (1, 7),
}
NEWEST = {
    ApiKey.PRODUCE: 11,
    ApiKey.LIST_OFFSETS: 7,
}
HANDLERS: dict[ApiKey, Any] = {
    ApiKey.PRODUCE: answer_produce,
    ApiKey.FETCH: answer_fetch,
    ApiKey.LIST_OFFSETS: answer_list_offsets,
}
