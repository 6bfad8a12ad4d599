from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.ids import TopicPartition
from ottla.log.checkpoints import (
    CheckpointFile,
    MetaProperties,
    decode_offsets,
    decode_partition_metadata,
    encode_offsets,
    encode_partition_metadata,
    read_or_rename_corrupt,
    write_atomically,
)
from ottla.testing.simulation.disk import SimDisk

ORDERS = TopicPartition("orders", 3)
SOME_ID = UUID("12345678-1234-5678-1234-567812345678")


def disk_with_root() -> SimDisk:
    disk = SimDisk()
    disk.make_dir("/d")
    disk.fsync_dir("/")
    return disk


def test_offset_checkpoints_have_kafkas_format() -> None:
    offsets = {ORDERS: 42, TopicPartition("a.b_c-d", 0): 0}
    assert encode_offsets(offsets) == b"0\n2\norders 3 42\na.b_c-d 0 0\n"
    assert decode_offsets(encode_offsets(offsets)) == offsets


def test_partition_metadata_has_kafkas_format() -> None:
    assert encode_partition_metadata(SOME_ID) == b"version: 0\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA"
    assert decode_partition_metadata(encode_partition_metadata(SOME_ID)) == SOME_ID


def test_meta_properties_have_kafkas_keys() -> None:
    meta = MetaProperties(3, "MkU3OEVBNTcwNTJENDM2Qk", SOME_ID)
    text = meta.encode().decode()
    assert {"version=1", "node.id=3", "cluster.id=MkU3OEVBNTcwNTJENDM2Qk"} <= set(text.split("\n"))
    assert MetaProperties.decode(meta.encode()) == meta


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"version=1\n",
        b"\xff",
        b"version=2\nnode.id=1\ncluster.id=x\ndirectory.id=EjRWeBI0VngSNFZ4EjRWeA\n",
    ],
)
def test_meta_properties_that_cannot_be_read_raise(damaged: bytes) -> None:
    with pytest.raises(ValueError):
        MetaProperties.decode(damaged)


@given(st.binary(max_size=80))
def test_decoders_raise_nothing_but_value_errors(data: bytes) -> None:
    for decode in (decode_offsets, decode_partition_metadata, MetaProperties.decode):
        try:
            decode(data)
        except ValueError:
            pass


@given(st.data())
def test_a_cut_off_checkpoint_never_passes_for_a_whole_one(data: st.DataObject) -> None:
    whole = encode_offsets({ORDERS: 42, TopicPartition("x", 0): 7})
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(ValueError):
        decode_offsets(cut)


def test_a_checkpoint_that_does_not_parse_is_set_aside_and_counts_as_missing() -> None:
    disk = disk_with_root()
    disk.write_file("/d/checkpoint", b"0\n7\nnonsense\n", sync=True)
    assert read_or_rename_corrupt(disk, "/d/checkpoint", decode_offsets) is None
    assert not disk.exists("/d/checkpoint")
    assert disk.read_file("/d/checkpoint.corrupt") == b"0\n7\nnonsense\n"
    assert read_or_rename_corrupt(disk, "/d/checkpoint", decode_offsets) is None


@pytest.mark.parametrize("seed", range(20))
def test_an_atomic_write_is_all_there_after_a_power_failure_or_not_at_all(seed: int) -> None:
    disk = disk_with_root()
    write_atomically(disk, "/d/checkpoint", b"old")
    disk.fail("fsync_dir", 5, path_part="/d")
    with pytest.raises(OSError):
        write_atomically(disk, "/d/checkpoint", b"new and longer")
    disk.crash(Random(seed))
    assert disk.read_file("/d/checkpoint") in (b"old", b"new and longer")


def test_the_latest_capture_wins_not_the_last_writer() -> None:
    disk = disk_with_root()
    file = CheckpointFile(disk, "/d/recovery-point-offset-checkpoint")
    earlier = file.capture({ORDERS: 100})
    later = file.capture({ORDERS: 50})
    later()
    earlier()
    assert decode_offsets(disk.read_file("/d/recovery-point-offset-checkpoint")) == {ORDERS: 50}
