"""What a stopped broker's directory has, read without changing it."""

from pathlib import Path

import pytest

from ottla.common.ids import TopicPartition
from ottla.log.disk import RealDisk
from ottla.log.survey import NotADataDirectory, survey_directory
from ottla.testing.local_cluster import LocalCluster


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The directory of a broker that became the leader."""
    with LocalCluster(2, folder=tmp_path) as cluster:
        topic = cluster.create_topic("orders")
        topic.send(*(str(number).encode() for number in range(5)))
        cluster.wait_until_in_sync()
        cluster.kill(leader_of="orders")
        leader = cluster.leader_of("orders")
        topic.send(b"5", b"6")
    return tmp_path / f"broker-{leader}"


def test_a_replica_is_surveyed_to_its_last_batch(data: Path) -> None:
    found = survey_directory(RealDisk(), str(data))
    assert str(data).endswith(str(found.node_id))
    replica = found.replicas[TopicPartition("orders", 0)]
    assert replica.end_offset == 7
    assert replica.last_epoch >= 1
    assert replica.newest_epoch >= replica.last_epoch
    assert replica.topic_id is not None


def test_a_log_whose_move_was_interrupted_counts(data: Path) -> None:
    (data / "orders-0").rename(data / f"orders-0.{'0' * 32}-moved")
    found = survey_directory(RealDisk(), str(data))
    assert found.replicas[TopicPartition("orders", 0)].end_offset == 7


def test_a_torn_or_damaged_end_does_not_count(data: Path) -> None:
    (log,) = (data / "orders-0").glob("*.log")
    whole = log.read_bytes()
    place = TopicPartition("orders", 0)
    log.write_bytes(whole + whole[:30])
    assert survey_directory(RealDisk(), str(data)).replicas[place].end_offset == 7
    log.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert survey_directory(RealDisk(), str(data)).replicas[place].end_offset < 7
    log.write_bytes(b"")
    empty = survey_directory(RealDisk(), str(data)).replicas[place]
    assert empty.end_offset == 0


def test_a_directory_without_an_owner_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotADataDirectory, match="is not a broker's data"):
        survey_directory(RealDisk(), str(tmp_path))
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    with pytest.raises(NotADataDirectory, match="cannot be parsed"):
        survey_directory(RealDisk(), str(tmp_path))
