# No `from __future__ import annotations`: message_schema.py reads the types of the fields.
"""Messages of APIs that Kafka does not have, written as kio writes its own.

PrepareTransaction (key 10939) lets an ongoing two-phase transaction wait for its end without a timeout.
KIP-939 has no such request: there, a transaction with two-phase commit never times out at all, so that a
producer that dies before it has prepared blocks readers forever.

    request v0   compact string transactional_id, int64 producer_id, int16 producer_epoch, tagged fields
    response v0  int32 throttle_time_ms, int16 error_code, compact nullable string error_message,
                 tagged fields

docs/transactions.md says what it does.

MeasureLag (key 10940) is what the coordinator of a group asks the leaders of partitions that it has no
replica of: where they start and end, and of when the first record is at or after an offset. Kafka's
ListOffsets and Fetch would tell that too, with one request and one batch of records for each partition.

    request v0   compact array of (compact string topic, int32 partition, int64 offset)
    response v0  int32 throttle_time_ms, int16 error_code, compact array of (int16 error_code,
                 int64 start_offset, int64 end_offset, int64 timestamp), in the order of the request

The timestamp is -1 if there is no such record.

ConditionalAppend (key 10941) is a compare-and-set on a partition: a batch is appended if the log ends where
the writer thinks it does, so that a decision made from the records of a partition is made from all of them.
Kafka has no such request (KIP-27 proposed one).

    request v0   compact string topic, int32 partition, int64 expected_end_offset, compact bytes batch,
                 int32 timeout_ms
    response v0  int32 throttle_time_ms, int16 error_code, compact nullable string error_message,
                 int64 base_offset, int64 end_offset

INVALID_UPDATE_VERSION: the log ends at end_offset, and nothing was appended. REQUEST_TIMED_OUT: the batch is
in the leader's log, but was not committed in time. The base offset is -1 unless the batch is committed.

DescribeBrokerHealth (key 10942) is what a broker says of itself: disks, metadata, partitions that cannot be
written, groups, transactions. Kafka's requests show what the cluster has agreed on, which is out of date
while there is no quorum to agree.

    request v0   boolean include_ensemble
    response v0  int32 throttle_time_ms, int16 error_code, compact string report

The report is JSON (api/support/broker_health.py): a field that a reader does not know is ignored. With
include_ensemble the broker also asks the servers of its metadata store.

DumpMetadata (key 10943) returns the whole metadata of the cluster, as the records that create it; a backup
needs what Kafka's requests do not tell: the keys of SCRAM users, delegation tokens, producer ids.

    request v0   (nothing)
    response v0  int32 throttle_time_ms, int16 error_code, compact nullable string error_message,
                 int64 version, compact bytes records

RestoreMetadata (key 10944) creates what such records have and the cluster has not. The controller serves it.

    request v0   compact bytes records, boolean overwrite, boolean validate_only
    response v0  int32 throttle_time_ms, int16 error_code, compact nullable string error_message,
                 compact string outcomes

Records are lines of JSON (metadata/records.py), deflated. The outcomes are a JSON list of
[kind, name, action, detail], one for each thing in the records (controller/machine/restore.py).

Every struct ends with tagged fields. The headers are
flexible: request header v2, response header v1.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i32Timedelta, i64

from ottla.protocol.api_keys import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareTransactionRequest:
    """Asks for an ongoing two-phase transaction to be kept until it is ended."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.PREPARE_TRANSACTION)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    transactional_id: TransactionalId = field(metadata={"kafka_type": "string"})
    producer_id: ProducerId = field(metadata={"kafka_type": "int64"})
    producer_epoch: i16 = field(metadata={"kafka_type": "int16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareTransactionResponse:
    """Says whether the transaction is prepared now."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.PREPARE_TRANSACTION)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionToMeasure:
    """A partition, and the position of a reader."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.MEASURE_LAG)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    topic: TopicName = field(metadata={"kafka_type": "string"})
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    offset: i64 = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureLagRequest:
    """Asks the leader of partitions how much there is to read from an offset on in each."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.MEASURE_LAG)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    partitions: tuple[PartitionToMeasure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPartition:
    """Where a partition starts and ends, and the time of the first record that is to be read."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.MEASURE_LAG)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    start_offset: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    end_offset: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    timestamp: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureLagResponse:
    """Says it of each partition, in the order of the request."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.MEASURE_LAG)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    partitions: tuple[MeasuredPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalAppendRequest:
    """Asks the leader of a partition to append a batch, if the log ends at an offset."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.CONDITIONAL_APPEND)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    topic: TopicName = field(metadata={"kafka_type": "string"})
    partition_index: i32 = field(metadata={"kafka_type": "int32"})
    expected_end_offset: i64 = field(metadata={"kafka_type": "int64"})
    batch: bytes = field(metadata={"kafka_type": "bytes"})
    timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalAppendResponse:
    """Says where the batch is, or where the log ends."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.CONDITIONAL_APPEND)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"}, default=None)
    base_offset: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    end_offset: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeBrokerHealthRequest:
    """Asks a broker how it is."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.DESCRIBE_BROKER_HEALTH)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    include_ensemble: bool = field(metadata={"kafka_type": "bool"}, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeBrokerHealthResponse:
    """The broker's report, as JSON."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.DESCRIBE_BROKER_HEALTH)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    report: str = field(metadata={"kafka_type": "string"}, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpMetadataRequest:
    """Asks for the metadata of the cluster."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.DUMP_METADATA)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpMetadataResponse:
    """The records that create the metadata of a version."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.DUMP_METADATA)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"}, default=None)
    version: i64 = field(metadata={"kafka_type": "int64"}, default=i64(-1))
    records: bytes = field(metadata={"kafka_type": "bytes"}, default=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMetadataRequest:
    """Asks the controller to create what the records have and the cluster has not."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.RESTORE_METADATA)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    records: bytes = field(metadata={"kafka_type": "bytes"})
    overwrite: bool = field(metadata={"kafka_type": "bool"}, default=False)
    validate_only: bool = field(metadata={"kafka_type": "bool"}, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMetadataResponse:
    """Says what became of each thing in the records."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(ApiKey.RESTORE_METADATA)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"}, default=None)
    outcomes: str = field(metadata={"kafka_type": "string"}, default="[]")


OWN_REQUESTS: dict[tuple[int, int], type[Any]] = {
    (ApiKey.PREPARE_TRANSACTION, 0): PrepareTransactionRequest,
    (ApiKey.MEASURE_LAG, 0): MeasureLagRequest,
    (ApiKey.CONDITIONAL_APPEND, 0): ConditionalAppendRequest,
    (ApiKey.DESCRIBE_BROKER_HEALTH, 0): DescribeBrokerHealthRequest,
    (ApiKey.DUMP_METADATA, 0): DumpMetadataRequest,
    (ApiKey.RESTORE_METADATA, 0): RestoreMetadataRequest,
}
OWN_RESPONSES: dict[tuple[int, int], type[Any]] = {
    (ApiKey.PREPARE_TRANSACTION, 0): PrepareTransactionResponse,
    (ApiKey.MEASURE_LAG, 0): MeasureLagResponse,
    (ApiKey.CONDITIONAL_APPEND, 0): ConditionalAppendResponse,
    (ApiKey.DESCRIBE_BROKER_HEALTH, 0): DescribeBrokerHealthResponse,
    (ApiKey.DUMP_METADATA, 0): DumpMetadataResponse,
    (ApiKey.RESTORE_METADATA, 0): RestoreMetadataResponse,
}
"""By API key and version."""
