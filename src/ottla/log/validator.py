"""Validate a produced batch before the leader appends it, and rewrite it if the topic's config asks for that.

By default only the header is checked. Some topic configs need more: LogAppendTime, a `compression.type` other
than `producer`, compaction, a limit on the age of timestamps. If the records themselves must be read, that
can take up to a second: `is_expensive_to_validate` then returns True, and the caller runs `validate_records`
in a thread before it appends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.log.log_config import LONG_MAX, LogConfig
from ottla.protocol.errors import InvalidRecord, InvalidTimestamp, KafkaError, MessageTooLarge
from ottla.protocol.records.batch import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    crc_of,
    decode_header,
    stamp_log_append_time,
)
from ottla.protocol.records.compression import CODEC_NAMES, compress, decompress
from ottla.protocol.records.records import MAX_DECOMPRESSED_BYTES, iter_record_heads

MAX_INLINE_RECORDS = 100
"""Records of an uncompressed batch that are validated on the loop; a compressed batch may have very many."""

MAX_NAMED_RECORDS = 1_000
"""How many bad records an error names, so that a small batch cannot cause a huge response."""

ThrottleCallback = Callable[[], None]

_RECORDS_PER_SLICE = 500
_CODECS = {name: number for number, name in enumerate(CODEC_NAMES)} | {"uncompressed": 0}


class ValidatedBatch(NamedTuple):
    """A batch as it is to be appended."""

    batch: memoryview
    header: BatchHeader
    log_append_time_ms: int


def needs_validation(config: LogConfig) -> bool:
    """Return whether more than the header's own timestamp has to be checked."""
    return (
        config.uses_log_append_time
        or config.is_compacted
        or config.compression_type != "producer"
        or config.timestamp_before_max_ms < LONG_MAX
        or config.validates_schemas
    )


def check_size(size: int, config: LogConfig) -> None:
    """Raise MessageTooLarge if a batch is larger than max.message.bytes."""
    if size > config.max_message_bytes:
        raise MessageTooLarge(f"the batch has {size} bytes, max.message.bytes is {config.max_message_bytes}")


def check_header(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Raise InvalidTimestamp if the header shows that a timestamp is not acceptable."""
    if header.is_log_append_time:
        raise InvalidTimestamp("producers may not set the timestamp type to LogAppendTime")
    ahead_ms = header.max_timestamp - now_ms
    if ahead_ms > config.timestamp_after_max_ms:
        raise InvalidTimestamp(
            f"timestamp {header.max_timestamp} is {ahead_ms} ms ahead of the broker's clock, "
            f"message.timestamp.after.max.ms is {config.timestamp_after_max_ms}"
        )


def is_expensive_to_validate(header: BatchHeader, config: LogConfig) -> bool:
    """Return whether validating a batch would block the loop for too long."""
    if not recompresses(header, config):
        if not (config.is_compacted or _checks_timestamps(config)):
            return False
        if header.codec == 0 and header.record_count <= MAX_INLINE_RECORDS:
            return False
    return not header.is_control


def validate_records(
    batch: memoryview,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
    throttle: ThrottleCallback | None = None,
) -> tuple[memoryview, BatchHeader]:
    """Check the records as the topic's config requires, recompress them if necessary, and return the result.

    `throttle` is called at intervals, so that a thread can let others run.
    """
    if header.is_control:
        return batch, header
    checks_timestamps = _checks_timestamps(config)
    if config.is_compacted or checks_timestamps:
        _check_records(batch, config, now_ms, checks_timestamps, throttle)
    if recompresses(header, config):
        batch = _recompress(batch, header, config)
        check_size(len(batch), config)
        header = decode_header(batch)
    return batch, header


def validate_batch(
    batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, *, is_validated: bool = False
) -> ValidatedBatch:
    """Return the batch as it is to be stored; `is_validated` says that `validate_records` has been called."""
    if not is_validated:
        batch, header = validate_records(batch, header, config, now_ms)
    if not config.uses_log_append_time:
        check_header(header, config, now_ms)
        return ValidatedBatch(batch, header, NO_TIMESTAMP)
    stamp_log_append_time(batch, now_ms)
    return ValidatedBatch(batch, decode_header(batch), now_ms)


def _checks_timestamps(config: LogConfig) -> bool:
    return not config.uses_log_append_time and config.timestamp_before_max_ms < LONG_MAX


def recompresses(header: BatchHeader, config: LogConfig) -> bool:
    """Return whether the topic requires another compression codec."""
    return config.compression_type != "producer" and _CODECS[config.compression_type] != header.codec


def _check_records(
    batch: memoryview,
    config: LogConfig,
    now_ms: int,
    checks_timestamps: bool,
    throttle: ThrottleCallback | None,
) -> None:
    oldest_ms = now_ms - config.timestamp_before_max_ms
    latest_ms = now_ms + config.timestamp_after_max_ms
    keyless: list[int] = []
    misdated: list[int] = []
    for number, record in enumerate(iter_record_heads(batch)):
        if throttle is not None and (number + 1) % _RECORDS_PER_SLICE == 0:
            throttle()
        if config.is_compacted and record.key_bytes < 0:
            keyless.append(number)
        is_dated = checks_timestamps and record.timestamp != NO_TIMESTAMP
        if is_dated and not oldest_ms <= record.timestamp <= latest_ms:
            misdated.append(number)
    if keyless or misdated:
        raise _rejection(keyless, misdated, now_ms)


def _rejection(keyless: list[int], misdated: list[int], now_ms: int) -> KafkaError:
    """Return the error for a batch, which names the bad records, up to a limit."""
    no_key = "a compacted topic takes no records without a key"
    no_time = (
        f"a timestamp is outside of what message.timestamp.before.max.ms and after.max.ms allow at {now_ms}"
    )
    count = len(keyless) + len(misdated)
    named = [(number, no_key) for number in keyless] + [(number, no_time) for number in misdated]
    why = no_time if misdated else no_key
    error = (InvalidTimestamp if misdated else InvalidRecord)(f"{count} records were refused: {why}")
    error.record_errors = sorted(named)[:MAX_NAMED_RECORDS]
    return error


def _recompress(batch: memoryview, header: BatchHeader, config: LogConfig) -> memoryview:
    codec = _CODECS[config.compression_type]
    data = decompress(header.codec, batch[HEADER_BYTES:], MAX_DECOMPRESSED_BYTES)
    packed = compress(codec, data, config.compression_level)
    changed = header._replace(
        batch_length=HEADER_BYTES - LOG_OVERHEAD + len(packed),
        attributes=(header.attributes & ~CODEC_MASK) | codec,
    )
    result = bytearray(HEADER.pack(*changed))
    result += packed
    result[17:21] = crc_of(result).to_bytes(4, "big")
    return memoryview(result)
