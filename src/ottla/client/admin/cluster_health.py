"""Judge a whole cluster: what is wrong, and what to type.

Two sources: the metadata that the cluster has agreed on, and the report of every broker about itself
(`ottla.client.admin.health`). The metadata alone is not enough: while nothing can be agreed on it stays as it
was, green.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.admin.cluster_admin import ClusterAdmin, ClusterInfo
from ottla.client.admin.health import BrokerReport, broker_reports
from ottla.client.admin.topic_admin import TopicAdmin
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition

WRONG, WARNING = "wrong", "warning"
MAX_SKEW_MS = 1_000
BROKER_DOWN = "broker-down"
SHOWN = 20
Reports = Mapping[int, BrokerReport]
IN_METADATA = frozenset({"under-min-isr"})
"""Findings of brokers that the metadata shows as well."""


@dataclass(frozen=True)
class Health:
    """The problems of a cluster. Moves and leaders that are not preferred do not count as problems."""

    dead_brokers: list[int]
    offline: list[TopicPartition]
    under_min_isr: list[TopicPartition]
    under_replicated: list[TopicPartition]
    moving: list[TopicPartition]
    not_preferred: list[TopicPartition]
    out_of_sync: dict[TopicPartition, list[int]]
    """The out-of-sync replicas of the under-replicated partitions."""

    @classmethod
    def of(cls, info: ClusterInfo, min_insync: Mapping[str, int]) -> Health:
        """Check a cluster; `min_insync` is min.insync.replicas of every topic."""
        partitions = info.partitions
        out_of_sync = {
            at: sorted(missing)
            for at, each in partitions.items()
            if (missing := {*info.target(at)} - {*each.isr}) and at not in info.moves
        }
        return cls(
            dead_brokers=sorted(each.node_id for each in info.brokers.values() if not each.is_alive),
            offline=[at for at, each in partitions.items() if each.leader < 0],
            under_min_isr=[
                at
                for at, each in partitions.items()
                if each.leader >= 0 and len(each.isr) < min(min_insync.get(at.topic, 1), len(info.target(at)))
            ],
            under_replicated=list(out_of_sync),
            moving=list(info.moves),
            not_preferred=[
                at
                for at, each in partitions.items()
                if each.leader >= 0 and each.leader != info.target(at)[0]
            ],
            out_of_sync=out_of_sync,
        )

    @property
    def is_healthy(self) -> bool:
        """Whether there are no problems."""
        return not (self.dead_brokers or self.offline or self.under_min_isr or self.under_replicated)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "healthy": self.is_healthy,
            "dead_brokers": self.dead_brokers,
            "offline": list(map(str, self.offline)),
            "under_min_isr": list(map(str, self.under_min_isr)),
            "under_replicated": list(map(str, self.under_replicated)),
            "moving": list(map(str, self.moving)),
            "not_led_by_preferred": list(map(str, self.not_preferred)),
        }


@dataclass(frozen=True, slots=True)
class ClusterFinding:
    """One finding: a stable code, how bad it is, what it is and what to type."""

    code: str
    severity: str
    what: str
    fix: str
    broker: int | None = None
    subjects: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Return the broker that it is about, as a prefix for `what`; empty if that names it."""
        return "" if self.broker is None or self.code == BROKER_DOWN else f"broker {self.broker}: "

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "code": self.code,
            "severity": self.severity,
            "broker": self.broker,
            "what": self.what,
            "fix": self.fix,
            "subjects": list(self.subjects),
        }


@dataclass(frozen=True)
class Examination:
    """The state of a cluster."""

    info: ClusterInfo
    health: Health
    minimums: Mapping[str, int]
    reports: Reports
    findings: list[ClusterFinding]

    @property
    def is_healthy(self) -> bool:
        """Return whether nothing is wrong; there may be warnings."""
        return self.health.is_healthy and all(each.severity != WRONG for each in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            **self.health.as_json(),
            "healthy": self.is_healthy,
            "controller": self.info.controller_id,
            "findings": [each.as_json() for each in self.findings],
            "brokers": {
                str(node_id): each.report or {"problem": each.problem}
                for node_id, each in self.reports.items()
            },
        }


