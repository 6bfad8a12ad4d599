"""The backup file: what is written is read back, and nothing else is."""

from uuid import UUID

import pytest

from ottla.metadata.backup_file import Backup, GroupOffset, decode_backup, encode_backup
from ottla.metadata.image import EMPTY
from ottla.metadata.records import (
    ClusterCreated,
    ConfigChanged,
    ConfigResource,
    MetadataError,
    PartitionCreated,
    ScramCredentialChanged,
    TopicCreated,
)

ID = UUID(int=7)
IMAGE = EMPTY.apply(
    [
        ClusterCreated("cluster"),
        TopicCreated("orders", ID),
        PartitionCreated(ID, 0, 1, 3, (1, 2), (1,), elr=(2,)),
        ConfigChanged(ConfigResource.TOPIC, "orders", "retention.ms", "5"),
        ScramCredentialChanged("alice", "SCRAM-SHA-256", "c2FsdA==", "c3RvcmVk", "c2VydmVy", 4096),
    ],
    42,
)
BACKUP = Backup(IMAGE, (GroupOffset("g", "orders", 0, 7, 3, "noted \u2713"),), 1_700_000_000_000, "0.1.0")


def test_a_backup_is_read_back():
    assert decode_backup(encode_backup(BACKUP)) == BACKUP


def test_it_is_lines_of_json_that_people_can_read():
    first, *_, last = encode_backup(BACKUP).decode().splitlines()
    assert first.startswith('{"format":"ottla-backup","v":1,"cluster_id":"cluster","version":42,')
    assert last.startswith('{"format":"ottla-backup-end","lines":7,"sha256":"')


@pytest.mark.parametrize("at", range(0, len(encode_backup(BACKUP)) - 1, 37))
def test_a_backup_that_is_cut_off_or_changed_is_refused(at):
    whole = encode_backup(BACKUP)
    with pytest.raises(MetadataError):
        decode_backup(whole[:at])
    with pytest.raises(MetadataError):
        decode_backup(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])


def test_a_backup_of_a_newer_version_is_refused_as_such():
    newer = encode_backup(BACKUP).replace(b'"ottla-backup","v":1', b'"ottla-backup","v":2')
    with pytest.raises(MetadataError, match="newer Ottla"):
        decode_backup(newer)
