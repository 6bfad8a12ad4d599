"""Planted bugs against the guarantees of docs/delivery.md; see bugs.py.

docs/simulation.md lists the guarantee that each of them violates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ottla.api import produce
from ottla.coordinator.effects import InTransaction
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.records import OffsetKey, OffsetValue, Record
from ottla.coordinator.partition_writer import PartitionWriter
from ottla.log.flush import FlushJob
from ottla.log.log import Log
from ottla.log.producers.producer_state import ProducerState
from ottla.protocol.produce_codec import ProducePartitionResult
from ottla.replication.isr import InSyncReplicas
from ottla.replication.leader import LeaderState
from ottla.replication.partition import Partition

Patch = tuple[Any, str, Any]
Bug = Callable[[], list[Patch]]


def ack_before_followers() -> list[Patch]:
    """acks=all is answered when the leader has the records."""
    append: Any = produce._append

    def append_hastily(*args: Any) -> Any:
        return append(*args[:-1], abs(args[-1]))

    return [(produce, "_append", append_hastily)]


def no_min_insync() -> list[Patch]:
    """acks=all is answered, however few replicas are in sync."""
    high_watermark = InSyncReplicas.high_watermark

    def of_any_number(state: InSyncReplicas, own_end: int, min_insync: int, also: Any) -> int:
        return high_watermark(state, own_end, 1, also)

    return [
        (LeaderState, "check_in_sync", lambda leading: None),
        (InSyncReplicas, "high_watermark", of_any_number),
    ]


def ack_before_flush() -> list[Patch]:
    """A flush is said to be done, and the records were not written to the disk."""
    run = FlushJob.run

    def run_without_records(job: FlushJob) -> None:
        job.files.clear()
        run(job)

    return [(FlushJob, "run", run_without_records)]


def leader_drops_records() -> list[Patch]:
    """acks=1 is answered, and now and then the leader has not appended anything."""
    append: Any = produce._append

    def append_some(partition: Partition, *args: Any) -> Any:
        header, acks = args[2], args[-1]
        if acks == 1 and header.base_sequence % 5 == 4:
            end = partition.log.log_end_offset
            return ProducePartitionResult(args[0], 0, end, -1, partition.log_start_offset)
        return append(partition, *args)

    return [(produce, "_append", append_some)]


def no_sequence_check() -> list[Patch]:
    """A batch of an idempotent producer is appended as often as it is sent."""
    return [(ProducerState, "check", lambda producers, header: None)]


def forgotten_producers() -> list[Patch]:
    """A partition remembers only the producer that wrote last: a retry of another one is appended again."""
    update = ProducerState.update

    def update_and_forget(producers: ProducerState, header: Any, *args: Any) -> None:
        for producer_id, entry in list(producers.producers.items()):
            if producer_id != header.producer_id and entry.txn_first_offset < 0:
                del producers._producers[producer_id]
        update(producers, header, *args)

    return [(ProducerState, "update", update_and_forget)]


def producers_of_leaders_only() -> list[Patch]:
    """A follower does not note who wrote the batches that it copies, so a new leader knows no producer."""
    copy, update = Log.append_as_follower, ProducerState.update
    copying: list[bool] = []

    def copy_without(log: Log, *args: Any) -> None:
        copying.append(True)
        try:
            copy(log, *args)
        finally:
            copying.pop()

    def update_unless_copying(producers: ProducerState, header: Any, *args: Any) -> None:
        if not copying:
            update(producers, header, *args)

    return [(Log, "append_as_follower", copy_without), (ProducerState, "update", update_unless_copying)]


def uncommitted_reads() -> list[Patch]:
    """Consumers get what only the leader has."""

    def read_all(partition: Partition, offset: int, max_bytes: int, _: int, at_least_one: bool) -> Any:
        end_offset = partition.log.log_end_offset
        return partition.log.read(offset, max_bytes, end_offset, at_least_one=at_least_one)

    return [(Partition, "read", read_all)]


def early_answers() -> list[Patch]:
    """A coordinator answers when its record is in its own log, before it is committed."""
    return [(PartitionWriter, "committed", lambda writer, offset: None)]


def commits_one_too_many() -> list[Patch]:
    """A coordinator that takes over a group counts one record more than was committed."""
    load = PartitionWriter.load

    async def load_more(writer: PartitionWriter, replay: Callable[[Any], None]) -> int:
        def replay_more(record: Any) -> None:
            if isinstance(record, Record) and isinstance(record.value, OffsetValue):
                record = record._replace(value=replace(record.value, offset=record.value.offset + 1))
            replay(record)

        return await load(writer, replay_more)

    return [(PartitionWriter, "load", load_more)]


def commits_of_anyone() -> list[Patch]:
    """Offsets are committed for a member that the group has replaced, too."""
    return [(ClassicGroup, "check_commit", lambda group, request: None)]


def offsets_at_once() -> list[Patch]:
    """Offsets that a transaction commits count before it is committed."""

    def replay_at_once(machine: GroupMachine, pending: InTransaction) -> None:
        if isinstance(pending.record, Record):
            key, value = pending.record
            if isinstance(key, OffsetKey) and (value is None or isinstance(value, OffsetValue)):
                machine.offsets.replay(key, value)

    return [(GroupMachine, "_replay_pending", replay_at_once)]


DELIVERY_BUGS: dict[str, Bug] = {
    each.__name__.replace("_", "-"): each
    for each in (
        ack_before_followers,
        no_min_insync,
        ack_before_flush,
        leader_drops_records,
        no_sequence_check,
        forgotten_producers,
        producers_of_leaders_only,
        uncommitted_reads,
        early_answers,
        commits_one_too_many,
        commits_of_anyone,
        offsets_at_once,
    )
}
"""By the names that `--plant` takes; the last one is for `--workload transactions`."""
