"""Records of `__consumer_offsets`, against bytes that Kafka 4.1.1 wrote."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.group.record_codec import OFFSET, decode_record, encode_record
from ottla.coordinator.group.records import (
    ClassicMemberValue,
    ClassicProtocol,
    ConsumerCurrentMemberKey,
    ConsumerCurrentMemberValue,
    ConsumerGroupKey,
    ConsumerGroupValue,
    ConsumerMemberKey,
    ConsumerMemberValue,
    ConsumerRegexKey,
    ConsumerRegexValue,
    ConsumerTargetKey,
    ConsumerTargetMemberKey,
    ConsumerTargetMemberValue,
    ConsumerTargetValue,
    ConsumerTopic,
    ConsumerTopicsKey,
    ConsumerTopicsValue,
    GroupKey,
    GroupValue,
    OffsetKey,
    OffsetValue,
    Record,
    StoredMember,
    StoredPartitions,
)
from ottla.coordinator.record_schema import KeyCodec
from ottla.protocol.errors import InvalidRequest, KafkaError

T0 = 1_700_000_000_000
TOPIC_ID = UUID(int=(1 << 64) + 2)
OFFSET_KEY = "000100016700066f726465727300000003"
GROUP_KEY = "0002000167"
MEMBER = StoredMember("m1", "i1", "c", "/h", 9000, 6000, b"\x01\x02", b"\x03")
CONSUMER_MEMBER = ConsumerMemberValue("i", None, "c", "/h", ("a", "b"), "x.*", 5000, "uniform")
CLASSIC = ClassicMemberValue(6000, (ClassicProtocol("range", b"\x09\x08"),))


def offset(leader_epoch: int = -1, expire_ms: int = -1) -> Record:
    return Record(OffsetKey("g", "orders", 3), OffsetValue(42, leader_epoch, "m", T0, expire_ms))


def group(member: StoredMember, state_since_ms: int) -> Record:
    return Record(GroupKey("g"), GroupValue("consumer", 7, "range", "m1", state_since_ms, (member,)))


OLD_MEMBER = StoredMember("m1", None, "c", "/h", 6000, 6000, b"\x01\x02", b"\x03")
NEWER_MEMBER = StoredMember("m1", None, "c", "/h", 9000, 6000, b"\x01\x02", b"\x03")

WRITTEN = [
    (
        offset(expire_ms=T0 + 1000),
        OFFSET_KEY,
        "0001000000000000002a00016d0000018bcfe568000000018bcfe56be8",
    ),
    (offset(leader_epoch=5), OFFSET_KEY, "0003000000000000002a0000000500016d0000018bcfe56800"),
    (
        group(MEMBER, T0),
        GROUP_KEY,
        "00030008636f6e73756d657200000007000572616e676500026d310000018bcfe568000000000100026d31000269310001630002"
        "2f6800002328000017700000000201020000000103",
    ),
    (
        Record(ConsumerGroupKey("g"), ConsumerGroupValue(4, 99)),
        "0003000167",
        "0000000000040100080000000000000063",
    ),
    (
        Record(ConsumerTopicsKey("g"), ConsumerTopicsValue((ConsumerTopic(TOPIC_ID, "orders", 6),))),
        "0004000167",
        "00000200000000000000010000000000000002076f726465727300000006010000",
    ),
    (
        Record(ConsumerMemberKey("g", "m1"), CONSUMER_MEMBER),
        "000500016700026d31",
        "00000269000263032f68030261026204782e2a0000138808756e69666f726d00",
    ),
    (
        Record(
            ConsumerMemberKey("g", "m1"),
            ConsumerMemberValue(None, "r", "c", "/h", (), None, -1, None, CLASSIC),
        ),
        "000500016700026d31",
        "00000002720263032f680100ffffffff000100110100001770020672616e67650309080000",
    ),
    (Record(ConsumerTargetKey("g"), ConsumerTargetValue(4)), "0006000167", "00000000000400"),
    (
        Record(
            ConsumerTargetMemberKey("g", "m1"),
            ConsumerTargetMemberValue((StoredPartitions(TOPIC_ID, (0, 5)),)),
        ),
        "000700016700026d31",
        "000002000000000000000100000000000000020300000000000000050000",
    ),
    (
        Record(
            ConsumerCurrentMemberKey("g", "m1"),
            ConsumerCurrentMemberValue(
                3, 2, 1, (StoredPartitions(TOPIC_ID, (0,)),), (StoredPartitions(TOPIC_ID, (5,)),)
            ),
        ),
        "000800016700026d31",
        "00000000000300000002010200000000000000010000000000000002020000000000020000000000000001000000000000000202"
        "000000050000",
    ),
    (
        Record(ConsumerRegexKey("g", "x.*"), ConsumerRegexValue(("xa", "xb"), 12, T0)),
        "00100001670003782e2a",
        "000003037861037862000000000000000c0000018bcfe5680000",
    ),
]

ONLY_READ = [
    (offset(), "0000" + OFFSET_KEY[4:], "0000000000000000002a00016d0000018bcfe56800"),
    (offset(), OFFSET_KEY, "0002000000000000002a00016d0000018bcfe56800"),
    (
        offset(leader_epoch=5),
        OFFSET_KEY,
        "0004000000000000002a00000005026d0000018bcfe5680001001000000000000000010000000000000002",
    ),
    (
        group(OLD_MEMBER, -1),
        GROUP_KEY,
        "00000008636f6e73756d657200000007000572616e676500026d310000000100026d3100016300022f6800001770000000020102"
        "0000000103",
    ),
    (
        group(NEWER_MEMBER, -1),
        GROUP_KEY,
        "00010008636f6e73756d657200000007000572616e676500026d310000000100026d3100016300022f6800002328000017700000"
        "000201020000000103",
    ),
    (
        group(NEWER_MEMBER, T0),
        GROUP_KEY,
        "00020008636f6e73756d657200000007000572616e676500026d310000018bcfe568000000000100026d3100016300022f680000"
        "2328000017700000000201020000000103",
    ),
    (
        group(MEMBER, T0),
        GROUP_KEY,
        "000409636f6e73756d6572000000070672616e6765036d310000018bcfe5680002036d310369310263032f680000232800001770"
        "03010202030000",
    ),
]


@pytest.mark.parametrize(("record", "key", "value"), WRITTEN)
def test_records_are_written_as_kafka_writes_them(record: Record, key: str, value: str) -> None:
    raw_key, raw_value = encode_record(record)
    assert raw_key.hex() == key
    assert raw_value is not None
    assert raw_value.hex() == value


@pytest.mark.parametrize(("record", "key", "value"), WRITTEN + ONLY_READ)
def test_records_of_all_versions_are_read(record: Record, key: str, value: str) -> None:
    assert decode_record(bytes.fromhex(key), bytes.fromhex(value)) == record


@pytest.mark.parametrize(("record", "key"), [(record, key) for record, key, _ in WRITTEN])
def test_a_tombstone_is_a_key_without_a_value(record: Record, key: str) -> None:
    tombstone = Record(record.key)
    assert encode_record(tombstone) == (bytes.fromhex(key), None)
    assert decode_record(bytes.fromhex(key), None) == tombstone


def test_types_that_we_do_not_know_are_no_error() -> None:
    share_group = bytes.fromhex("000b000167"), bytes.fromhex("000000000001000000000000000000")
    assert decode_record(*share_group) is None
    assert decode_record(bytes.fromhex("ffff"), None) is None


@pytest.mark.parametrize("version", [-1, 1, 5])
def test_versions_of_the_future_are_refused(version: int) -> None:
    raw = version.to_bytes(2, "big", signed=True) + bytes(60)
    with pytest.raises(InvalidRequest, match="version"):
        decode_record(bytes.fromhex("0003000167"), raw)
    if version != 1:
        with pytest.raises(InvalidRequest, match="version"):
            decode_record(bytes.fromhex(GROUP_KEY), raw)


def test_a_record_without_a_key_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        decode_record(None, b"")
    with pytest.raises(InvalidRequest):
        decode_record(b"\x00", b"")


@given(choice=st.sampled_from(WRITTEN + ONLY_READ), data=st.data())
def test_torn_and_tampered_records_raise_nothing_but_kafka_errors(
    choice: tuple[Record, str, str], data: st.DataObject
) -> None:
    _, key, value = choice
    raw_key, raw_value = bytearray.fromhex(key), bytearray.fromhex(value)
    which = data.draw(st.sampled_from([raw_key, raw_value]))
    if data.draw(st.booleans()):
        del which[data.draw(st.integers(0, len(which) - 1)) :]
    else:
        which[data.draw(st.integers(0, len(which) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        decode_record(bytes(raw_key), bytes(raw_value))
    except KafkaError:
        pass


names = st.text(max_size=20).filter(lambda text: not any("\ud800" <= each <= "\udfff" for each in text))
int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
positive = st.integers(0, 2**31 - 1)
members = st.builds(
    StoredMember,
    names,
    st.none() | names,
    names,
    names,
    positive,
    positive,
    st.binary(max_size=40),
    st.binary(),
)
groups = st.builds(
    GroupValue,
    names,
    int32,
    st.none() | names,
    st.none() | names,
    int64,
    st.lists(members, max_size=3).map(tuple),
)
offsets = st.builds(OffsetValue, int64, int32, names, int64)


@settings(max_examples=60)
@given(group_id=names, value=groups)
def test_groups_survive_the_way_to_bytes_and_back(group_id: str, value: GroupValue) -> None:
    record = Record(GroupKey(group_id), value)
    assert decode_record(*encode_record(record)) == record


@settings(max_examples=60)
@given(key=st.builds(OffsetKey, names, names, int32), value=offsets)
def test_offsets_survive_the_way_to_bytes_and_back(key: OffsetKey, value: OffsetValue) -> None:
    record = Record(key, value)
    assert decode_record(*encode_record(record)) == record


@settings(max_examples=60)
@given(key=st.builds(OffsetKey, names, names, int32), value=offsets)
def test_the_fast_path_of_offsets_is_the_declared_layout(key: OffsetKey, value: OffsetValue) -> None:
    raw_key, raw_value = encode_record(Record(key, value))
    assert (raw_key, raw_value) == (KeyCodec(1, OffsetKey).encode(key), OFFSET.encode(value))
    assert OFFSET.decode(OFFSET.encode(value)) == value
