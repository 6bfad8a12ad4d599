"""The matrix as readable tables: partitions and acks down, compression across, both peers in a cell."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.peers import results
from benchmarks.peers.figures import Figure, cpu_per_gigabyte, megabytes_per_s, number
from benchmarks.peers.limits import limit
from benchmarks.peers.results import Row

WORKLOADS = ("matrix-1024", "matrix-200")
OURS, THEIRS = "ottla", "kafka 4.1"
COMPRESSIONS = ("none", "lz4", "zstd")
FIGURES: dict[str, Figure] = {"MB/s": megabytes_per_s, "server CPU s/GB": cpu_per_gigabyte}


def tables(rows: list[Row]) -> Iterator[str]:
    """Yield a table for each verb and figure; a cell is `Ottla : Kafka (ratio)`, a * for a full generator."""
    marks = {(row["case"], row["peer"]) for row in rows if limit(row) == "generator"}
    for verb in ("produce", "consume"):
        mine = [row for row in rows if row["case"].startswith(verb)]
        for unit, figure in FIGURES.items():
            if mine:
                yield f"**{verb}, {unit}**, Ottla : Kafka 4.1 (ratio)\n"
                yield f"| records, partitions, acks | {' | '.join(COMPRESSIONS)} |"
                yield f"|---|{'---:|' * len(COMPRESSIONS)}"
                values = results.medians(mine, figure)
                yield from _lines(values, marks if figure is megabytes_per_s else set())
                yield ""


def _lines(values: dict[tuple[str, str], float], marks: set[tuple[str, str]]) -> Iterator[str]:
    def shown(key: tuple[str, str]) -> str:
        return number(values[key]) + " *" * (key in marks)

    cells: dict[str, dict[str, str]] = {}
    for case, _ in values:
        size, partitions, acks, compression = case.split(" ", 1)[1].split(", ")[:4]
        ours, theirs = values.get((case, OURS)), values.get((case, THEIRS))
        if ours is not None and theirs:
            cell = f"{shown((case, OURS))} : {shown((case, THEIRS))} ({ours / theirs:.2f})"
            cells.setdefault(f"{size}, {partitions}, {acks}", {})[compression] = cell
    for head, found in cells.items():
        yield f"| {head} | {' | '.join(found.get(each, '') for each in COMPRESSIONS)} |"
