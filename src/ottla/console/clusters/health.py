"""What is wrong with a cluster, in sentences, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.admin.health import BrokerReport
from ottla.common.lag import Lag
from ottla.console.clusters.snapshot import Snapshot

OK, NOTICE, WARNING, CRITICAL = "ok", "notice", "warning", "critical"
_ORDER = (CRITICAL, WARNING, NOTICE)
FULL_DISK, NEARLY_FULL_DISK = 0.95, 0.85
LONG_LAG_S = 300.0
_SEEN_OTHERWISE = frozenset({"disk-full", "disk-low", "log-directory-offline"})
"""Codes of brokers' findings that the snapshot shows as well."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to know: how bad it is, what it is, and what to do; `link` leads to the page about it."""

    severity: str
    what: str
    todo: str = ""
    link: str = ""

    def as_json(self) -> dict[str, str]:
        """Return it as JSON."""
        return {"severity": self.severity, "what": self.what, "todo": self.todo, "link": self.link}


def findings(
    snapshot: Snapshot,
    lags: Mapping[str, Lag] | None = None,
    reports: Mapping[int, BrokerReport] | None = None,
) -> list[Finding]:
    """Return what is wrong, the worst first; nothing if all is well."""
    found = [*_brokers(snapshot), *_partitions(snapshot), *_disks(snapshot), *_groups(lags or {})]
    found += _reported(reports or {})
    if snapshot.info.moves:
        count = _count(len(snapshot.info.moves), "partition")
        what = f"{count} {'is' if len(snapshot.info.moves) == 1 else 'are'} being reassigned."
        found.append(Finding(NOTICE, what, "Follow the progress.", "reassignments"))
    return sorted(found, key=lambda each: _ORDER.index(each.severity))


def sentence(found: list[Finding]) -> Finding:
    """Return the health of the cluster in one sentence."""
    worst = next((each for each in found if each.severity in (CRITICAL, WARNING)), None)
    if worst is None:
        return Finding(OK, "All partitions have a leader and all their replicas.")
    more = sum(each.severity in (CRITICAL, WARNING) for each in found) - 1
    also = f" ({more} more below)" if more else ""
    return Finding(worst.severity, worst.what + also, worst.todo, worst.link)


def _brokers(snapshot: Snapshot) -> list[Finding]:
    info = snapshot.info
    gone = sorted(set(info.brokers) - set(info.alive))
    named = {node for _, each in snapshot.all_partitions() for node in each.replicas} - set(info.brokers)
    todo = "Start it again; its log says why it ended. If it is gone for good, reassign its partitions."
    found = [
        Finding(CRITICAL, f"Broker {node_id} is not in the cluster now.", todo, "brokers")
        for node_id in sorted({*gone, *named})
    ]
    if info.controller_id not in info.brokers:
        found.append(
            Finding(
                CRITICAL, "The cluster has no controller.", "See the brokers' logs and ZooKeeper.", "brokers"
            )
        )
    return found


def _partitions(snapshot: Snapshot) -> list[Finding]:
    offline: list[str] = []
    under: list[str] = []
    for at, each in snapshot.all_partitions():
        if each.leader < 0:
            offline.append(str(at))
        elif len(each.isr) < len(each.replicas):
            under.append(str(at))
    found = []
    if offline:
        todo = "Start a broker that holds a replica; producers and consumers of these partitions wait."
        found.append(Finding(CRITICAL, f"{_named(offline)} without a leader.", todo, "topics?state=offline"))
    if under:
        todo = "Replicas catch up by themselves once their brokers are up; if not, see the brokers' logs."
        found.append(
            Finding(
                WARNING, f"{_named(under)} with replicas out of sync.", todo, "topics?state=under-replicated"
            )
        )
    return found


def _disks(snapshot: Snapshot) -> list[Finding]:
    found = []
    for node_id in snapshot.directories:
        for disk in snapshot.disks_of(node_id):
            if disk.error is not None:
                what = f"Broker {node_id} cannot use {disk.path}: {disk.error}."
                found.append(
                    Finding(CRITICAL, what, "Check the disk, then start the broker again.", "brokers")
                )
            elif disk.used is not None and disk.used >= NEARLY_FULL_DISK:
                is_full = disk.used >= FULL_DISK
                found.append(
                    Finding(
                        CRITICAL if is_full else WARNING,
                        f"The disk of broker {node_id} is {disk.used:.0%} full ({disk.path}).",
                        "Lower the retention of large topics, delete records, or add space.",
                        "topics?sort=-size",
                    )
                )
    return found


def _reported(reports: Mapping[int, BrokerReport]) -> list[Finding]:
    """Return what brokers say of themselves, and those that say nothing."""
    found = []
    for node_id, each in sorted(reports.items()):
        if each.problem is not None:
            todo = "See its log, and whether this machine can reach it."
            found.append(
                Finding(WARNING, f"Broker {node_id} does not answer: {each.problem}.", todo, "brokers")
            )
        for one in each.report.get("findings", ()):
            if str(one["code"]) in _SEEN_OTHERWISE:
                continue
            severity = CRITICAL if one["severity"] == "wrong" else WARNING
            found.append(Finding(severity, f"Broker {node_id}: {one['what']}", str(one["fix"]), "brokers"))
    return found


def _groups(lags: Mapping[str, Lag]) -> list[Finding]:
    late = {name: lag for name, lag in lags.items() if lag.seconds is not None and lag.seconds > LONG_LAG_S}
    if not late:
        return []
    worst = max(late, key=lambda name: late[name].seconds or 0)
    minutes = (late[worst].seconds or 0) / 60
    what = f"{_count(len(late), 'group')} more than 5 minutes behind; {worst} by {minutes:,.0f} minutes."
    todo = "See whether its members are alive, and whether they keep up."
    return [Finding(NOTICE, what, todo, "groups?sort=-seconds")]


def _named(partitions: list[str]) -> str:
    first = ", ".join(partitions[:3])
    more = f" and {len(partitions) - 3} more" if len(partitions) > 3 else ""
    return f"{_count(len(partitions), 'partition')} ({first}{more})"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
