import pytest

from ottla.cli.support.offset_range import FROM_END, FROM_START, Start, check_fits, parse_start, positions
from ottla.cli.support.problems import Problem
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition
from ottla.protocol.records.records import Record, encode_batch

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
RANGES = {ZERO: (5, 20), ONE: (0, 2)}


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("start", FROM_START),
        ("beginning", FROM_START),
        ("end", FROM_END),
        ("42", Start(at_offset=42)),
        ("0", Start(at_offset=0)),
        ("-10", Start(last=10)),
        ("@1700000000000", Start(at_time_ms=1700000000000)),
        ("@1970-01-02", Start(at_time_ms=86_400_000)),
        ("@1970-01-01T01:00:00", Start(at_time_ms=3_600_000)),
        ("@1970-01-01T01:00:00+01:00", Start(at_time_ms=0)),
        ("@1970-01-01T00:00:01.5Z", Start(at_time_ms=1500)),
    ],
)
def test_where_to_begin_is_understood(text, start):
    assert parse_start(text) == start


@pytest.mark.parametrize(
    "text", ["", "middle", "1.5", "--3", "٣", "9223372036854775808", "@", "@yesterday", "@-5"]
)
def test_what_is_not_understood_says_what_would_be(text):
    with pytest.raises(ValueError, match=r"start, end, N, -N|milliseconds"):
        parse_start(text)


async def test_names_and_tails_are_relative_to_what_there_is(network):
    cluster = Cluster([])
    assert await positions(cluster, FROM_START, RANGES) == {ZERO: 5, ONE: 0}
    assert await positions(cluster, FROM_END, RANGES) == {ZERO: 20, ONE: 2}
    assert await positions(cluster, Start(last=3), RANGES) == {ZERO: 17, ONE: 0}


async def test_an_offset_must_be_there_or_be_the_next(network):
    cluster = Cluster([])
    assert await positions(cluster, Start(at_offset=5), {ZERO: (5, 20)}) == {ZERO: 5}
    assert await positions(cluster, Start(at_offset=20), {ZERO: (5, 20)}) == {ZERO: 20}
    for wrong in (0, 4, 21):
        with pytest.raises(Problem, match=f"orders-0 has no offset {wrong}: it holds 5 to 19"):
            await positions(cluster, Start(at_offset=wrong), {ZERO: (5, 20)})
    with pytest.raises(Problem, match="it is empty, the next offset is 7"):
        await positions(cluster, Start(at_offset=3), {ZERO: (7, 7)})


async def test_a_time_after_the_last_record_is_the_end(peer):
    partition = peer.add_topic("orders").partitions[0]
    partition.append(encode_batch([Record(0, 100, None, b"a", ()), Record(1, 200, None, b"b", ())]))
    async with Cluster([peer.address]) as cluster:
        assert await positions(cluster, Start(at_time_ms=150), {ZERO: (0, 2)}) == {ZERO: 1}
        assert await positions(cluster, Start(at_time_ms=201), {ZERO: (0, 2)}) == {ZERO: 2}


def test_one_offset_does_not_fit_several_partitions():
    with pytest.raises(Problem, match="an offset belongs to one partition, but orders has 2"):
        check_fits(Start(at_offset=7), [ZERO, ONE])
    for fine in (FROM_START, FROM_END, Start(last=7), Start(at_time_ms=7)):
        check_fits(fine, [ZERO, ONE])
    check_fits(Start(at_offset=7), [ONE])
