import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.common.ids import TopicPartition
from ottla.protocol.errors import InvalidRequest

PARTITIONS = st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 2**31 - 1))


@given(st.sets(PARTITIONS))
def test_an_assignment_survives_the_round_trip(partitions):
    assert decode_assignment(encode_assignment(partitions)) == tuple(sorted(partitions))


@given(st.sets(st.text(max_size=5)))
def test_a_subscription_survives_the_round_trip(topics):
    assert decode_subscription(encode_subscription(topics)) == tuple(sorted(topics))


def test_other_clients_read_what_we_write():
    assigned = ConsumerProtocolMemberAssignment.decode(
        encode_assignment([TopicPartition("b", 3), TopicPartition("a", 1), TopicPartition("a", 0)])
    )
    assert assigned.assignment == [("a", [0, 1]), ("b", [3])]
    subscribed = ConsumerProtocolMemberMetadata.decode(encode_subscription(["b", "a"]))
    assert subscribed.subscription == ["a", "b"]


def test_what_newer_versions_add_is_skipped():
    newer = b"\x00\x03" + encode_subscription(["a"])[2:] + bytes(4) + b"\x00\x00\x00\x07\xff\xff"
    assert decode_subscription(newer) == ("a",)


def test_no_assignment_yet_is_no_partitions():
    assert decode_assignment(b"") == ()


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data):
    for decode in (decode_assignment, decode_subscription):
        try:
            decode(data)
        except InvalidRequest:
            pass


def test_a_lying_count_is_refused_before_anything_is_built():
    with pytest.raises(InvalidRequest, match="do not fit"):
        decode_assignment(b"\x00\x00\x7f\xff\xff\xff")
