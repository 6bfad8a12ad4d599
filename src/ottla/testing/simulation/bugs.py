"""Planted bugs: each removes one rule that Kafka learned the hard way.

A simulation that does not find them proves nothing. `planted(name)` applies one within a block.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

from ottla.api.support.fetch_sessions import FetchPartitionState
from ottla.api.support.replica_fetch import ReplicaFetchOperation
from ottla.controller.machine import election
from ottla.controller.membership import Membership
from ottla.metadata.memory import MemoryStore
from ottla.metadata.state import MetadataFollower
from ottla.metadata.store import MetadataEntry
from ottla.protocol.fetch_codec import FetchPartitionResult
from ottla.replication import follower, isr, leader
from ottla.replication.partition import Partition
from ottla.replication.registry import PartitionRegistry
from ottla.testing.simulation.delivery_bugs import DELIVERY_BUGS
from ottla.testing.simulation.transactions.bugs import TRANSACTION_BUGS

Patch = tuple[Any, str, Any]


def truncate_to_high_watermark() -> list[Patch]:
    """A follower truncates to its own high watermark, not to where its log diverges from the leader's."""
    follow = Partition.follow

    def follow_and_truncate(partition: Partition, leader_epoch: int) -> None:
        is_new = leader_epoch != partition.leader_epoch or partition.is_leader
        follow(partition, leader_epoch)
        if is_new:
            partition.log.truncate_to(partition.high_watermark)
            partition.on_truncated()

    return [
        (Partition, "follow", follow_and_truncate),
        (Partition, "diverging_epoch", lambda *_: None),
    ]


def unfenced_fetch() -> list[Patch]:
    """A fetch for another leader epoch is served and counted, and its response is used."""
    read_one = ReplicaFetchOperation._read_one

    def read_unfenced(
        reading: ReplicaFetchOperation, partition: Partition, wanted: FetchPartitionState, max_bytes: int
    ) -> FetchPartitionResult:
        if wanted.current_leader_epoch != partition.leader_epoch:
            wanted = copy(wanted)
            wanted.current_leader_epoch, wanted.last_fetched_epoch = partition.leader_epoch, -1
        return read_one(reading, partition, wanted, max_bytes)

    return [
        (Partition, "check_leader_epoch", lambda partition, epoch: None),
        (ReplicaFetchOperation, "_read_one", read_unfenced),
        (follower, "is_current_epoch", lambda asked, current: True),
    ]


def early_isr_join() -> list[Patch]:
    """A follower joins the ISR at the high watermark, before it has reached the leader epoch's start."""
    return [(isr, "may_join", lambda end, high_watermark, epoch_start: end >= high_watermark)]


def no_maximal_isr() -> list[Patch]:
    """A leader uses an ISR that it has requested as if it had been granted."""
    return [
        (isr, "maximal_isr", lambda agreed, proposed: frozenset(agreed if proposed is None else proposed))
    ]


def own_minimum() -> list[Patch]:
    """A leader commits by its own min.insync.replicas, while the controller's lets others be elected."""
    return [(leader, "_has_eligible", lambda image: False)]


def unclean_last_replica() -> list[Patch]:
    """A broker that lost the end of its log stays in the ISR."""
    return [(election, "without_lost", lambda partition, lost: partition)]


def empty_disk_leads() -> list[Patch]:
    """A broker whose disk was replaced is treated as if it had its data."""
    return [(election, "lost_directories", lambda old, electorate, replaced: {})]


def replaced_disk_is_whole() -> list[Patch]:
    """A broker with two disks, one of which was replaced, is treated as if it had its data."""
    return [(election.RestartInfo, "at", lambda restarts, topic_id, index: restarts)]


def failed_disk_leads() -> list[Patch]:
    """A replica on a failed disk may lead and be in sync, as long as its broker is alive."""
    return [(election.ElectionInputs, "for_disks_of", lambda inputs, partition: inputs)]


DISK_BUGS: dict[str, Callable[[], list[Patch]]] = {
    "replaced-disk-is-whole": replaced_disk_is_whole,
    "failed-disk-leads": failed_disk_leads,
}
"""For `--workload disks`."""


def tombstones_are_not_waited_for() -> list[Patch]:
    """Compaction drops tombstones that a replica which is away does not have."""
    return [(PartitionRegistry, "is_replicated", lambda registry, place: True)]


COMPACTION_BUGS: dict[str, Callable[[], list[Patch]]] = {
    "tombstones-are-not-waited-for": tombstones_are_not_waited_for,
}
"""For `--workload compaction`."""


def follow_any_store() -> list[Patch]:
    """A broker opens a session with a store that has an older state than it has applied, and waits."""

    async def read(store: MemoryStore, after_version: int) -> list[MetadataEntry]:
        await store._wait_for_store()
        return [each for each in store.server.entries if each.version > after_version]

    async def trust(follower: MetadataFollower) -> None:
        await follower.catch_up()

    return [
        (MemoryStore, "read", read),
        (MetadataFollower, "verify", trust),
        (MetadataFollower, "_read_same_history", lambda each, version: each._store.read(version)),
    ]


def one_candidacy() -> list[Patch]:
    """A broker stands for election with an expired session, and not with the next one."""

    def begin_candidacy(members: Membership) -> None:
        if members._is_candidate and members._candidacy is None and members._session is not None:
            members._candidacy = asyncio.create_task(members._run_terms(members._session))

    return [(Membership, "_begin_candidacy", begin_candidacy)]


BUGS: dict[str, Callable[[], list[Patch]]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        truncate_to_high_watermark,
        unfenced_fetch,
        early_isr_join,
        no_maximal_isr,
        own_minimum,
        unclean_last_replica,
        empty_disk_leads,
        one_candidacy,
        follow_any_store,
    )
}
"""By the names that `python -m ottla.testing.simulate --plant` takes."""

ALL_BUGS = BUGS | DISK_BUGS | COMPACTION_BUGS | DELIVERY_BUGS | TRANSACTION_BUGS
"""With those against the promises of docs/delivery.md, and those that only transactions suffer from."""


def plant(name: str) -> Callable[[], None]:
    """Plant a bug; return the function that removes it."""
    patches = ALL_BUGS[name]()
    before = [(target, attribute, getattr(target, attribute)) for target, attribute, _ in patches]
    for target, attribute, value in patches:
        setattr(target, attribute, value)

    def take_out() -> None:
        for target, attribute, value in before:
            setattr(target, attribute, value)

    return take_out


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a bug within a block."""
    take_out = plant(name)
    try:
        yield
    finally:
        take_out()
