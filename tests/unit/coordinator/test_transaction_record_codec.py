"""Records of `__transaction_state`: Kafka's bytes, and what only we know in a tagged field of our own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.ids import TopicPartition
from ottla.coordinator.transaction.record_codec import decode_record, encode_record
from ottla.coordinator.transaction.transaction import NO_PRODUCER, Producer, Record, State, Transaction
from ottla.protocol.errors import InvalidRequest

int64s, int32s = st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1)
producers = st.builds(Producer, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))
transactions = st.builds(
    Transaction,
    producer=producers,
    timeout_ms=int32s,
    state=st.sampled_from(State),
    last_update_ms=int64s,
    start_ms=int64s,
    partitions=st.frozensets(st.builds(TopicPartition, st.text(max_size=5), int32s), max_size=5),
    last=st.just(NO_PRODUCER) | producers,
    next=st.just(NO_PRODUCER) | producers,
    version=st.integers(0, 2),
    is_two_phase=st.booleans(),
    is_prepared=st.booleans(),
    principal=st.text(max_size=20),
)


@given(st.text(max_size=50), transactions | st.none())
def test_what_is_written_is_read(transactional_id: str, value: Transaction | None) -> None:
    record = Record(transactional_id, value)
    assert decode_record(*encode_record(record)) == record


def test_a_record_is_laid_out_as_kafka_lays_it_out() -> None:
    value = Transaction(
        Producer(5, 3),
        timeout_ms=60_000,
        state=State.PREPARE_COMMIT,
        last_update_ms=2,
        start_ms=1,
        partitions=frozenset({TopicPartition("b", 1), TopicPartition("a", 7), TopicPartition("a", 2)}),
        version=2,
    )
    key, raw = encode_record(Record("tid", value))
    assert key == bytes.fromhex("0000 0003") + b"tid"
    assert raw == bytes.fromhex(
        "0001"  # version
        "0000000000000005 0003 0000ea60 02"  # producer id and epoch, timeout, state
        "03"  # two topics
        "02 61 03 00000002 00000007 00"
        "02 62 02 00000001 00"
        "0000000000000002 0000000000000001"  # updated, started
        "01 02 02 0002"  # one tagged field: the version
    )


T0 = 1_700_000_000_000
PARTITIONS = frozenset({TopicPartition("b", 1), TopicPartition("a", 7), TopicPartition("a", 2)})
TOPICS = "030261030000000200000007000262020000000100"
UPDATED, NEVER = "0000018bcfe56800", "ffffffffffffffff"
TIMES = f"{UPDATED}0000018bcfe567fb"


def transaction(state: State, partitions: bool = True, epoch: int = 3, **fields: Any) -> Transaction:
    parts = PARTITIONS if partitions else frozenset()
    return Transaction(Producer(5, epoch), 60_000, state, T0, T0 - 5, parts, **fields)


# What version 1.0 wrote, before the layout was declared (record_schema.py).
GOLDEN = [
    (
        Transaction(Producer(5, 3), 60_000, State.EMPTY, T0),
        "0003",
        "00 00 0000018bcfe56800ffffffffffffffff 00",
    ),
    (transaction(State.ONGOING), "0003", f"01 {TOPICS} {TIMES} 00"),
    (
        transaction(State.PREPARE_COMMIT, version=2, last=Producer(5, 2)),
        "0003",
        f"02 {TOPICS} {TIMES} 03 00080000000000000005 02020002 bb550400000201",
    ),
    (
        transaction(
            State.PREPARE_ABORT, epoch=32767, version=2, last=Producer(5, 32766), next=Producer(9, 0)
        ),
        "7fff",
        f"03 {TOPICS} {TIMES} 05 00080000000000000005 01080000000000000009 02020002 03020000 bb5504007ffe01",
    ),
    (
        transaction(State.ONGOING, is_two_phase=True, principal="User:ä"),
        "0003",
        f"01 {TOPICS} {TIMES} 01 bb550b01ffff08557365723ac3a4",
    ),
    (
        transaction(
            State.ONGOING, next=Producer(5, 4), is_two_phase=True, is_prepared=True, principal="User:x"
        ),
        "0003",
        f"01 {TOPICS} {TIMES} 03 01080000000000000005 03020004 bb550a03ffff07557365723a78",
    ),
    (
        transaction(State.COMPLETE_COMMIT, partitions=False, version=2, last=Producer(5, 2)),
        "0003",
        f"04 00 {TIMES} 03 00080000000000000005 02020002 bb550400000201",
    ),
    (transaction(State.COMPLETE_ABORT, partitions=False), "0003", f"05 00 {TIMES} 00"),
    (
        Transaction(Producer(5, 3), 60_000, State.DEAD, T0),
        "0003",
        "06 00 0000018bcfe56800ffffffffffffffff 00",
    ),
]


@pytest.mark.parametrize(("value", "epoch", "rest"), GOLDEN)
def test_the_bytes_of_every_kind_of_record_stay_as_they_are(
    value: Transaction, epoch: str, rest: str
) -> None:
    raw = bytes.fromhex(f"0001 0000000000000005 {epoch} 0000ea60 {rest}")
    assert encode_record(Record("tid", value)) == (bytes.fromhex("00000003746964"), raw)
    assert decode_record(bytes.fromhex("00000003746964"), raw) == Record("tid", value)


def test_version_0_of_old_brokers_is_read() -> None:
    raw = bytes.fromhex(
        "0000 0000000000000005 0003 0000ea60 01"
        "00000001 0001 61 00000001 00000002"
        "0000000000000002 0000000000000001"
    )
    found = decode_record(bytes.fromhex("0000 0003") + b"tid", raw)
    expected = Transaction(Producer(5, 3), 60_000, State.ONGOING, 2, 1, frozenset({TopicPartition("a", 2)}))
    assert found == Record("tid", expected)
    none = bytes.fromhex("0000 0000000000000005 0003 0000ea60 00 ffffffff") + bytes(16)
    empty = decode_record(bytes.fromhex("0000 0003") + b"tid", none)
    assert empty == Record("tid", Transaction(Producer(5, 3), 60_000, State.EMPTY, 0, 0))


def test_the_next_id_of_kafka_has_epoch_0_and_unknown_tags_are_skipped() -> None:
    raw = bytes.fromhex(
        "0001 0000000000000005 7fff 0000ea60 02 00 0000000000000002 0000000000000001"
        "04 00 08 0000000000000005 01 08 0000000000000009 02 02 0002 c863 01 ff"
    )
    found = decode_record(bytes.fromhex("0000 0001") + b"t", raw)
    assert found is not None
    assert found.value is not None
    assert found.value.next == Producer(9, 0)
    assert found.value.last == NO_PRODUCER


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", None),
        (b"\x00\x00\x00\x05t", None),
        (b"\x00\x00\x00\x01t", b"\x00"),
        (b"\x00\x00\x00\x01t", b"\x00\x02"),
        (b"\x00\x00\x00\x01t", bytes.fromhex("0001 0000000000000005 0003 0000ea60 08 00") + bytes(17)),
    ],
)
def test_torn_records_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidRequest):
        decode_record(key, value)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_record_or_refused(raw: bytes) -> None:
    try:
        decode_record(b"\x00\x00\x00\x01t", raw)
    except InvalidRequest:
        pass


def test_keys_of_the_future_are_none_of_ours() -> None:
    assert decode_record(b"\x00\x01\x00\x01t", None) is None
