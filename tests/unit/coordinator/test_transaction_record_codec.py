"""Records of `__transaction_state`: Kafka's bytes, and what only we know in a tagged field of our own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.ids import TopicPartition
from ottla.coordinator.transaction.record_codec import decode_record, encode_record
from ottla.coordinator.transaction.transaction import NOBODY, Producer, Record, State, Transaction
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
    last=st.just(NOBODY) | producers,
    next=st.just(NOBODY) | producers,
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
    assert found.value.last == NOBODY


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
