"""Check a whole cluster: what `ottla cluster health` finds, and the clock of every broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ottla.cli.checks.findings import FAILED, OK, WARNING, Finding
from ottla.cli.support.output import count
from ottla.client.admin.cluster_health import WRONG, Examination, examine_cluster
from ottla.client.client_options import ClientOptions
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.common.units import GIB
from ottla.protocol.errors import KafkaError

SKEW_MS = 1_000


async def check_health(options: ClientOptions) -> AsyncIterator[Finding]:
    """Ask every broker how it is; yield each finding with the command to type."""
    try:
        async with Cluster(options=options) as cluster:
            found = await examine_cluster(cluster)
    except (ClientError, KafkaError) as error:
        yield Finding("cluster", FAILED, str(error), "see: ottla cluster health")
        return
    for each in found.findings:
        subjects = f" ({', '.join(each.subjects[:3])}{', ...' if len(each.subjects) > 3 else ''})"
        what = f"{each.where}{each.what}{subjects if each.subjects else ''}"
        yield Finding(each.code, FAILED if each.severity == WRONG else WARNING, what, each.fix)
    if not found.findings:
        brokers = count(len(found.info.brokers), "broker")
        what = f"{brokers}, {count(len(found.info.partitions), 'partition')}, all can be written"
        yield Finding("cluster", OK, what)
    for finding in _disks_and_clocks(found):
        yield finding


def _disks_and_clocks(found: Examination) -> list[Finding]:
    findings = []
    for node_id, each in found.reports.items():
        first = each.report.get("disk")
        for disk in [] if first is None else [first, *each.report.get("other_disks", ())]:
            if disk["size_bytes"] <= 0 or disk["is_full"]:
                continue
            free = 100 * disk["free_bytes"] / disk["size_bytes"]
            if free >= each.report["disk_warning_percent"]:  # otherwise it is a finding of its own
                what = f"broker {node_id}: {disk['free_bytes'] / GIB:,.1f} GiB free ({free:.0f} %)"
                findings.append(Finding("disk", OK, f"{what} at {disk['path']}"))
        if each.report and abs(each.skew_ms) > SKEW_MS + each.margin_ms:
            ahead = "ahead of" if each.skew_ms > 0 else "behind"
            what = f"the clock of broker {node_id} is {abs(each.skew_ms):,.0f} ms {ahead} this machine's"
            findings.append(Finding("clock", WARNING, what, "synchronise both clocks: chronyc tracking"))
    return findings
