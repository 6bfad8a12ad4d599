import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from ottla.client.partitioner import StickyPartition, murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "expected"),  # from the tests of the Java client
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_hashes_of_the_java_client(key, expected):
    assert murmur2(key) == expected & 0xFFFFFFFF


@given(st.binary(max_size=40))
@settings(max_examples=200)
def test_murmur2_agrees_with_kafka_python(key):
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@given(st.binary(max_size=20), st.integers(1, 1000))
@settings(max_examples=100)
def test_a_key_has_one_partition_within_range(key, count):
    assert 0 <= partition_of(key, count) < count
    assert partition_of(key, count) == partition_of(key, count)


def test_records_without_a_key_stick_until_told_to_go_on():
    sticky = StickyPartition()
    first = sticky.current(3)
    assert sticky.current(3) == first
    sticky.advance()
    assert sticky.current(3) == (first + 1) % 3
