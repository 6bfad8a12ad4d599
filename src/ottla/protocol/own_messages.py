# No `from __future__ import annotations`: message_schema.py reads the types of the fields.
"""Messages of APIs that Kafka does not have, written as kio writes its own.

PrepareTransaction (key 10939) lets an ongoing two-phase transaction wait for its end without a timeout.
KIP-939 has no such request: there, a transaction with two-phase commit never times out at all, so that a
producer that dies before it has prepared blocks readers for ever.

    request v0   compact string transactional_id, int64 producer_id, int16 producer_epoch, tagged fields
    response v0  int32 throttle_time_ms, int16 error_code, compact nullable string error_message,
                 tagged fields

The headers are flexible: request header v2, response header v1. docs/transactions.md says what it does.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import ProducerId, TransactionalId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32Timedelta

from ottla.protocol.api_keys import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareTransactionRequest:
    """Asks for an ongoing two-phase transaction to be kept until somebody ends it."""

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


OWN_REQUESTS: dict[tuple[int, int], type[Any]] = {
    (ApiKey.PREPARE_TRANSACTION, 0): PrepareTransactionRequest,
}
OWN_RESPONSES: dict[tuple[int, int], type[Any]] = {
    (ApiKey.PREPARE_TRANSACTION, 0): PrepareTransactionResponse,
}
"""By API key and version."""
