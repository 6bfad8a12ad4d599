"""Writes the measured part of docs/performance.md from the files of build/bench/."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.peers import matrix, results
from benchmarks.peers.figures import (
    Figure,
    cpu_per_gigabyte,
    cpu_per_million,
    generator_cores,
    megabytes_per_s,
    number,
    plain,
    records_per_s,
)
from benchmarks.peers.goals import GOALS, KAFKA, OTTLA, Goal, Outcome, outcomes
from benchmarks.peers.limits import limit
from benchmarks.peers.results import Row

PAGE = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- measured: python -m benchmarks.peers --report -->", "<!-- end of what is measured -->"
LIMITS = {"generator": " *", "machine": " +"}
PEAK_MB = plain("peak_rss_bytes", 1e6)
TABLES: list[tuple[str, str, Sequence[tuple[str, Figure]]]] = [
    (
        "throughput",
        "Produce and consume",
        [
            ("MB/s", megabytes_per_s),
            ("CPU s/GB", cpu_per_gigabyte),
            ("peak MB", PEAK_MB),
        ],
    ),
    (
        "replication",
        "Three brokers, replication 3, acks=all",
        [
            ("MB/s", megabytes_per_s),
            ("CPU s/GB", cpu_per_gigabyte),
            ("peak MB", PEAK_MB),
        ],
    ),
    (
        "requests",
        "One record per request",
        [
            ("requests/s", records_per_s),
            ("CPU s/M", cpu_per_million),
            ("peak MB", PEAK_MB),
        ],
    ),
    (
        "latency",
        "Latency from produce() to poll()",
        [
            (f"{name} ms", plain(key))
            for name, key in (("p50", "p50_ms"), ("p99", "p99_ms"), ("p99.9", "p999_ms"))
        ],
    ),
    (
        "lifecycle",
        "From the command to the first accepted record",
        [("s", plain("start_s")), ("resident MB", plain("rss_bytes", 1e6)), ("CPU s", plain("server_cpu_s"))],
    ),
    (
        "groups",
        "Groups of 100 members on 300 partitions; commits",
        [("settled s", plain("settled_s")), ("CPU s", plain("server_cpu_s")), ("p99 ms", plain("p99_ms"))],
    ),
    (
        "transactions",
        "Transactions of 1,000 records",
        [("records/s", records_per_s), ("CPU s/M", cpu_per_million)],
    ),
    (
        "scaling",
        "`ottla serve -n`: one, two and three brokers, one replica",
        [("records/s", records_per_s), ("CPU s/M", cpu_per_million), ("peak MB", PEAK_MB)],
    ),
    (
        "streams",
        "One stream, other brokers",
        [
            ("records/s", records_per_s),
            ("CPU s/GB", cpu_per_gigabyte),
            ("peak MB", PEAK_MB),
        ],
    ),
]


def write(page: Path = PAGE, folder: Path = results.FOLDER) -> None:
    """Put what was measured between the marks of the page."""
    text = page.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n\n{measured(folder)}\n{END}{after}")


def measured(folder: Path = results.FOLDER) -> str:
    """Return all tables."""
    parts = [*_machine(folder), *_goals(folder)]
    for workload, title, columns in TABLES:
        if rows := _rows(workload, folder):
            parts += [f"### {title}{_quick(rows)}\n", *_table(rows, columns), ""]
    if rows := [row for workload in matrix.WORKLOADS for row in _rows(workload, folder)]:
        parts += [f"### Partitions, acks, compression{_quick(rows)}\n", *matrix.tables(rows)]
    parts += _soak(folder)
    return "\n".join(parts)


def _rows(workload: str, folder: Path) -> list[Row]:
    return results.latest(results.full_if_any(results.read(workload, folder)))


def _quick(rows: list[Row]) -> str:
    return " (a quick run)" if any(row["is_quick"] for row in rows) else ""


def _machine(folder: Path) -> Iterator[str]:
    for row in results.read("machine", folder)[-1:]:
        yield f"Measured on {row['run'][:10]}: {row['machine']}. " + ", ".join(row["versions"]) + ".\n"
    absent = {row["peer"]: row["why"] for row in results.read("absent", folder)}
    for peer, why in absent.items():
        yield f"Absent: {peer} ({why}).\n"
    failed = results.read("failed", folder)
    for row in failed:
        if row["run"] >= max(each["run"] for each in _rows(row["workload"], folder) or [row]):
            yield f"Failed: {row['workload']}, {row['peer']}: {row['case']}.\n"


def _goals(folder: Path) -> Iterator[str]:
    """One line for each goal: its worst case, and the ratios of all."""
    yield "### The goals\n"
    yield "| | goal | worst case | Ottla | Kafka 4.1 | Ottla : Kafka | all cases | met | limited by |"
    yield "|---|---|---|---:|---:|---:|---:|---|---|"
    for goal in GOALS:
        if found := outcomes(goal, results.read(goal.workload, folder)):
            yield _goal(goal, found)
    yield ""


def _goal(goal: Goal, found: list[Outcome]) -> str:
    ordered = sorted(found, key=lambda each: each.ratio)
    worst = ordered[0 if goal.is_more_better else -1]
    values = f"{number(worst.ours)} {goal.unit} | {number(worst.theirs)} {goal.unit} | {worst.ratio:.2f}"
    reach = f"{ordered[0].ratio:.2f} to {ordered[-1].ratio:.2f}" if len(found) > 1 else ""
    met = sum(each.is_met for each in found)
    said = "yes" if met == len(found) else f"**in {met} of {len(found)}**"
    return f"| {goal.title} | {goal.text()} | {worst.case} | {values} | {reach} | {said} | {worst.limits} |"


def _table(rows: list[Row], columns: Sequence[tuple[str, Figure]]) -> Iterator[str]:
    peers = sorted({row["peer"] for row in rows}, key=lambda peer: ("ottla" not in peer, peer))
    ours, theirs = (next((each for each in who if each in peers), None) for who in (OTTLA, KAFKA))
    heads = [f"{peer}: {name}" for name, _ in columns for peer in peers]
    heads += [f"{name}, Ottla : Kafka" for name, _ in columns[:2] if ours and theirs]
    yield f"| case | {' | '.join(heads)} | generator cores |"
    yield f"|---|{'---:|' * (len(heads) + 1)}"
    values = [results.medians(rows, figure) for _, figure in columns]
    cores = results.medians(rows, generator_cores)
    limits = {(row["case"], row["peer"]): _mark(row) for row in rows}
    for case in dict.fromkeys(row["case"] for row in rows):
        cells = []
        for index, found in enumerate(values):
            for peer in peers:
                cell = number(found[case, peer]) if (case, peer) in found else ""
                cells.append(cell + (limits.get((case, peer), "") if cell and index == 0 else ""))
        if ours and theirs:
            cells += [_ratio(found.get((case, ours)), found.get((case, theirs))) for found in values[:2]]
        used = " / ".join(number(cores[case, peer]) for peer in peers if (case, peer) in cores)
        yield f"| {case} | {' | '.join(cells)} | {used} |"


def _ratio(ours: float | None, theirs: float | None) -> str:
    return f"**{ours / theirs:.2f}**" if ours is not None and theirs else ""


def _mark(row: Row) -> str:
    return LIMITS.get(limit(row), "") if "generators" in row else ""


def _soak(folder: Path) -> Iterator[str]:
    rows = results.read("soak", folder)
    if not rows:
        return
    rows = [row for row in rows if row["run"] == rows[-1]["run"]]
    yield f"### Soak: {rows[-1]['minute']:.0f} minutes at {rows[-1]['rate']:,} records/s\n"
    yield "| minute | resident MB | descriptors | p50 ms | p99 ms | CPU s a minute | records read | failed |"
    yield f"|{'---:|' * 8}"
    step = max(1, len(rows) // 12)
    shown = [*rows[step - 1 :: step]]
    if shown[-1] is not rows[-1]:
        shown.append(rows[-1])
    before = {"minute": 0.0, "server_cpu_s": 0.0}
    for row in shown:
        spent = (row["server_cpu_s"] - before["server_cpu_s"]) / (row["minute"] - before["minute"])
        latencies = " | ".join(number(row[name]) for name in ("p50_ms", "p99_ms"))
        yield (
            f"| {row['minute']:.0f} | {number(row['rss_bytes'] / 1e6)} | {row['descriptors']} | {latencies} "
            f"| {spent:.1f} | {row['read']:,} | {row['failed']} |"
        )
        before = row
    yield ""
