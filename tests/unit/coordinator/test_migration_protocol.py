"""The subscriptions and assignments that classic members embed in their requests."""

import pytest
from tests.unit.coordinator.consumer_bench import image_of, parts, subscription

from ottla.coordinator.group.migration_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)
from ottla.protocol.errors import InvalidRequest


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_subscriptions_of_every_version_are_understood(version: int) -> None:
    data = subscription(["a", "b"], {"a": [1, 2]}, version)
    read = decode_subscription(data)
    assert read.topics == ("a", "b")
    assert read.owned == ((("a", (1, 2)),) if version >= 1 else ())
    assert version_of(data) == version


def test_assignments_name_topics_that_exist() -> None:
    image = image_of({"orders": 6})
    data = encode_assignment(parts("orders", 2, 1) | parts("gone", 1), image, 3)
    assert decode_assignment(data).partitions == (("orders", (1, 2)),)
    assert data[:2] == b"\x00\x03"


@pytest.mark.parametrize("cut", range(1, 30))
def test_torn_metadata_is_refused(cut: int) -> None:
    data = subscription(["orders"], {"orders": [1]}, 2)
    with pytest.raises(InvalidRequest):
        decode_subscription(data[: len(data) - cut])
