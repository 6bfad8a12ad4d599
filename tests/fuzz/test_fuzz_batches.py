"""Record batches made to hurt: bombs, lies, a million records where there should be a few."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from kio.schema.errors import ErrorCode
from tests.fuzz.batches import (
    CODECS,
    EVERY_KIND,
    MAX_TINY_RECORDS,
    NOW_MS,
    Build,
    bomb,
    honest,
    lying_records,
    record_bytes,
    sealed,
    small_bomb,
    tiny_records,
)
from tests.fuzz.harness import TOPICS, FuzzBroker
from tests.fuzz.verdicts import Usage
from tests.integration.wire import produce_fields

from ottla.protocol.api_keys import ApiKey

pytestmark = pytest.mark.timeout(600)

COMPACTED, PLAIN, RECOMPRESSED, DATED = "fuzz-compact", "fuzz-plain", "fuzz-recompressed", "fuzz-dated"
LOOKED_INTO = (COMPACTED, DATED, "fuzz-both")
"""Topics whose records are read when they are appended; the others are for their readers to decode."""

MANY_BATCHES = 20_000
MAX_NEW_BYTES = 64 << 20
ONE_MB = 1_000_000


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzBroker]:
    with FuzzBroker(tmp_path_factory.mktemp("batches") / "data") as started:
        yield started


def produce(fuzzed: FuzzBroker, topic: str, *batches: bytes) -> list[ErrorCode]:
    """Produce the batches to one partition in one request, and return what became of each."""
    fields = produce_fields(topic, b"")
    fields["topic_data"][0]["partition_data"] = [{"index": 0, "records": each} for each in batches]
    response = fuzzed.ask(ApiKey.PRODUCE, 9, **fields)
    return [each.error_code for each in response.responses[0].partition_responses]


@pytest.mark.parametrize("build", EVERY_KIND, ids=[each.__name__ for each in EVERY_KIND])
@pytest.mark.parametrize("topic", TOPICS)
def test_batches_of_every_kind_are_taken_or_refused(fuzzed: FuzzBroker, topic: str, build: Build) -> None:
    random = Random(f"{topic}/{build.__name__}")
    codes = produce(fuzzed, topic, *(build(random) for _ in range(300)))
    assert ErrorCode.unknown_server_error not in codes
    if build is not honest and (build is not lying_records or topic in LOOKED_INTO):
        assert set(codes) - {ErrorCode.none}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("topic", [COMPACTED, PLAIN, RECOMPRESSED, DATED])
def test_a_million_tiny_records_do_not_hold_up_the_loop(fuzzed: FuzzBroker, topic: str, codec: int) -> None:
    count = MAX_TINY_RECORDS if codec else 130_000  # as many as a batch may have bytes for
    expected = ErrorCode.invalid_timestamp if topic == DATED else ErrorCode.none
    assert produce(fuzzed, topic, tiny_records(count, codec)) == [expected]


@pytest.mark.parametrize("codec", CODECS)
def test_the_last_of_many_records_is_checked_too(fuzzed: FuzzBroker, codec: int) -> None:
    assert produce(fuzzed, COMPACTED, tiny_records(1000, codec, key=None)) == [ErrorCode.invalid_record]
    keyless = record_bytes(key=None, value=b"", offset_delta=100)
    records = record_bytes(key=b"", value=b"") * 100 + keyless
    batch = sealed(records, record_count=101, last_offset_delta=100)
    assert produce(fuzzed, COMPACTED, batch) == [ErrorCode.invalid_record]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_zip_bombs_are_refused_before_they_grow(fuzzed: FuzzBroker, codec: int) -> None:
    fuzzed.reset()
    batches = [bomb(codec, 64 * ONE_MB)] if codec != 2 else [bomb(codec, 15 * ONE_MB)]
    before = Usage()
    codes = produce(fuzzed, COMPACTED, *batches * 20)
    assert set(codes) == {ErrorCode.invalid_record}
    assert Usage().rss_bytes - before.rss_bytes < MAX_NEW_BYTES


@pytest.mark.parametrize("topic", [COMPACTED, RECOMPRESSED])
def test_a_request_full_of_bombs_does_not_hold_up_the_loop(fuzzed: FuzzBroker, topic: str) -> None:
    bombs = [bomb(codec, 7 * ONE_MB) for codec in CODECS[1:]]
    assert set(produce(fuzzed, topic, *bombs * 5)) == {ErrorCode.none}


def test_thousands_of_batches_in_one_request_do_not_hold_up_the_loop(fuzzed: FuzzBroker) -> None:
    fuzzed.reset()
    small = sealed(record_bytes())
    assert produce(fuzzed, PLAIN, *[small] * MANY_BATCHES) == [ErrorCode.none] * MANY_BATCHES
    hundred = record_bytes() * 100
    hundred_records = sealed(hundred, record_count=100, last_offset_delta=99)
    assert produce(fuzzed, COMPACTED, *[hundred_records] * 5000) == [ErrorCode.none] * 5000


def test_what_one_connection_sends_is_appended_in_its_order_however_long_each_takes(
    fuzzed: FuzzBroker,
) -> None:
    fuzzed.reset()
    costly, cheap = tiny_records(50_000, 4), sealed(record_bytes())
    offsets = fuzzed.pipelined(
        ApiKey.PRODUCE, 9, [produce_fields(COMPACTED, each) for each in (costly, cheap, costly, cheap)]
    )
    assert [each.responses[0].partition_responses[0].base_offset for each in offsets] == [
        0,
        50_000,
        50_001,
        100_001,
    ]


def test_a_search_by_time_through_lies_and_bombs_does_not_hold_up_the_loop(fuzzed: FuzzBroker) -> None:
    fuzzed.reset()
    random = Random(1)
    late = NOW_MS + 1000
    liars = [tiny_records(MAX_TINY_RECORDS, 4, max_timestamp=late), *(small_bomb(random) for _ in range(20))]
    assert set(produce(fuzzed, PLAIN, *liars)) == {ErrorCode.none}
    for timestamp, offset in ((0, 0), (late, -1), (late + 1, -1), (-3, -1)):
        topics = [{"name": PLAIN, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]
        found = fuzzed.ask(ApiKey.LIST_OFFSETS, 7, topics=topics, replica_id=-1)
        assert found.topics[0].partitions[0].offset == offset
