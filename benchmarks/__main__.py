"""Run every benchmark and print the tables. `python -m benchmarks --quick` takes a tenth of the records."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import failover, groups, requests, startup, throughput, tls, transactions
from benchmarks.baseline import Costs
from benchmarks.measure import Cost, machine, touch_page_cache, wait_until_idle
from benchmarks.transaction_generators import PER_TRANSACTION, Kind, Target
from ottla.testing.broker_process import BrokerProcess

console = Console(width=110)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument(
        "--only",
        choices=("throughput", "requests", "startup", "groups", "transactions", "failover", "tls"),
        help="one part only",
    )
    parser.add_argument(
        "--against-kafka", action="store_true", help="with --only transactions: the same with Apache Kafka"
    )
    parser.add_argument(
        "--by", choices=tuple(transactions.GENERATORS), help="with --only transactions: one generator only"
    )
    parser.add_argument(
        "--store-baseline", action="store_true", help="compare later runs with the CPU costs of this one"
    )
    options = parser.parse_args()
    costs = Costs()
    console.print(f"machine: {machine()}")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        root = Path(folder)
        if options.only in (None, "startup"):
            startup_table(root)
        if options.only in (None, "groups"):
            groups_table(root)
        if options.only == "failover":  # minutes, so only when asked for
            failover_table(root, failover.KILLS if not options.quick else 6)
            return
        if options.only in (None, "tls"):
            certificates = tls.Certificates(root / "certificates")
            with tls.ottla_listeners(root / "tls", certificates) as listeners:
                console.print(tls.table(listeners, 0.1 if options.quick else 0.5))
        if options.only == "tls":
            return
        if options.only in (None, "throughput"):
            touch_page_cache(root, sum(case.records * case.record_bytes for case in throughput.CASES))
        with BrokerProcess(root / "data") as broker:
            wait_until_idle(broker)
            if options.only in (None, "throughput"):
                throughput_table(broker, 0.1 if options.quick else 1.0, costs)
            if options.only in (None, "requests"):
                requests_table(broker, 2_000 if options.quick else 40_000, costs)
            if options.only in (None, "transactions"):
                transactions_table(broker, 0.1 if options.quick else 1.0, only=options.by)
        if options.store_baseline:
            costs.store()
        else:
            baseline_table(costs)
        if options.only == "transactions" and options.against_kafka:
            (root / "kafka").mkdir()
            with transactions.KafkaTarget(root / "kafka") as kafka:
                transactions_table(kafka, 0.1 if options.quick else 1.0, "Apache Kafka: ", options.by)


def baseline_table(costs: Costs) -> None:
    """CPU costs beside the stored ones; what has become dearer is flagged."""
    compared = list(costs.compared())
    worse = [each for each in compared if each.is_worse]
    for each in worse:
        console.print(f"[bold red]dearer[/] {each.name}: {each.ratio:.2f} times the CPU of the baseline")
    if compared:
        console.print(f"CPU costs beside benchmarks/baseline.json: {len(compared)}, dearer: {len(worse)}")


def throughput_table(broker: BrokerProcess, scale: float, costs: Costs) -> None:
    """Produce and consume, every case."""
    table = Table("bytes", "partitions", "acks", title="librdkafka, one producer, one consumer")
    for head in ("in rec/s", "in MB/s", "in CPU s/M", "in CPU s/GB"):
        table.add_column(head, justify="right")
    for head in ("out rec/s", "out MB/s", "out CPU s/M", "out CPU s/GB"):
        table.add_column(head, justify="right")
    full = False
    for row in track(throughput.CASES, "throughput", console=Console(stderr=True), transient=True):
        case = replace(row, records=int(row.records * scale))
        throughput.create(broker, case)
        sent, read = throughput.produce(broker, case), throughput.consume(broker, case)
        full = full or sent.generator_is_full or read.generator_is_full
        cells = [*rates(case, sent), *rates(case, read)]
        table.add_row(str(case.record_bytes), str(case.partitions), case.acks, *cells)
        name = f"{case.record_bytes} B, {case.partitions} partitions, acks={case.acks}"
        costs.note(f"produce a million records, {name}", sent.broker_cpu_s, case.records)
        costs.note(f"consume a million records, {name}", read.broker_cpu_s, case.records)
    console.print(table)
    if full:
        console.print("* the load generator used a whole core: its limit, not the broker's")


def rates(case: throughput.Case, cost: Cost) -> list[str]:
    """Return records/s, MB/s, CPU seconds per million records and per GB."""
    size = case.records * case.record_bytes
    mark = "*" if cost.generator_is_full else ""
    return [
        f"{case.records / cost.wall_s:,.0f}{mark}",
        f"{size / 1e6 / cost.wall_s:,.0f}{mark}",
        f"{cost.broker_cpu_s / case.records * 1e6:.2f}",
        f"{cost.broker_cpu_s / size * 1e9:.2f}",
    ]


def requests_table(broker: BrokerProcess, count: int, costs: Costs) -> None:
    """One-record requests at depth 1 and 20."""
    table = Table("depth", title="one 200-byte record per Produce request, one connection")
    for head in ("requests/s", "broker CPU us/request", "generator CPU us/request"):
        table.add_column(head, justify="right")
    case = throughput.Case(200, 1, "one", count)
    throughput.create(broker, case)
    for depth in (1, 20):
        requests.run(broker, case.topic, depth, count // 10)
        cost = requests.run(broker, case.topic, depth, count)
        costs.note(f"a million one-record requests, depth {depth}", cost.broker_cpu_s, count)
        table.add_row(
            str(depth),
            f"{count / cost.wall_s:,.0f}",
            f"{cost.broker_cpu_s / count * 1e6:.1f}",
            f"{cost.client_cpu_s / count * 1e6:.1f}",
        )
    console.print(table)


def groups_table(root: Path) -> None:
    """Groups after changes of their members."""
    crowd = f"{groups.MEMBERS} members on {groups.PARTITIONS} partitions"
    table = Table("protocol", "change", title=f"{crowd}, a heartbeat every {groups.HEARTBEAT_MS} ms")
    for head in ("settled after s", "broker CPU s", "double owners"):
        table.add_column(head, justify="right")
    with BrokerProcess(root / "groups", settings=groups.SETTINGS) as broker:
        for protocol, change, overlaps in groups.rows(broker):
            settled = f"{change.settled_s:.2f}" if change.settled_s else ""
            table.add_row(protocol, change.what, settled, f"{change.broker_cpu_s:.2f}", str(overlaps))
    console.print(table)


def transactions_table(broker: Target, scale: float, whose: str = "", only: str | None = None) -> None:
    """Idempotent and transactional producers; of transactions also what they lose against idempotent ones."""
    title = f"{whose}records/s, idempotent and in transactions of {PER_TRANSACTION:,}"
    table = Table("by", "bytes", "producers", title=title)
    for head in ("idempotent", "flushed", "in transactions", "in background"):
        table.add_column(head, justify="right")
    for head in ("ms each", "CPU ms each"):
        table.add_column(head, justify="right")
    for who in transactions.GENERATORS if only is None else [only]:
        for row in transactions.rows(broker, scale, who):
            speeds = [f"{row.speed(kind):,.0f} ({row.loss(kind):.0%})" for kind in row.costs]
            table.add_row(
                row.generator,
                str(row.load.record_bytes),
                str(row.load.producers),
                *(speeds + [""] * (len(Kind) - len(speeds))),
                f"{row.commit_ms:.2f}",
                f"{row.transaction_cpu_ms:.2f}",
            )
    console.print(table)


def startup_table(root: Path) -> None:
    """Start-up times and memory."""
    table = Table("broker", title="start-up, from the command to the ready line")
    for head in ("clean start s", "after kill -9 s", "resident MB", "descriptors"):
        table.add_column(head, justify="right")
    took, rss = min(startup.empty(root / f"empty-{number}") for number in range(3))
    table.add_row("empty", f"{took:.2f}", "", f"{rss / 1e6:.0f}", "")
    clean, unclean, rss, descriptors = startup.with_partitions(root / "many")
    table.add_row(
        "2,000 partitions with data", f"{clean:.2f}", f"{unclean:.2f}", f"{rss / 1e6:.0f}", str(descriptors)
    )
    console.print(table)


def failover_table(root: Path, kills: int) -> None:
    """How long the death of a broker disturbs a cluster."""
    measured = failover.kills(root / "kills", kills)
    failover.many_partitions(root / "many", measured)
    table = Table("what", "times", title="three brokers, sessions of 2 s, seconds")
    for head in ("median", "p99", "worst"):
        table.add_column(head, justify="right")
    for what, times in (
        ("kill -9 of the leader until acks=all is answered", measured.leader_s),
        ("restart until every replica is in sync", measured.in_sync_s),
        ("kill -9 of the controller until a topic is created", measured.controller_s),
        (f"{failover.MANY_PARTITIONS} partitions: kill -9 until all have leaders", [measured.many_s]),
    ):
        figures = (failover.percentile(times, part) for part in (0.5, 0.99, 1))
        table.add_row(what, str(len(times)), *(f"{each:.2f}" for each in figures))
    console.print(table)
    console.print(f"idle, {failover.MANY_PARTITIONS} partitions: {measured.idle_cores * 100:.1f} % of a core")


if __name__ == "__main__":
    main()
