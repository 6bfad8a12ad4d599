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

MOST_RECORDS_AT_ONCE = 100
"""Records of a batch that are read on the loop; compressed ones are not, as they may be very many."""

MOST_NAMED_RECORDS = 1_000
"""Records at fault that an error names: no small batch of bad records makes a huge answer."""

Pace = Callable[[], None]

_RECORDS_AT_A_STRETCH = 500
_CODECS = {name: number for number, name in enumerate(CODEC_NAMES)} | {"uncompressed": 0}


class ValidatedBatch(NamedTuple):
    """A batch as it is to be appended."""

    batch: memoryview
    header: BatchHeader
    log_append_time_ms: int


def needs_validation(config: LogConfig) -> bool:
    """Return whether more than the header's own timestamp has to be looked at."""
    return (
        config.uses_log_append_time
        or config.is_compacted
        or config.compression_type != "producer"
        or config.timestamp_before_max_ms < LONG_MAX
    )


def check_size(size: int, config: LogConfig) -> None:
    """Raise MessageTooLarge if a batch is larger than max.message.bytes."""
    if size > config.max_message_bytes:
        raise MessageTooLarge(f"the batch has {size} bytes, max.message.bytes is {config.max_message_bytes}")


def check_header(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Raise InvalidTimestamp if the header alone says that a timestamp is not acceptable."""
    if header.is_log_append_time:
        raise InvalidTimestamp("producers may not set the timestamp type to LogAppendTime")
    ahead_ms = header.max_timestamp - now_ms
    if ahead_ms > config.timestamp_after_max_ms:
        raise InvalidTimestamp(
            f"timestamp {header.max_timestamp} is {ahead_ms} ms ahead of the broker's clock, "
            f"message.timestamp.after.max.ms is {config.timestamp_after_max_ms}"
        )


def is_expensive_to_validate(header: BatchHeader, config: LogConfig) -> bool:
    """Return whether to admit a batch takes longer than the loop should wait for it."""
    if not recompresses(header, config):
        if not (config.is_compacted or _inspects_times(config)):
            return False
        if header.codec == 0 and header.record_count <= MOST_RECORDS_AT_ONCE:
            return False
    return not header.is_control


def validate_records(
    batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, pace: Pace | None = None
) -> tuple[memoryview, BatchHeader]:
    """Check the records as their topic demands, compress them anew if it wants that, return the result.

    `pace` is called every so many records, so that a thread can let others have their turn.
    """
    if header.is_control:
        return batch, header
    inspect_times = _inspects_times(config)
    if config.is_compacted or inspect_times:
        _inspect_records(batch, config, now_ms, inspect_times, pace)
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


def _inspects_times(config: LogConfig) -> bool:
    return not config.uses_log_append_time and config.timestamp_before_max_ms < LONG_MAX


def recompresses(header: BatchHeader, config: LogConfig) -> bool:
    """Return whether the topic wants a batch compressed in another way."""
    return config.compression_type != "producer" and _CODECS[config.compression_type] != header.codec


def _inspect_records(
    batch: memoryview, config: LogConfig, now_ms: int, inspect_times: bool, pace: Pace | None
) -> None:
    oldest_ms = now_ms - config.timestamp_before_max_ms
    latest_ms = now_ms + config.timestamp_after_max_ms
    keyless: list[int] = []
    misdated: list[int] = []
    for number, record in enumerate(iter_record_heads(batch)):
        if pace is not None and (number + 1) % _RECORDS_AT_A_STRETCH == 0:
            pace()
        if config.is_compacted and record.key_bytes < 0:
            keyless.append(number)
        is_dated = inspect_times and record.timestamp != NO_TIMESTAMP
        if is_dated and not oldest_ms <= record.timestamp <= latest_ms:
            misdated.append(number)
    if keyless or misdated:
        raise _refusal(keyless, misdated, now_ms)


def _refusal(keyless: list[int], misdated: list[int], now_ms: int) -> KafkaError:
    """Return the error of a batch, which names the records that are at fault: the first so many of them."""
    no_key = "a compacted topic takes no records without a key"
    no_time = (
        f"a timestamp is outside of what message.timestamp.before.max.ms and after.max.ms allow at {now_ms}"
    )
    count = len(keyless) + len(misdated)
    named = [(number, no_key) for number in keyless] + [(number, no_time) for number in misdated]
    why = no_time if misdated else no_key
    error = (InvalidTimestamp if misdated else InvalidRecord)(f"{count} records were refused: {why}")
    error.record_errors = sorted(named)[:MOST_NAMED_RECORDS]
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
