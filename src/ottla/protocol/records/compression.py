"""The codecs that a batch's records may be compressed with.

    0 none
    1 gzip    one member
    2 snappy  xerial's framing, as Java writes it, or one raw block, as librdkafka does; both are read,
              the framing is written: 0x82 "SNAPPY" 0, int32 version, int32 compatible version, then
              blocks of int32 size + raw snappy (of up to 32 KiB)
    3 lz4     one frame with independent blocks: Kafka's Java reader knows no others
    4 zstd    one frame

Decompression never makes more than `max_bytes` of output, however far a small input would expand
(what is not compressed does not expand, and passes whatever its size):
InvalidRecord when there is more, CorruptMessage when the bytes are not what the codec wrote.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct, error

import cramjam

from ottla.protocol.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from ottla.protocol.primitives import Buffer

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""The codecs' names, at their numbers."""

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

_GZIP_WINDOW = 31
_GZIP_LEVEL = -1
_ZSTD_LEVEL = 3
_FAST_LZ4 = 1
LZ4_DEFAULT_LEVEL = 9
"""What Kafka calls its default level is not the ninth: it stands for the fast compressor."""
_FIRST_GUESS_BYTES = 65_536

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32_768
_XERIAL_MAX_BLOCKS = 16_384
_BLOCK_SIZE = Struct(">i")


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` as the codec writes it; at a level of its own (gzip, lz4, zstd), or the usual one."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        compressor = zlib.compressobj(_GZIP_LEVEL if level is None else level, wbits=_GZIP_WINDOW)
        return compressor.compress(data) + compressor.flush()
    if codec == SNAPPY:
        return _compress_snappy(memoryview(data))
    if codec == LZ4:
        frame = cramjam.lz4.Compressor(
            level=_FAST_LZ4 if level in (None, LZ4_DEFAULT_LEVEL) else level,
            content_checksum=False,
            block_linked=False,
        )
        frame.compress(bytes(data))
        return bytes(frame.finish())
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))
    raise UnsupportedCompressionType(f"there is no codec {codec}")


def decompress(codec: int, data: Buffer, max_bytes: int) -> bytes:
    """Return what `data` was before it was compressed, if that is no more than `max_bytes`."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return _decompress_gzip(data, max_bytes)
    if codec == SNAPPY:
        return _decompress_snappy(memoryview(data), max_bytes)
    if codec == LZ4:
        return _decompress_into(cramjam.lz4.decompress_into, data, max_bytes)
    if codec == ZSTD:
        return _decompress_into(cramjam.zstd.decompress_into, data, max_bytes)
    raise UnsupportedCompressionType(f"there is no codec {codec}")


def _too_large(max_bytes: int) -> InvalidRecord:
    return InvalidRecord(f"the records decompress to more than {max_bytes} bytes")


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=_GZIP_WINDOW)
    try:
        out = decompressor.decompress(data, max_bytes + 1)
    except zlib.error as problem:
        raise CorruptMessage(f"gzip: {problem}") from None
    if len(out) > max_bytes:
        raise _too_large(max_bytes)
    if not decompressor.eof or decompressor.unused_data:
        raise CorruptMessage("gzip: the records end early or have bytes after them")
    return out


def _decompress_into(into: Callable[[Buffer, bytearray], int], data: Buffer, max_bytes: int) -> bytes:
    """Decompress into buffers of growing sizes; the last one is as large as the output may be."""
    size = min(max(_FIRST_GUESS_BYTES, 4 * len(data)), max_bytes)
    while True:
        out = bytearray(size)
        try:
            written = into(data, out)
        except cramjam.DecompressionError as problem:
            # The buffer was too small, or the data is bad: only the largest buffer shows which.
            if size >= max_bytes:
                if "whole buffer" in str(problem):
                    raise _too_large(max_bytes) from None
                raise CorruptMessage(str(problem)) from None
            size = min(size * 4, max_bytes)
        else:
            return bytes(memoryview(out)[:written])


def _compress_snappy(data: memoryview) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for position in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[position : position + _XERIAL_BLOCK_BYTES]))
        out += _BLOCK_SIZE.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_raw_snappy(data, max_bytes)
    if len(data) < len(_XERIAL_HEADER):
        raise CorruptMessage("snappy: the framing's header is cut off")
    out = bytearray()
    position = len(_XERIAL_HEADER)
    for _ in range(_XERIAL_MAX_BLOCKS):
        if position == len(data):
            return bytes(out)
        try:
            (size,) = _BLOCK_SIZE.unpack_from(data, position)
        except error:
            raise CorruptMessage("snappy: a block's size is cut off") from None
        position += 4
        if not 0 < size <= len(data) - position:
            raise CorruptMessage(f"snappy: a block says it has {size} bytes")
        out += _decompress_raw_snappy(data[position : position + size], max_bytes, len(out))
        position += size
    raise CorruptMessage(f"snappy: more than {_XERIAL_MAX_BLOCKS} blocks")


def _decompress_raw_snappy(block: memoryview, max_bytes: int, before: int = 0) -> bytes:
    """Decompress one block, which states its size up front; `before` bytes came from earlier ones."""
    try:
        if before + cramjam.snappy.decompress_raw_len(block) > max_bytes:
            raise _too_large(max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as problem:
        raise CorruptMessage(str(problem)) from None
