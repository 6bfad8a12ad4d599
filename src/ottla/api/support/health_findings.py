"""Judge a broker's facts: what is wrong, how bad it is, and what to type. Pure.

Three responses are derived from the findings: `/healthz` (the disk), `/readyz` (whether clients may be routed
here) and `ottla cluster health`. Codes are stable: alerts, runbooks (docs/operations.md) and scripts use
them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ottla.api.support.health_facts import ONLINE, BrokerFacts, DiskFacts, Tally
from ottla.common.units import GIB

WRONG, WARNING = "wrong", "warning"
STALE_WARNING_MS = 2_000
CODES = (
    "disk-full",
    "disk-low",
    "hanging-transaction",
    "loading",
    "log-directory-offline",
    "lost-disk",
    "maintenance",
    "metadata-rolled-back",
    "no-metadata-store",
    "no-session",
    "offline-replicas",
    "stale-metadata",
    "stuck-group",
    "under-min-isr",
    "writes-stalled",
    "zookeeper-quorum",
)
"""Every code."""


@dataclass(frozen=True, slots=True)
class BrokerFinding:
    """One finding. `blocks_ready`: clients should not be routed to this broker."""

    code: str
    severity: str
    what: str
    fix: str
    blocks_ready: bool = False
    subjects: tuple[str, ...] = ()
    """The partitions, groups or transactions that it is about, the first few of them."""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


def findings(facts: BrokerFacts) -> list[BrokerFinding]:
    """Return what is wrong with a broker, the worst first."""
    found = [*_metadata(facts), *_disk(facts), *_partitions(facts), *_coordinators(facts)]
    return sorted(found, key=lambda each: each.severity != WRONG)


def is_ready(found: list[BrokerFinding]) -> bool:
    """Return whether clients may be routed to a broker with these findings."""
    return not any(each.blocks_ready for each in found)


def report(facts: BrokerFacts) -> dict[str, Any]:
    """Return the facts with the findings, as JSON."""
    found = findings(facts)
    return {
        **facts.as_json(),
        "ready": is_ready(found),
        "healthy": all(each.severity != WRONG for each in found),
        "findings": [each.as_json() for each in found],
    }


def _metadata(facts: BrokerFacts) -> Iterator[BrokerFinding]:
    known = facts.metadata
    where = "ZooKeeper" if known.store == "zookeeper" else "the metadata store"
    quorum = "ottla cluster quorum"
    if known.rolled_back_to >= 0:
        found = (
            f"version {known.rolled_back_to}" if known.rolled_back_to < known.version else "another history"
        )
        what = (
            f"{where} went back: the broker has applied metadata version {known.version}, {where} has "
            f"{found}. The broker leads nothing"
        )
        fix = f"put the newest data of {where} back, or stop all brokers and: ottla cluster rebuild"
        yield BrokerFinding("metadata-rolled-back", WRONG, what, fix, blocks_ready=True)
    elif not known.has_session:
        what = f"the broker has no session with {where} and is fenced: it leads nothing"
        yield BrokerFinding("no-session", WRONG, what, quorum, blocks_ready=True)
    if known.silent_ms > known.session_timeout_ms:
        what = (
            f"no answer from {where} for {known.silent_ms / 1000:.0f} s, longer than the session timeout "
            f"({known.session_timeout_ms / 1000:g} s): leaders cannot be elected, and others may lead "
            "in this broker's place"
        )
        yield BrokerFinding("no-metadata-store", WRONG, what, quorum, blocks_ready=True)
    elif known.silent_ms:
        what = f"no connection to {where} for {known.silent_ms / 1000:.1f} s"
        yield BrokerFinding("no-metadata-store", WARNING, what, quorum)
    elif known.age_ms > STALE_WARNING_MS:
        what = f"the metadata is {known.age_ms / 1000:.0f} s old: newer changes have not been applied"
        yield BrokerFinding("stale-metadata", WARNING, what, "see the log of the broker")
    if facts.node_id in known.in_maintenance:
        what = "the broker is in maintenance: it leads only what no other can, and gets no new replicas"
        fix = f"end it: ottla cluster maintenance stop {facts.node_id}"
        yield BrokerFinding("maintenance", WARNING, what, fix)
    yield from _ensemble(facts)


def _ensemble(facts: BrokerFacts) -> Iterator[BrokerFinding]:
    servers = facts.ensemble
    serving = [each for each in servers if each["mode"]]
    if not servers or len(serving) == len(servers):
        return
    down = "; ".join(f"{each['address']}: {each['problem']}" for each in servers if not each["mode"])
    severity = WARNING if len(serving) * 2 > len(servers) else WRONG
    quorum = "a quorum" if severity == WARNING else "NO quorum"
    what = f"ZooKeeper: {len(serving)} of {len(servers)} servers are serving, {quorum}: {down}"
    yield BrokerFinding("zookeeper-quorum", severity, what, "start the servers: ottla zookeeper start")


def _disk(facts: BrokerFacts) -> Iterator[BrokerFinding]:
    is_any_writable = any(each.state == ONLINE for each in facts.disks)
    for each in facts.disks:
        yield from _one_disk(facts, each, is_any_writable=is_any_writable)


def _one_disk(facts: BrokerFacts, disk: DiskFacts, *, is_any_writable: bool) -> Iterator[BrokerFinding]:
    if disk.offline_reason is not None:
        what = f"the log directory {disk.path} is offline: {disk.offline_reason}"
        was_full = os.strerror(errno.ENOSPC) in disk.offline_reason  # when the broker started
        fix = f"{'free space' if was_full else 'check the disk (dmesg)'}, then restart the broker"
        yield BrokerFinding("log-directory-offline", WRONG, what, fix, blocks_ready=not is_any_writable)
    elif disk.is_full:
        who = "other brokers lead its replicas" if is_any_writable else "others lead instead"
        what = f"the disk of {disk.path} is full: it takes no writes, and {who} where they can"
        fix = "free space, or shorten retention: ottla topic alter TOPIC --set retention.bytes=N"
        if is_any_writable:
            other = next(each.path for each in facts.disks if each.state == ONLINE)
            fix += f", or: ottla cluster move-replicas {facts.node_id} TOPIC --to {other}"
        yield BrokerFinding("disk-full", WRONG, what, fix, blocks_ready=not is_any_writable)
    elif 0 <= disk.free_bytes * 100 < disk.size_bytes * facts.disk_warning_percent:
        share = 100 * disk.free_bytes / disk.size_bytes
        what = f"{share:.1f} % ({disk.free_bytes / GIB:,.1f} GiB) of the disk of {disk.path} is free"
        fix = "which topics are large: ottla cluster describe-log-dirs"
        yield BrokerFinding("disk-low", WARNING, what, fix)
    if disk.failed_replicas.count:
        what = f"{_counted(disk.failed_replicas, 'replica')} of {disk.path} cannot be opened"
        yield _about("offline-replicas", disk.failed_replicas, what, "see the log of the broker")


def _partitions(facts: BrokerFacts) -> Iterator[BrokerFinding]:
    found = facts.partitions
    if found.awaiting_directory.count:
        what = f"{_counted(found.awaiting_directory, 'partition')} offline: the records are on a lost disk"
        brokers = ", ".join(map(str, found.without_directory))
        fix = f"start broker {brokers} with its former disk, or lose them: ottla cluster elect --unclean"
        yield _about("lost-disk", found.awaiting_directory, what, fix)
    if found.under_min_isr.count:
        what = f"{_counted(found.under_min_isr, 'partition')} below min.insync.replicas: acks=all is refused"
        yield _about("under-min-isr", found.under_min_isr, what, "start the missing brokers")
    if found.stalled.count:
        brokers = ", ".join(map(str, found.late_brokers))
        what = f"writes with acks=all to {_counted(found.stalled, 'partition')} wait for broker {brokers}"
        fix = f"start broker {brokers}, or see why it does not fetch: its log"
        yield _about("writes-stalled", found.stalled, what, fix, blocks_ready=True)


def _coordinators(facts: BrokerFacts) -> Iterator[BrokerFinding]:
    for what, number in (
        ("consumer groups", facts.loading_groups),
        ("transactions", facts.loading_transactions),
    ):
        if number:
            text = f"{number} partitions of {what} are still loading"
            yield BrokerFinding("loading", WARNING, text, "wait", blocks_ready=True)
    if facts.stuck_groups.count:
        what = f"{_counted(facts.stuck_groups, 'group')} stuck: members, unread records, and no commits"
        fix = f"ottla group describe {facts.stuck_groups.names[0]}"
        yield _about("stuck-group", facts.stuck_groups, what, fix, severity=WARNING)
    if facts.unended_transactions.count:
        what = f"{_counted(facts.unended_transactions, 'transaction')} not ended: partitions lack the marker"
        fix = (
            f"which partitions: ottla txn describe {facts.unended_transactions.names[0]}; they need a leader"
        )
        yield _about("hanging-transaction", facts.unended_transactions, what, fix, WARNING)
    if facts.hanging_transactions.count:
        what = f"{_counted(facts.hanging_transactions, 'transaction')} hanging: read_committed consumers wait"
        yield _about("hanging-transaction", facts.hanging_transactions, what, "ottla txn hanging", WARNING)


def _about(
    code: str, subjects: Tally, what: str, fix: str, severity: str = WRONG, *, blocks_ready: bool = False
) -> BrokerFinding:
    return BrokerFinding(code, severity, what, fix, blocks_ready, tuple(subjects.names))


def _counted(tally: Tally, noun: str) -> str:
    return f"{tally.count:,} {noun}{'' if tally.count == 1 else 's'}"
