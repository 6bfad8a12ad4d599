"""The codecs: what they write comes back, and no input makes more than it may."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import CorruptMessage, InvalidRecord, KafkaError, UnsupportedCompressionType
from ottla.protocol.records.compression import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    compress,
    decompress,
)

LIMIT = 1 << 20
REAL_CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
codecs = pytest.mark.parametrize("codec", REAL_CODECS, ids=lambda codec: CODEC_NAMES[codec])


def test_the_codecs_have_kafkas_numbers() -> None:
    assert dict(enumerate(CODEC_NAMES)) == {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
    assert (NONE, GZIP, SNAPPY, LZ4, ZSTD) == (0, 1, 2, 3, 4)


@given(data=st.binary(max_size=3_000), repeat=st.integers(1, 60), codec=st.integers(0, 4))
def test_what_is_compressed_is_restored(data: bytes, repeat: int, codec: int) -> None:
    original = data * repeat
    assert decompress(codec, memoryview(compress(codec, bytearray(original))), LIMIT) == original


@codecs
def test_incompressible_data_of_many_blocks_is_restored(codec: int) -> None:
    data = b"".join(zlib.crc32(struct.pack(">i", i)).to_bytes(4, "big") for i in range(50_000))
    assert decompress(codec, compress(codec, data), LIMIT) == data


def test_other_peoples_readers_read_what_we_write() -> None:
    data = b"records " * 20_000
    assert gzip.decompress(compress(GZIP, data)) == data
    assert aiokafka_codec.snappy_decode(compress(SNAPPY, data)) == data
    assert aiokafka_codec.lz4_decode(compress(LZ4, data)) == data
    assert aiokafka_codec.zstd_decode(compress(ZSTD, data)) == data


def test_lz4_blocks_are_independent_as_the_java_reader_demands() -> None:
    frame = compress(LZ4, b"x" * 200_000)
    assert frame[:4] == b"\x04\x22\x4d\x18"
    assert frame[4] & 0x20


def test_snappy_is_read_with_and_without_xerials_framing() -> None:
    data = b"records " * 20_000
    assert compress(SNAPPY, data)[:8] == b"\x82SNAPPY\x00"
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(data)), LIMIT) == data
    assert decompress(SNAPPY, aiokafka_codec.snappy_encode(data), LIMIT) == data


def test_zstd_frames_without_a_content_size_are_read() -> None:
    stream = cramjam.zstd.Compressor()
    stream.compress(b"streamed " * 1_000)
    assert decompress(ZSTD, bytes(stream.finish()), LIMIT) == b"streamed " * 1_000


@codecs
def test_output_of_exactly_the_limit_is_allowed_and_one_more_byte_is_not(codec: int) -> None:
    compressed = compress(codec, bytes(100_000))
    assert len(decompress(codec, compressed, 100_000)) == 100_000
    with pytest.raises(InvalidRecord, match="99999"):
        decompress(codec, compressed, 99_999)


@codecs
def test_a_bomb_is_refused_without_holding_its_output(codec: int) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRecord):
            decompress(codec, bomb, LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 3 * LIMIT
    finally:
        tracemalloc.stop()


@codecs
def test_data_cut_off_is_corrupt(codec: int) -> None:
    compressed = compress(codec, bytes(range(256)) * 40)
    for cut in (1, 5, 9, 17, len(compressed) // 2, len(compressed) - 1):
        with pytest.raises(CorruptMessage):
            decompress(codec, compressed[:cut], LIMIT)


@codecs
def test_bytes_after_the_end_are_corrupt(codec: int) -> None:
    with pytest.raises(KafkaError):
        decompress(codec, compress(codec, b"records") + b"\x00\x00\x00\x09more", LIMIT)


@codecs
def test_nothing_at_all_is_corrupt(codec: int) -> None:
    with pytest.raises(CorruptMessage):
        decompress(codec, b"", LIMIT)


@given(st.binary(max_size=200), st.sampled_from(REAL_CODECS))
def test_random_bytes_are_refused_or_read_within_the_limit(junk: bytes, codec: int) -> None:
    try:
        out = decompress(codec, junk, 10_000)
    except (CorruptMessage, InvalidRecord):
        return
    assert len(out) <= 10_000


@given(st.integers(0, 400), st.integers(0, 255), st.sampled_from(REAL_CODECS))
def test_damaged_data_is_refused_or_read_within_the_limit(position: int, value: int, codec: int) -> None:
    compressed = bytearray(compress(codec, bytes(range(256)) * 8))
    compressed[position % len(compressed)] = value
    try:
        out = decompress(codec, compressed, 10_000)
    except (CorruptMessage, InvalidRecord):
        return
    assert len(out) <= 10_000


XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


@pytest.mark.parametrize(
    "framed",
    [
        XERIAL[:12],
        XERIAL + b"\x00\x00",
        XERIAL + struct.pack(">i", -1),
        XERIAL + struct.pack(">i", 0),
        XERIAL + struct.pack(">i", 2**31 - 1) + b"\x00",
        XERIAL + struct.pack(">i", 1) + b"\x05",
        XERIAL + (struct.pack(">i", 1) + b"\x00") * 20_000,
    ],
)
def test_snappy_framing_that_lies_is_corrupt(framed: bytes) -> None:
    with pytest.raises(CorruptMessage):
        decompress(SNAPPY, framed, LIMIT)


def test_a_snappy_block_that_claims_four_gigabytes_is_refused_unread() -> None:
    with pytest.raises(InvalidRecord):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(20), LIMIT)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codecs_are_unsupported(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionType):
        compress(codec, b"")
    with pytest.raises(UnsupportedCompressionType):
        decompress(codec, b"", LIMIT)
