"""Writes the measured part of docs/performance.md from the files of build/bench/."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.peers import results
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
from benchmarks.peers.goals import GOALS, outcomes
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
        rows = results.latest(results.full_if_any(results.read(workload, folder)))
        if rows:
            quick = " (a quick run)" if any(row["is_quick"] for row in rows) else ""
            parts += [f"### {title}{quick}\n", *_table(rows, columns), ""]
    parts += _soak(folder)
    return "\n".join(parts)


def _machine(folder: Path) -> Iterator[str]:
    for row in results.read("machine", folder)[-1:]:
        yield f"Measured on {row['run'][:10]}: {row['machine']}. " + ", ".join(row["versions"]) + ".\n"
    absent = {row["peer"]: row["why"] for row in results.read("absent", folder)}
    for peer, why in absent.items():
        yield f"Absent: {peer} ({why}).\n"


def _goals(folder: Path) -> Iterator[str]:
    yield "### The goals\n"
    yield "| | goal | case | Ottla | Kafka 4.1 | Ottla : Kafka | met | full was the |"
    yield "|---|---|---|---:|---:|---:|---|---|"
    for goal in GOALS:
        for index, each in enumerate(outcomes(goal, results.read(goal.workload, folder))):
            title, text = (goal.title, goal.text()) if index == 0 else ("", "")
            values = f"{number(each.ours)} {goal.unit} | {number(each.theirs)} {goal.unit}"
            met = "yes" if each.is_met else "**no**"
            yield f"| {title} | {text} | {each.case} | {values} | {each.ratio:.2f} | {met} | {each.limits} |"
    yield ""


def _table(rows: list[Row], columns: Sequence[tuple[str, Figure]]) -> Iterator[str]:
    peers = sorted({row["peer"] for row in rows}, key=lambda peer: ("ottla" not in peer, peer))
    heads = [f"{peer}: {name}" for name, _ in columns for peer in peers]
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
        used = " / ".join(number(cores[case, peer]) for peer in peers if (case, peer) in cores)
        yield f"| {case} | {' | '.join(cells)} | {used} |"


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
