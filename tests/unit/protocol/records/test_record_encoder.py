import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.errors import InvalidRecord
from ottla.protocol.records.batch import check_crc, decode_header
from ottla.protocol.records.record_encoder import (
    MAX_OVERHEAD_BYTES,
    encode_new_batch,
    encode_records,
    restamp,
)
from ottla.protocol.records.records import Record, decode_records, encode_batch

values = (
    st.none() | st.binary(max_size=30) | st.sampled_from([b"x" * 63, b"x" * 64, b"x" * 8191, b"x" * 8192])
)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
records = st.lists(
    st.tuples(st.sampled_from([0, 5, 1_700_000_000_000, 2**62]), values, values, headers),
    min_size=1,
    max_size=20,
)


@given(records, st.integers(0, 4))
@settings(max_examples=150, deadline=None)
def test_a_batch_is_what_the_plain_encoder_makes_of_it(new, codec):
    old = [Record(offset, *each) for offset, each in enumerate(new)]
    signed = {
        "codec": codec,
        "producer_id": 7,
        "producer_epoch": 3,
        "base_sequence": 9,
        "transactional": True,
    }
    batch = encode_new_batch(new, **signed)
    assert batch == encode_batch(old, **signed)
    assert decode_records(batch, max_bytes=2**30) == old
    check_crc(batch, decode_header(batch))


@given(records)
@settings(max_examples=50, deadline=None)
def test_no_record_takes_more_than_its_parts_and_the_overhead(new):
    for timestamp, key, value, _ in new:
        assert len(encode_records([(timestamp, key, value, ())])) <= MAX_OVERHEAD_BYTES + len(
            key or b""
        ) + len(value or b"")


def test_another_identity_can_be_stamped_onto_an_encoded_batch():
    new = [(5, b"k", b"v", ())]
    batch = encode_new_batch(new, producer_id=1, producer_epoch=2, base_sequence=3)
    restamp(batch, 10**12, 4, 2**31 - 1)
    assert batch == encode_new_batch(new, producer_id=10**12, producer_epoch=4, base_sequence=2**31 - 1)


def test_timestamps_too_far_apart_are_refused():
    with pytest.raises(InvalidRecord, match="further apart"):
        encode_records([(-(2**63), None, None, ()), (2**63 - 1, None, None, ())])
