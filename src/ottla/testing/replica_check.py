"""Check the replicas of a partition on the disks of stopped brokers.

The files are read without the broker's own code: each replica's batches in order, and the checkpoint files.
Replicas that have all caught up are identical byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ottla.common.ids import TopicPartition
from ottla.log.disk import Disk
from ottla.log.epoch_cache import EpochCache
from ottla.log.file_names import EPOCH_CHECKPOINT, LOG, SNAPSHOT, offset_of
from ottla.log.producers.producer_state import CorruptSnapshot, ProducerEntry, ProducerState
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import BatchHeader, crc_of, iter_batches
from ottla.protocol.records.records import decode_records
from ottla.testing.checker import Violation
from ottla.testing.history import Read, value_of


@dataclass
class Replica:
    """One replica's files."""

    name: str
    data: bytes = b""
    batches: list[tuple[BatchHeader, bytes]] = field(default_factory=list)
    epochs: list[tuple[int, int]] | None = None
    snapshot: tuple[int, bytes] | None = None

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self.batches[-1][0].next_offset if self.batches else 0

    def records(self) -> list[Read]:
        """Return what readers should see."""
        return [
            (each.offset, value_of(each))
            for header, batch in self.batches
            if not header.is_control
            for each in decode_records(batch)
        ]


def read_replica(disk: Disk, directory: str, name: str) -> Replica:
    """Read the files of one partition."""
    replica = Replica(name)
    names = [entry.name for entry in disk.list_dir(directory)]
    for file in sorted(each for each in names if each.endswith(LOG)):
        replica.data += disk.read_file(f"{directory}/{file}")
    replica.batches = [(header, bytes(batch)) for header, batch in iter_batches(memoryview(replica.data))]
    if EPOCH_CHECKPOINT in names:
        cache = EpochCache.decode(disk.read_file(f"{directory}/{EPOCH_CHECKPOINT}"))
        # A leader notes its epoch before its first record: that entry is not in the log yet.
        replica.epochs = [(epoch, start) for epoch, start in cache.entries() if start < replica.end_offset]
    offsets = sorted(at for each in names if (at := offset_of(each, SNAPSHOT)) is not None)
    if offsets:
        path = f"{directory}/{offsets[-1]:020d}{SNAPSHOT}"
        replica.snapshot = offsets[-1], disk.read_file(path)
    return replica


def check_replicas(place: TopicPartition, replicas: Sequence[Replica]) -> list[Violation]:
    """Return the violations of replicas that had all caught up before they were stopped."""
    found = [violation for each in replicas for violation in _check_replica(place, each)]
    first = replicas[0]
    found += [
        Violation("replicas-differ", f"{place}: {_difference(first, other)}")
        for other in replicas[1:]
        if other.data != first.data
    ]
    return found


def check_compacted_replica(place: TopicPartition, replica: Replica) -> list[Violation]:
    """Return the violations of a replica of a compacted log: its offsets and epochs may have gaps."""
    return list(_check_replica(place, replica, has_gaps=True))


def _check_replica(place: TopicPartition, replica: Replica, *, has_gaps: bool = False) -> Iterator[Violation]:
    where = f"{place} on {replica.name}"
    next_offset, last_epoch, size = 0, -1, 0
    epochs: list[tuple[int, int]] = []
    producers = ProducerState()
    for header, batch in replica.batches:
        size += len(batch)
        at = f"{where} at offset {header.base_offset}"
        if crc_of(batch) != header.crc:
            yield Violation("damaged-log", f"{at}: wrong checksum")
        if header.base_offset < next_offset or (header.base_offset > next_offset and not has_gaps):
            yield Violation("damaged-log", f"{at}: {next_offset} was to come next")
        if header.leader_epoch < last_epoch:
            yield Violation("damaged-log", f"{at}: epoch {header.leader_epoch} after {last_epoch}")
        if header.leader_epoch > last_epoch:
            epochs.append((header.leader_epoch, header.base_offset))
        next_offset, last_epoch = header.next_offset, max(last_epoch, header.leader_epoch)
        producers.replay(header, memoryview(batch))
    if size != len(replica.data):
        yield Violation("damaged-log", f"{where}: {len(replica.data) - size} bytes at the end are no batch")
    if replica.epochs is not None and replica.epochs != epochs and not has_gaps:
        yield Violation("wrong-epochs", f"{where}: the checkpoint says {replica.epochs}, the log {epochs}")
    if replica.snapshot is not None and replica.snapshot[0] == next_offset:
        yield from _check_snapshot(where, producers, replica.snapshot, 1 if has_gaps else None)


def _check_snapshot(
    where: str, expected: ProducerState, snapshot: tuple[int, bytes], last: int | None
) -> Iterator[Violation]:
    """Compare a snapshot with the log, in all or in the `last` batches: compaction keeps no others."""
    try:
        found = ProducerState.decode(snapshot[1], snapshot[0])
    except (CorruptSnapshot, KafkaError) as error:
        yield Violation("wrong-producers", f"{where}: {error}")
        return
    for producer_id in sorted(expected.producers.keys() | found.producers.keys()):
        true = _state_of(expected.producers.get(producer_id), last)
        said = _state_of(found.producers.get(producer_id), last)
        if true != said:
            yield Violation(
                "wrong-producers", f"{where}: the snapshot says {said} of {producer_id}, the log {true}"
            )


def _state_of(entry: ProducerEntry | None, last: int | None) -> tuple[object, ...] | None:
    """Return the state that must survive a restart; a marker may be later than the last batch."""
    if entry is None:
        return None
    batches = [each._replace(timestamp=0) for each in entry.batches][-(last or 0) :]
    return entry.epoch, entry.coordinator_epoch, entry.txn_first_offset, entry.last_timestamp, batches


def _difference(one: Replica, other: Replica) -> str:
    for (a, batch), (b, other_batch) in zip(one.batches, other.batches, strict=False):
        if batch != other_batch:
            return (
                f"offset {a.base_offset} is epoch {a.leader_epoch} on {one.name}, "
                f"{b.base_offset} is epoch {b.leader_epoch} on {other.name}"
            )
    return f"{one.name} ends at {one.end_offset}, {other.name} at {other.end_offset}"
