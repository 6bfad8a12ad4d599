"""What a broker knows of its own health: metadata, disk, partitions, groups, transactions.

`collect` reads it from the running broker; `findings` (health_findings.py) judges it. Whether a partition can
be written is the leader's own view: the cluster's metadata is out of date while nothing can change it.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ottla import __version__
from ottla.api.support.context import Services
from ottla.common.yielding import run_in_slices
from ottla.controller.machine import partitions_awaiting_directory
from ottla.coordinator.group.machine import GroupMachine
from ottla.log.directories.log_directories import LogDirectories

STALLED_MS = 5_000
"""An in-sync replica that has not kept up for this long stalls the writes with acks=all."""
STUCK_GROUP_MS = 300_000
"""A group with members, unread records and no commit for this long is stuck."""
ENDING_MS = 60_000
"""A transaction whose markers are not written after this long hangs."""
ONLINE = "online"
"""The state of a disk that can be written."""
MAX_NAMED = 20
"""How many partitions, groups and transactions are named."""


@dataclass(slots=True)
class Tally:
    """How many there are, and the names of the first few."""

    count: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, name: object) -> None:
        """Count one more."""
        self.count += 1
        if len(self.names) < MAX_NAMED:
            self.names.append(str(name))


@dataclass(slots=True)
class DiskFacts:
    """The disk of a data directory; sizes are -1 if they are unknown."""

    path: str
    offline_reason: str | None = None
    is_full: bool = False
    free_bytes: int = -1
    size_bytes: int = -1
    failed_replicas: Tally = field(default_factory=Tally)

    @property
    def state(self) -> str:
        """Return "online", "full", or "offline" with the reason."""
        if self.offline_reason is not None:
            return f"offline: {self.offline_reason}"
        return "full" if self.is_full else ONLINE


@dataclass(slots=True)
class MetadataFacts:
    """How current this broker's metadata is."""

    version: int = 0
    age_ms: int = 0
    store: str = "embedded"
    silent_ms: int = 0
    session_timeout_ms: int = 0
    has_session: bool = True
    controller_id: int = -1
    controller_epoch: int = 0
    is_controller: bool = False
    fenced_brokers: list[int] = field(default_factory=list)
    in_maintenance: list[int] = field(default_factory=list)
    rolled_back_to: int = -1
    """The older version that the store has, if it went back."""


@dataclass(slots=True)
class PartitionFacts:
    """The partitions that this broker leads."""

    led: int = 0
    under_replicated: Tally = field(default_factory=Tally)
    under_min_isr: Tally = field(default_factory=Tally)
    stalled: Tally = field(default_factory=Tally)
    """Writes with acks=all wait for a replica that does not fetch."""
    late_brokers: list[int] = field(default_factory=list)
    """The brokers that they wait for."""
    awaiting_directory: Tally = field(default_factory=Tally)
    """Of the whole cluster, on the controller: offline, and their records are on a lost disk."""
    without_directory: list[int] = field(default_factory=list)
    """The brokers that have lost it."""


@dataclass(slots=True)
class BrokerFacts:
    """Everything."""

    node_id: int
    now_ms: int
    version: str = __version__
    phase: str = "running"
    metadata: MetadataFacts = field(default_factory=MetadataFacts)
    disk: DiskFacts = field(default_factory=lambda: DiskFacts(""))
    other_disks: list[DiskFacts] = field(default_factory=list)
    """Those of further data directories."""
    disk_warning_percent: int = 10
    partitions: PartitionFacts = field(default_factory=PartitionFacts)
    loading_groups: int = 0
    loading_transactions: int = 0
    stuck_groups: Tally = field(default_factory=Tally)
    unended_transactions: Tally = field(default_factory=Tally)
    """Those that this broker coordinates and cannot end: partitions lack the marker."""
    hanging_transactions: Tally = field(default_factory=Tally)
    """Those that are open in a partition here for too long."""
    ensemble: list[dict[str, Any]] = field(default_factory=list)

    @property
    def disks(self) -> list[DiskFacts]:
        """Return all disks."""
        return [self.disk, *self.other_disks]

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


async def collect(services: Services, *, include_ensemble: bool = False) -> BrokerFacts:
    """Return the facts of a running broker, without blocking the event loop."""
    facts = quick_facts(services)
    for each in facts.disks:
        await _measure_disk(each)
    await run_in_slices(_look_at_partitions(services, facts))
    await run_in_slices(_look_at_groups(services, facts))
    await run_in_slices(_look_at_transactions(services, facts))
    if include_ensemble:
        servers = await services.controller.ensemble()
        facts.ensemble = [asdict(each) | {"details": dict(each.details)} for each in servers]
    return facts


