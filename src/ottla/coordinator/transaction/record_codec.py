"""Records of `__transaction_state`, between bytes and transaction.py.

key     int16 0, string transactional_id
value   int16 version, int64 producer_id, int16 producer_epoch, int32 timeout_ms, int8 state, nullable array
        of topics (string topic, array of int32 partitions), int64 last_update_ms, int64 start_ms

Versions 0 and 1 are read, version 1 is written, which is flexible. Its tagged fields:

        0  int64   previous producer id: of `last`
        1  int64   next producer id
        2  int16   transaction version
        3  int16   next producer epoch (KIP-939)
    10939  ours    int8 flags (1 two-phase, 2 prepared), int16 last epoch, string principal

Kafka ignores the last one, and writes neither an epoch of `last` nor one of `next`, which is 0 then.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct, error

from ottla.common.ids import TopicPartition
from ottla.coordinator.group.wire import INT8, INT16, INT32, INT64, NO_TAGS, Reader, compact_array
from ottla.coordinator.transaction.transaction import NOBODY, Producer, Record, State, Transaction
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.primitives import (
    encode_compact_string,
    encode_string,
    encode_uvarint,
    read_string,
    truncated,
)

NEWEST = 1
OWN_TAG = 10939
TWO_PHASE, PREPARED = 1, 2
CACHED = 1024
"""How many keys, sets of partitions and sets of tags are kept encoded: from one record of an id to the next
they hardly change."""

_HEAD = Struct(">hqhib")
_TIMES = Struct(">qq")
_OWN = Struct(">bh")


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Return the bytes of a record's key and value."""
    key = _encode_key(record.transactional_id)
    return key, None if record.value is None else _encode_value(record.value)


@lru_cache(CACHED)
def _encode_key(transactional_id: str) -> bytes:
    return INT16.pack(0) + encode_string(transactional_id)


def _encode_value(value: Transaction) -> bytes:
    producer = value.producer
    head = _HEAD.pack(NEWEST, producer.producer_id, producer.epoch, value.timeout_ms, value.state)
    times = _TIMES.pack(value.last_update_ms, value.start_ms)
    flags = TWO_PHASE * value.is_two_phase | PREPARED * value.is_prepared
    tags = _encode_tags(value.last, value.next, value.version, flags, value.principal)
    return b"".join((head, _encode_partitions(value.partitions), times, tags))


@lru_cache(CACHED)
def _encode_partitions(partitions: frozenset[TopicPartition]) -> bytes:
    if not partitions:
        return b"\x00"  # null, as Kafka does
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return compact_array(
        encode_compact_string(topic) + compact_array(map(INT32.pack, indexes)) + NO_TAGS
        for topic, indexes in topics.items()
    )


@lru_cache(CACHED)
def _encode_tags(last: Producer, following: Producer, version: int, flags: int, principal: str) -> bytes:
    tags: list[tuple[int, bytes]] = []
    if last != NOBODY:
        tags.append((0, INT64.pack(last.producer_id)))
    if following != NOBODY:
        tags.append((1, INT64.pack(following.producer_id)))
    if version:
        tags.append((2, INT16.pack(version)))
    if following != NOBODY:
        tags.append((3, INT16.pack(following.epoch)))
    if flags or principal or last != NOBODY:
        own = _OWN.pack(flags, last.epoch) + encode_compact_string(principal)
        tags.append((OWN_TAG, own))
    written = (encode_uvarint(tag) + encode_uvarint(len(raw)) + raw for tag, raw in tags)
    return encode_uvarint(len(tags)) + b"".join(written)


def decode_record(raw_key: bytes | None, raw_value: bytes | None) -> Record | None:
    """Return a record, or None if its type is none of ours; raise InvalidRequest if it is torn."""
    if raw_key is None:
        raise InvalidRequest("a record has no key")
    if _version_of(raw_key) != 0:
        return None
    transactional_id, _ = read_string(raw_key, 2)
    return Record(transactional_id, None if raw_value is None else _decode_value(raw_value))


def _decode_value(raw: bytes) -> Transaction:
    version = _version_of(raw)
    if not 0 <= version <= NEWEST:
        raise InvalidRequest(f"version {version} of the value is not known")
    reader = Reader(raw, 2, flexible=version >= 1)
    producer = Producer(reader.number(INT64), reader.number(INT16))
    timeout_ms, state = reader.number(INT32), reader.number(INT8)
    if not State.EMPTY <= state <= State.PREPARE_EPOCH_FENCE:
        raise InvalidRequest(f"there is no state {state} of a transaction")
    partitions = _read_partitions(reader)
    last_update_ms, start_ms = reader.number(INT64), reader.number(INT64)
    tags = reader.tags()
    flags, last_epoch, principal = 0, -1, ""
    if OWN_TAG in tags:
        own = tags[OWN_TAG]
        flags, last_epoch, principal = own.number(INT8), own.number(INT16), own.string()
    last_id = tags[0].number(INT64) if 0 in tags else -1
    next_id = tags[1].number(INT64) if 1 in tags else -1
    next_epoch = tags[3].number(INT16) if 3 in tags else 0
    return Transaction(
        producer=producer,
        timeout_ms=timeout_ms,
        state=State(state),
        last_update_ms=last_update_ms,
        start_ms=start_ms,
        partitions=partitions,
        last=NOBODY if last_id < 0 or last_epoch < 0 else Producer(last_id, last_epoch),
        next=NOBODY if next_id < 0 else Producer(next_id, next_epoch),
        version=tags[2].number(INT16) if 2 in tags else 0,
        is_two_phase=bool(flags & TWO_PHASE),
        is_prepared=bool(flags & PREPARED),
        principal=principal,
    )


def _read_partitions(reader: Reader) -> frozenset[TopicPartition]:
    def topic() -> list[TopicPartition]:
        name, indexes = reader.string(), reader.array(reader.int32)
        reader.tags()
        return [TopicPartition(name, index) for index in indexes]

    return frozenset(each for partitions in reader.nullable_array(topic) or () for each in partitions)


def _version_of(raw: bytes) -> int:
    try:
        return int(INT16.unpack_from(raw)[0])
    except error:
        raise truncated() from None
