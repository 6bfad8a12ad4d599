from __future__ import annotations

import pytest

from ottla.common.ids import TopicPartition
from ottla.log.file_names import (
    LOG,
    SWAP,
    deleted_dir_name,
    file_name,
    is_deleted_dir,
    offset_of,
    parse_partition_dir,
)


def test_segment_files_are_named_as_kafka_names_them() -> None:
    assert file_name(42, LOG) == "00000000000000000042.log"
    assert offset_of("00000000000000000042.log", LOG) == 42
    assert offset_of("00000000000000000042.log.swap", LOG + SWAP) == 42


@pytest.mark.parametrize(
    "name", ["42.log", "0000000000000000004x.log", "00000000000000000042.logs", "", ".log"]
)
def test_other_names_are_no_segment_files(name: str) -> None:
    assert offset_of(name, LOG) is None


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-0", TopicPartition("orders", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("orders", None),
        ("orders-", None),
        ("-1", None),
        ("orders-x", None),
        ("orders-01", None),
    ],
)
def test_directories_name_their_partitions(name: str, partition: TopicPartition | None) -> None:
    assert parse_partition_dir(name) == partition


def test_the_directory_of_a_deleted_partition_is_distinguished_and_never_too_long() -> None:
    for topic in ("orders", "x" * 249):
        name = deleted_dir_name(TopicPartition(topic, 7))
        assert is_deleted_dir(name)
        assert len(name) <= 255
        assert parse_partition_dir(name) is None
        assert name != deleted_dir_name(TopicPartition(topic, 7))
