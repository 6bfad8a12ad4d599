"""Batches of plain values are the same bytes as the general encoder makes."""

from __future__ import annotations

import pytest

from ottla.protocol.records.batch import decode_header
from ottla.protocol.records.record_encoder import encode_new_batch
from ottla.protocol.records.records import decode_records
from ottla.protocol.records.value_encoder import encode_value_batch

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8_191, 8_192, 8_200])
def test_the_bytes_are_those_of_the_general_encoder_whatever_the_offsets_take(count: int) -> None:
    values = [b"value %d" % number for number in range(count)]
    assert encode_value_batch(values, NOW_MS) == _general(values)


@pytest.mark.parametrize("size", [0, 57, 58, 63, 64, 8_191, 8_192, 20_000, 2_100_000])
def test_the_bytes_are_those_of_the_general_encoder_whatever_the_sizes_take(size: int) -> None:
    values = [b"x" * size, b"", b"y" * size]
    assert encode_value_batch(values, NOW_MS) == _general(values)


def test_a_compressed_batch_has_the_same_records() -> None:
    values = [b"line"] * 100
    batch = encode_value_batch(values, NOW_MS, codec=1)
    assert decode_header(batch).codec == 1
    assert [each.value for each in decode_records(batch, max_bytes=10_000)] == values


@pytest.mark.parametrize("count", [1, 65, 8_200])
@pytest.mark.parametrize("headers", [(), (("trace", b"7"), ("none", None))])
def test_keys_and_headers_are_encoded_as_by_the_general_encoder(
    count: int, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    keys = [b"k" * (number % 150) for number in range(count)]
    values = [b"v" * (number % 90) for number in range(count)]
    general = encode_new_batch(
        [(NOW_MS, key, value, headers) for key, value in zip(keys, values, strict=True)]
    )
    assert encode_value_batch(values, NOW_MS, keys=keys, headers=headers) == general


@pytest.mark.parametrize("size", [0, 63, 64, 8_191, 8_192, 20_000])
def test_keys_of_all_sizes_are_encoded_as_by_the_general_encoder(size: int) -> None:
    general = encode_new_batch([(NOW_MS, b"k" * size, b"v" * 10, ()), (NOW_MS, b"", b"", ())])
    assert encode_value_batch([b"v" * 10, b""], NOW_MS, keys=[b"k" * size, b""]) == general


def test_headers_without_keys_are_encoded_as_by_the_general_encoder() -> None:
    general = encode_new_batch([(NOW_MS, None, b"a", (("h", b"1"),))] * 3)
    assert encode_value_batch([b"a"] * 3, NOW_MS, headers=(("h", b"1"),)) == general


def _general(values: list[bytes]) -> bytearray:
    return encode_new_batch([(NOW_MS, None, value, ()) for value in values])
