# No `from __future__ import annotations`: record_schema.py reads the types of the fields.
"""Encodes and decodes the records of `__transaction_state`.

The key is the transactional id (record type 0), the value a `TransactionValue`: versions 0 and 1 are read,
version 1, which is flexible, is written. Kafka ignores our own tagged field, 10939, and knows neither an
epoch of `last` nor one of `next`, which is 0 then.

A record is written at every step of every transaction, and from one to the next little more than the state
and the times change. So the parts of fixed size are packed each time, and those of variable size, which the
declared layout gives, are cached.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from typing import ClassVar

from ottla.common.ids import TopicPartition
from ottla.coordinator.record_schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    KeyCodec,
    ValueCodec,
    read_int16,
    since,
    tag,
)
from ottla.coordinator.transaction.transaction import NO_PRODUCER, Producer, Record, State, Transaction
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import encode_uvarint

OWN_TAG = 10939
TWO_PHASE, PREPARED = 1, 2
CACHED = 1024
"""How many keys, sets of partitions and sets of tagged fields are kept encoded."""


@dataclass(frozen=True, slots=True)
class TransactionKey:
    """The key of a record."""

    transactional_id: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """The partitions of one topic in a transaction."""

    topic: str = field(metadata=STRING)
    partitions: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True)
class OwnFields:
    """What Kafka's records do not hold: flags (1 two-phase, 2 prepared), epoch of `last`, principal."""

    __tagged__: ClassVar[bool] = False
    flags: int = field(metadata=INT8, default=0)
    last_epoch: int = field(metadata=INT16, default=-1)
    principal: str = field(metadata=STRING, default="")


@dataclass(frozen=True, slots=True)
class TransactionValue:
    """The value of a record."""

    producer_id: int = field(metadata=INT64, default=-1)
    producer_epoch: int = field(metadata=INT16, default=-1)
    timeout_ms: int = field(metadata=INT32, default=0)
    state: int = field(metadata=INT8, default=0)
    topics: tuple[TopicPartitions, ...] | None = None
    last_update_ms: int = field(metadata=INT64, default=-1)
    start_ms: int = field(metadata=INT64, default=-1)
    last_producer_id: int = field(metadata=INT64 | tag(0) | since(1), default=-1)
    next_producer_id: int = field(metadata=INT64 | tag(1) | since(1), default=-1)
    transaction_version: int = field(metadata=INT16 | tag(2) | since(1), default=0)
    next_producer_epoch: int = field(metadata=INT16 | tag(3) | since(1), default=-1)
    own: OwnFields = field(metadata=tag(OWN_TAG) | since(1), default=OwnFields())


KEY = KeyCodec(0, TransactionKey)
VALUE = ValueCodec(TransactionValue, newest=1, flexible_since=1, written=1)

_HEAD = Struct(">hqhib")
"""Version, producer id, producer epoch, timeout, state."""
_TIMES = Struct(">qq")
_LAST_AND_VERSION = Struct(">BBBqBBh2sBbhB")
"""Three tagged fields: id of `last`, transaction version, our own but for the name of the principal."""
_OWN_TAG = encode_uvarint(OWN_TAG)


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Return the bytes of a record's key and value."""
    transactional_id, value = record
    key = _encode_key(transactional_id)
    if value is None:
        return key, None
    flags = TWO_PHASE * value.is_two_phase | PREPARED * value.is_prepared
    return key, b"".join(
        (
            _HEAD.pack(1, *value.producer, value.timeout_ms, value.state),
            _encode_topics(value.partitions),
            _TIMES.pack(value.last_update_ms, value.start_ms),
            _encode_tags(value.last, value.next, value.version, flags, value.principal),
        )
    )


@lru_cache(CACHED)
def _encode_key(transactional_id: str) -> bytes:
    return KEY.encode(TransactionKey(transactional_id))


@lru_cache(CACHED)
def _encode_topics(partitions: frozenset[TopicPartition]) -> bytes:
    """Return the part of a value between its head and its times; no partitions are null, as in Kafka."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    value = TransactionValue(
        topics=tuple(TopicPartitions(topic, tuple(indexes)) for topic, indexes in topics.items()) or None
    )
    no_tags = 1
    return VALUE.encode(value)[_HEAD.size : -_TIMES.size - no_tags]


@lru_cache(CACHED)
def _encode_tags(last: Producer, following: Producer, version: int, flags: int, principal: str) -> bytes:
    """Return the part of a value after its times."""
    if following == NO_PRODUCER and last != NO_PRODUCER and version:
        # The end of every transaction of `transaction.version=2`: its epoch is not in the cache.
        name = principal.encode()
        size = len(name)
        if size < 0x70:  # its length, and that of the field, take one byte
            head = (3, 0, 8, last.producer_id, 2, 2, version)
            return _LAST_AND_VERSION.pack(*head, _OWN_TAG, 4 + size, flags, last.epoch, 1 + size) + name
    value = TransactionValue(
        last_producer_id=last.producer_id,
        next_producer_id=following.producer_id,
        transaction_version=version,
        next_producer_epoch=following.epoch,
        own=OwnFields(flags, last.epoch, principal),
    )
    no_topics = 1
    return VALUE.encode(value)[_HEAD.size + no_topics + _TIMES.size :]


def decode_record(raw_key: bytes | None, raw_value: bytes | None) -> Record | None:
    """Return a record, or None if its type is none of ours; raise InvalidRequest if it is torn."""
    if raw_key is None:
        raise InvalidRequest("a record has no key")
    if read_int16(raw_key) != 0:
        return None
    transactional_id = KEY.decode(raw_key).transactional_id
    return Record(transactional_id, None if raw_value is None else _transaction(VALUE.decode(raw_value)))


def _transaction(value: TransactionValue) -> Transaction:
    if not State.EMPTY <= value.state <= State.PREPARE_EPOCH_FENCE:
        raise InvalidRequest(f"there is no state {value.state} of a transaction")
    own = value.own
    has_last = value.last_producer_id >= 0 and own.last_epoch >= 0
    return Transaction(
        producer=Producer(value.producer_id, value.producer_epoch),
        timeout_ms=value.timeout_ms,
        state=State(value.state),
        last_update_ms=value.last_update_ms,
        start_ms=value.start_ms,
        partitions=frozenset(
            TopicPartition(each.topic, index) for each in value.topics or () for index in each.partitions
        ),
        last=Producer(value.last_producer_id, own.last_epoch) if has_last else NO_PRODUCER,
        next=(
            NO_PRODUCER
            if value.next_producer_id < 0
            else Producer(value.next_producer_id, max(value.next_producer_epoch, 0))
        ),
        version=value.transaction_version,
        is_two_phase=bool(own.flags & TWO_PHASE),
        is_prepared=bool(own.flags & PREPARED),
        principal=own.principal,
    )