def quick_facts(services: Services) -> BrokerFacts:
    """Return what takes no time: everything but partitions, groups, transactions and free space."""
    controller, image = services.controller, services.cluster.image
    contact = controller.contact
    facts = BrokerFacts(services.node_id, services.clock.wall_ms())
    facts.metadata = MetadataFacts(
        image.version,
        controller.metadata_age_ms,
        contact.kind,
        contact.silent_ms,
        contact.session_timeout_ms,
        controller.is_registered,
        image.controller_id,
        image.controller_epoch,
        controller.can_act,
        sorted(each.node_id for each in image.brokers.values() if each.fenced),
        sorted(image.in_maintenance),
        -1 if controller.rolled_back is None else controller.rolled_back.found,
    )
    facts.disk, *facts.other_disks = _disks(services.log_directories)
    facts.disk_warning_percent = services.config.ottla_disk_free_warning_percent
    facts.loading_groups = services.groups.loading_count
    facts.loading_transactions = services.transactions.loading_count
    if controller.is_active:
        awaiting = partitions_awaiting_directory(image)
        facts.partitions.without_directory = sorted(awaiting)
        for partitions in awaiting.values():
            for waiting in partitions:
                facts.partitions.awaiting_directory.add(waiting)
    return facts


async def write_facts(services: Services) -> BrokerFacts:
    """Return what decides about readiness: the quick facts, and which partitions can be written."""
    facts = quick_facts(services)
    await run_in_slices(_look_at_partitions(services, facts))
    return facts


def _disks(directories: LogDirectories) -> list[DiskFacts]:
    found = []
    for directory in directories.directories:
        storage = directory.storage
        found.append(DiskFacts(str(storage.path), storage.offline_reason, storage.is_full))
        for partition in directory.failed:
            found[-1].failed_replicas.add(partition)
    found += [DiskFacts(path, reason) for path, reason in directories.unusable.items()]
    failed = next((each for each in found if each.offline_reason is not None), found[0])
    for partition in sorted(directories.offline):
        failed.failed_replicas.add(partition)
    return found


async def _measure_disk(disk: DiskFacts) -> None:
    try:
        usage = await asyncio.get_running_loop().run_in_executor(None, shutil.disk_usage, disk.path)
    except OSError:
        return  # unknown
    disk.free_bytes, disk.size_bytes = usage.free, usage.total


def _look_at_partitions(services: Services, facts: BrokerFacts) -> Iterator[None]:
    found, late = facts.partitions, set[int]()
    for partition in services.partitions:
        if not partition.is_leader:
            continue
        found.led += 1
        state, name = partition.leader_state, partition.topic_partition
        if state is None:
            yield
            continue
        if len(state.isr_state.isr) < state.replica_count:
            found.under_replicated.add(name)
        if len(state.isr_state.isr) < state.min_insync:
            found.under_min_isr.add(name)
        elif waiting_for := state.late_members(STALLED_MS):
            found.stalled.add(name)
            late.update(waiting_for)
        yield
    found.late_brokers = sorted(late)


def _look_at_groups(services: Services, facts: BrokerFacts) -> Iterator[None]:
    for machine, group_id in services.groups.listed_now():
        if _is_stuck(services, machine, group_id, facts.now_ms):
            facts.stuck_groups.add(group_id)
        yield


def _is_stuck(services: Services, machine: GroupMachine, group_id: str, now_ms: int) -> bool:
    """Return whether members have committed nothing for a while of a partition that has unread records.

    One partition is enough: its member may hang, or fail at a record again and again, while others work. What
    a group committed of topics that it no longer reads does not count.
    """
    group = machine.groups.get(group_id)
    if group is None or not getattr(group, "members", ()):
        return False
    idle = {
        (topic, partition)
        for topic, partitions in machine.offsets.of_group(group_id).items()
        if group.is_subscribed_to(topic)
        for partition, offset in partitions.items()
        if now_ms - offset.commit_ms >= STUCK_GROUP_MS
    }
    return bool(idle) and any(
        each.lag is not None
        and (each.lag.seconds or 0) * 1000 > STUCK_GROUP_MS
        and (each.topic, each.partition) in idle
        for each in services.groups.lag_now(machine, group_id)
    )


def _look_at_transactions(services: Services, facts: BrokerFacts) -> Iterator[None]:
    for machine in services.transactions.machines:
        for transactional_id, each in list(machine.transactions.items()):
            age_ms = facts.now_ms - each.last_update_ms
            is_late = each.has_timed_out(facts.now_ms - ENDING_MS)
            if is_late or (each.state.is_ending and age_ms > ENDING_MS):
                facts.unended_transactions.add(transactional_id)
            yield
    oldest_ms = facts.now_ms - services.config.transaction_max_timeout_ms - ENDING_MS
    for partition in services.partitions:
        producers = partition.log.producers
        if partition.is_leader and producers.transactions:
            for producer_id, entry in list(producers.producers.items()):
                # Records may bear old timestamps, as those of a backfill do.
                last_ms = max(entry.last_timestamp, entry.appended_ms)
                if entry.txn_first_offset >= 0 and last_ms < oldest_ms:
                    facts.hanging_transactions.add(f"{partition.topic_partition} (producer {producer_id})")
        yield