def examine(info: ClusterInfo, minimums: Mapping[str, int], reports: Reports) -> Examination:
    """Judge a cluster; `minimums` is min.insync.replicas of every topic."""
    health = Health.of(info, minimums)
    found = [
        *_brokers(info, reports),
        *_controller(info, reports),
        *_partitions(info, health),
        *_own_findings(reports),
        *_clocks(reports),
        *_versions(reports),
    ]
    return Examination(
        info, health, minimums, reports, sorted(found, key=lambda each: each.severity != WRONG)
    )


def _brokers(info: ClusterInfo, reports: Reports) -> Iterator[ClusterFinding]:
    """Yield the brokers that are fenced, and those that do not answer although they are not."""
    for node_id, broker in info.brokers.items():
        role = ", the controller," if node_id == info.controller_id else ""
        fix = f"start broker {node_id} again; its log says why it ended"
        if not broker.is_alive:
            what = f"broker {node_id}{role} is not alive ({broker.address})"
            if not any(node_id in info.target(at) for at in info.partitions):
                what += ", and has no replicas"
                fix += f"; or remove it: ottla cluster decommission {node_id}"
            yield ClusterFinding(BROKER_DOWN, WRONG, what, fix, node_id)
        elif (report := reports.get(node_id)) is not None and report.problem is not None:
            what = f"broker {node_id}{role} at {broker.address} does not answer: {report.problem}"
            led = [at for at, each in info.partitions.items() if each.leader == node_id]
            if led:
                what += f"; it leads {count(len(led), 'partition')}, which cannot be written or read"
            yield ClusterFinding(BROKER_DOWN, WRONG, what, fix, node_id, _names(led))


def _controller(info: ClusterInfo, reports: Reports) -> Iterator[ClusterFinding]:
    answers = [each.report for each in reports.values() if each.report]
    if not answers or any(each["metadata"]["is_controller"] for each in answers):
        return
    what = "no broker is the controller: leaders cannot be elected, topics cannot be changed"
    if info.controller_id in info.brokers:
        what += f" (broker {info.controller_id} was)"
    yield ClusterFinding("no-controller", WRONG, what, "ottla cluster quorum")


def _partitions(info: ClusterInfo, health: Health) -> Iterator[ClusterFinding]:
    """Yield the problems that the metadata shows."""
    offline, under_min = "offline: no leader, cannot be read or written", "below min.insync.replicas"
    for code, partitions, what, fix in (
        ("offline", health.offline, offline, _end_of_offline(info, health.offline)),
        (
            "under-min-isr",
            health.under_min_isr,
            f"{under_min}: produce with acks=all is rejected",
            "start the missing brokers",
        ),
    ):
        if partitions:
            text = f"{count(len(partitions), 'partition')} {what}"
            yield ClusterFinding(code, WRONG, text, fix, subjects=_names(partitions))
    if health.under_replicated:
        text = (
            f"{count(len(health.under_replicated), 'partition')} under-replicated: replicas are out of sync"
        )
        lacking = tuple(
            f"{at}, without {', '.join(map(str, nodes))}" for at, nodes in health.out_of_sync.items()
        )
        fix = "start the missing brokers, or wait until they have caught up"
        yield ClusterFinding("under-replicated", WRONG, text, fix, subjects=lacking)


def _end_of_offline(info: ClusterInfo, partitions: list[TopicPartition]) -> str:
    """Return what brings partitions back: the brokers that are away, or a disk of one that is not."""
    away = sorted({node for at in partitions for node in info.partitions[at].replicas} - {*info.alive})
    if not away:
        return "their brokers are alive, but not the disks with the records: see the other findings"
    several = len(away) > 1
    return f"start broker{'s' if several else ''} {', '.join(map(str, away))}, which may have the records"


def _names(partitions: list[TopicPartition]) -> tuple[str, ...]:
    return tuple(map(str, partitions))


def _own_findings(reports: Reports) -> Iterator[ClusterFinding]:
    for node_id, each in reports.items():
        for found in each.report.get("findings", ()):
            if found["code"] not in IN_METADATA:
                yield ClusterFinding(
                    found["code"],
                    found["severity"],
                    found["what"],
                    found["fix"],
                    node_id,
                    tuple(found["subjects"]),
                )


