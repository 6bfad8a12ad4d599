import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.ids import TopicPartition
from ottla.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_sticky_user_data,
    decode_subscription,
    encode_assignment,
    encode_sticky_user_data,
    encode_subscription,
    read_version,
)
from ottla.protocol.errors import InvalidRequest

PARTITIONS = st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 2**31 - 1))


@given(st.sets(PARTITIONS))
def test_an_assignment_survives_the_round_trip(partitions):
    assert decode_assignment(encode_assignment(partitions)).partitions == tuple(sorted(partitions))


@given(st.sets(st.text(max_size=5)), st.integers(0, 4))
def test_a_subscription_survives_the_round_trip(topics, version):
    data = encode_subscription(Subscription(tuple(topics)), version)
    assert read_version(data) == version
    assert decode_subscription(data) == Subscription(tuple(sorted(topics)))


@given(st.sets(PARTITIONS), st.integers(-1, 2**31 - 1))
def test_sticky_user_data_survives_the_round_trip(partitions, generation):
    data = encode_sticky_user_data(partitions, generation)
    assert decode_sticky_user_data(data) == (tuple(sorted(partitions)), generation)
    assert decode_sticky_user_data(data[:-4]) == (tuple(sorted(partitions)), -1)


def test_other_clients_read_what_we_write():
    assigned = ConsumerProtocolMemberAssignment.decode(
        encode_assignment([TopicPartition("b", 3), TopicPartition("a", 1), TopicPartition("a", 0)])
    )
    assert assigned.assignment == [("a", [0, 1]), ("b", [3])]
    subscribed = ConsumerProtocolMemberMetadata.decode(encode_subscription(Subscription(("b", "a"))))
    assert subscribed.subscription == ["a", "b"]


def test_what_newer_versions_add_is_skipped():
    newer = b"\x00\x05" + encode_subscription(Subscription(("a",)))[2:] + bytes(9)
    assert decode_subscription(newer) == Subscription(("a",))


def test_no_assignment_yet_is_no_partitions():
    assert decode_assignment(b"") == Assignment(())


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data):
    for decode in (decode_assignment, decode_subscription, decode_sticky_user_data):
        try:
            decode(data)
        except InvalidRequest:
            pass


def test_a_lying_count_is_refused_before_anything_is_built():
    with pytest.raises(InvalidRequest, match="cannot fit"):
        decode_assignment(b"\x00\x00\x7f\xff\xff\xff")
