"""Groups live where Kafka would put them."""

import pytest

from ottla.coordinator.partitions import partition_for


@pytest.mark.parametrize(
    ("group_id", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("my-group", -1906497762),
        ("polygenelubricants", -2147483648),
        ("tschüß", -864723577),
        ("🎉", 1773261),
    ],
)
def test_a_group_is_placed_by_the_hash_that_java_gives_its_id(group_id: str, java_hash: int) -> None:
    positive = 0 if java_hash == -(2**31) else abs(java_hash)
    for count in (1, 7, 50, 1000):
        assert partition_for(group_id, count) == positive % count