def _clocks(reports: Reports) -> Iterator[ClusterFinding]:
    """Compare the clocks of all brokers with each other."""
    known = [each for each in reports.values() if each.report]
    if len(known) < 2:
        return
    first, last = min(known, key=lambda each: each.skew_ms), max(known, key=lambda each: each.skew_ms)
    apart_ms = last.skew_ms - first.skew_ms
    if apart_ms > MAX_SKEW_MS + first.margin_ms + last.margin_ms:
        what = f"the clock of broker {last.node_id} is {apart_ms:,.0f} ms ahead of broker {first.node_id}'s"
        yield ClusterFinding("clock-skew", WARNING, what, "synchronise the clocks: chronyc tracking")


def _versions(reports: Reports) -> Iterator[ClusterFinding]:
    versions: dict[str, list[int]] = {}
    for node_id, each in reports.items():
        if each.report:
            versions.setdefault(each.report["version"], []).append(node_id)
    if len(versions) > 1:
        named = ", ".join(
            f"{version} on {', '.join(map(str, nodes))}" for version, nodes in sorted(versions.items())
        )
        what = f"the brokers run different versions: {named}"
        yield ClusterFinding("mixed-versions", WARNING, what, "finish the upgrade, one broker at a time")


@dataclass(frozen=True)
class RestartCheck:
    """Whether a broker can be restarted now."""

    broker: int
    reasons: list[str]
    """Why not; they pass when the cluster has recovered."""
    notes: list[str]
    """What is not available meanwhile, whenever it is restarted."""

    @property
    def is_safe(self) -> bool:
        """Return whether nothing speaks against it."""
        return not self.reasons

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "broker": self.broker,
            "safe": self.is_safe,
            "reasons": self.reasons,
            "notes": self.notes,
        }


def check_restart(found: Examination, broker: int) -> RestartCheck:
    """Return whether writes with acks=all and all leaders survive the restart of a broker."""
    partitions = found.info.partitions
    only_here = all({*partitions[at].replicas} <= {broker} for at in found.health.offline)
    against = [
        each
        for each in found.findings
        if each.severity == WRONG and _is_against(each, broker) and not (each.code == "offline" and only_here)
    ]
    reasons = [f"{each.where}{each.what}" for each in against]
    too_few, unavoidable = [], []
    for at, partition in partitions.items():
        replicas = found.info.target(at)
        if broker not in partition.replicas:
            continue
        needed = min(found.minimums.get(at.topic, 1), len(replicas))
        left = len([each for each in partition.isr if each != broker])
        if len(replicas) - 1 < max(1, needed):
            unavoidable.append(at)
        elif left < max(1, needed):
            too_few.append(at)
    if too_few:
        reasons.append(
            f"{count(len(too_few), 'partition')} would have too few in-sync replicas: "
            f"{', '.join(_names(too_few[:SHOWN]))}"
        )
    notes = []
    if unavoidable:
        notes.append(
            f"{count(len(unavoidable), 'partition')} cannot be written during the restart, because no other "
            f"replica, or too few, exist: {', '.join(_names(unavoidable[:SHOWN]))}"
        )
    return RestartCheck(broker, reasons, notes)


AGAINST_OWN_RESTART = ("writes-stalled", "no-metadata-store", "disk-full")
"""What a restart of the broker itself does not end. On a full disk it does not start."""


def _is_against(found: ClusterFinding, broker: int) -> bool:
    """Return whether a finding speaks against the restart of this broker."""
    if found.broker == broker and found.code not in AGAINST_OWN_RESTART:
        return False
    return found.code not in ("under-replicated", "under-min-isr")


def count(number: int, noun: str) -> str:
    """Return `1 partition`, `1,204 partitions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


async def examine_cluster(connected: Cluster) -> Examination:
    """Ask any broker for the metadata, and every broker for its report; the controller may be dying."""
    info = await ClusterAdmin(connected).describe(without_controller=True)
    reports = await broker_reports(connected, info.alive, include_ensemble=True)
    minimums = await TopicAdmin(connected).topics_config("min.insync.replicas", list(info.topics))
    return examine(info, {topic: int(value) for topic, value in minimums.items()}, reports)
