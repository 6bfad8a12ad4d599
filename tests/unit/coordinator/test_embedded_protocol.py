"""The embedded consumer protocol, where the coordinator reads and writes it."""

import pytest
from tests.unit.coordinator.consumer_bench import image_of, parts, subscription

from ottla.coordinator.group.embedded_protocol import by_topic_id, encode_assignment, subscribed_topics
from ottla.protocol.consumer_protocol import decode_assignment, decode_subscription, read_version
from ottla.protocol.errors import InvalidRequest


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_subscriptions_of_every_version_are_understood(version: int) -> None:
    data = subscription(["a", "b"], {"a": [1, 2]}, version)
    read = decode_subscription(data)
    assert read.topics == ("a", "b")
    assert read.owned == ((("a", 1), ("a", 2)) if version >= 1 else ())
    assert read_version(data) == version
    assert subscribed_topics(data) == {"a", "b"}


def test_the_topics_of_a_subscription_are_read_though_the_rest_is_of_another_kind() -> None:
    assert subscribed_topics(subscription(["a"], version=0).replace(b"\0\0", b"\0\x09", 1)) == {"a"}


def test_assignments_name_topics_that_exist() -> None:
    image = image_of({"orders": 6})
    data = encode_assignment(parts("orders", 2, 1) | parts("gone", 1), image, 3)
    assert decode_assignment(data).partitions == (("orders", 1), ("orders", 2))
    assert data[:2] == b"\x00\x03"


def test_partitions_that_do_not_exist_are_left_out() -> None:
    data = subscription(["a"], {"orders": [5, 6, -1], "gone": [0]})
    assert by_topic_id(decode_subscription(data).owned, image_of({"orders": 6}).topics) == parts("orders", 5)


@pytest.mark.parametrize("cut", range(1, 30))
def test_torn_metadata_is_refused(cut: int) -> None:
    data = subscription(["orders"], {"orders": [1]}, 2)
    with pytest.raises(InvalidRequest):
        decode_subscription(data[: len(data) - cut])
