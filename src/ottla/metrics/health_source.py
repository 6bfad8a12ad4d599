"""Collect the metrics of a broker's health: findings, age of the metadata, stalled writes, lost records."""

from __future__ import annotations

from collections import Counter

from ottla.api.support.health_facts import collect
from ottla.api.support.health_findings import CODES, BrokerFinding, findings
from ottla.metrics import own_metrics
from ottla.metrics.samples import Samples
from ottla.metrics.view import BrokerView


async def health(view: BrokerView, samples: Samples) -> list[BrokerFinding]:
    """Add what the broker finds wrong with itself; return it."""
    facts = await collect(view.services)
    found = findings(facts)
    put = samples.put
    put(own_metrics.METADATA_AGE, facts.metadata.age_ms / 1000)
    put(own_metrics.STORE_CONNECTED, not facts.metadata.silent_ms)
    put(own_metrics.ROLLED_BACK, facts.metadata.rolled_back_to >= 0)
    put(own_metrics.SESSION, facts.metadata.has_session)
    put(own_metrics.STALLED, facts.partitions.stalled.count)
    put(own_metrics.AWAITING_DIRECTORY, facts.partitions.awaiting_directory.count)
    put(own_metrics.STUCK_GROUPS, facts.stuck_groups.count)
    put(own_metrics.HANGING, facts.hanging_transactions.count)
    counts = Counter(each.code for each in found)
    for code in CODES:
        put(own_metrics.FINDINGS, counts[code], code)
    events = view.services.partitions.events
    put(own_metrics.LOST_RECORDS, events.lost_records)
    put(own_metrics.TRUNCATIONS, events.truncations_of_committed)
    for disk in facts.disks:
        put(own_metrics.DISK_FULL, disk.is_full, disk.path)
        if disk.size_bytes >= 0:
            put(own_metrics.DISK_FREE, disk.free_bytes, disk.path)
            put(own_metrics.DISK_SIZE, disk.size_bytes, disk.path)
    return found
