import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from ottla.client.producer import murmur2 as murmur2_source
from ottla.client.producer.partitioners import PARTITIONERS, fnv1a, partition_of, partitioner_of
from ottla.protocol.records.compiled import compiled_twin

TWIN = compiled_twin(murmur2_source)


@pytest.fixture(params=["plain", "compiled"], scope="module")
def module(request):
    if request.param == "plain":
        return murmur2_source
    return TWIN or pytest.skip("the module is not compiled here: python tools/compile_modules.py")


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
def test_murmur2_gives_the_hashes_of_the_java_client(module, key, expected):
    assert module.murmur2(key) == expected & 0xFFFFFFFF


@given(st.binary(max_size=40))
@settings(max_examples=200)
def test_murmur2_agrees_with_kafka_python(module, key):
    assert module.murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


def test_many_keys_are_divided_as_each_by_itself(module):
    keys = [b"%d" % (number * number) for number in range(1_000)]
    values = [b"value %d" % number for number in range(1_000)]
    divided = module.by_partition(keys, values, 7)
    for partition, (some_keys, some_values) in enumerate(divided):
        assert {partition_of(key, 7) for key in some_keys} == {partition}
        here = [value for key, value in zip(keys, values, strict=True) if partition_of(key, 7) == partition]
        assert some_values == here
    assert sum(len(some) for some, _ in divided) == 1_000


@given(st.binary(max_size=20), st.integers(1, 1000))
@settings(max_examples=100)
def test_a_key_has_one_partition_within_range(key, count):
    assert 0 <= partition_of(key, count) < count
    assert partition_of(key, count) == partition_of(key, count)


def test_fnv1a_takes_the_hash_as_a_signed_number_without_its_sign():
    assert fnv1a(b"") == 0x100000000 - 0x811C9DC5
    assert fnv1a(b"a") == 0x100000000 - 0xE40C292C
    assert fnv1a(b"foobar") == 0x100000000 - 0xBF9CF968


@pytest.mark.parametrize("name", PARTITIONERS)
def test_every_partitioner_names_a_partition_whatever_the_key(name):
    choose = partitioner_of(name)
    for key in (None, b"", b"a", b"customer-7"):
        assert choose(key, range(5), [1, 3]) in range(5)


@pytest.mark.parametrize("name", ["murmur2_random", "consistent_random", "fnv1a_random", "random"])
def test_without_a_key_any_partition_with_a_leader_may_be_chosen(name):
    choose = partitioner_of(name)
    assert {choose(None, range(5), [1, 3]) for _ in range(100)} == {1, 3}


def test_librdkafkas_default_treats_an_empty_key_as_none_and_murmur2_does_not():
    consistent, murmur = partitioner_of("consistent_random"), partitioner_of("murmur2_random")
    assert len({consistent(b"", range(5), range(5)) for _ in range(100)}) == 5
    assert len({murmur(b"", range(5), range(5)) for _ in range(100)}) == 1


def test_hashes_count_all_partitions_also_those_without_a_leader():
    choose = partitioner_of("murmur2")
    assert choose(b"customer-7", range(5), [0]) == partition_of(b"customer-7", 5)


def test_round_robin_takes_turns():
    choose = partitioner_of("round_robin")
    turns = [choose(b"same", range(3), range(3)) for _ in range(6)]
    assert sorted(turns[:3]) == [0, 1, 2]
    assert turns[:3] == turns[3:]
