"""Results as JSON lines, one file for each workload in build/bench/: reports are made from files alone."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "build" / "bench"
Row = dict[str, Any]
CALM_CORES = 0.3
"""A round counts if others on the machine used no more than this; if all were worse, the best of them."""


def append(workload: str, row: Row, folder: Path = FOLDER) -> None:
    """Add a row to the file of a workload."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{workload}.jsonl").open("a") as file:
        file.write(json.dumps(row, sort_keys=True) + "\n")


def read(workload: str, folder: Path = FOLDER) -> list[Row]:
    """Return the rows of a workload, oldest first."""
    file = folder / f"{workload}.jsonl"
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


def last_round(workload: str, folder: Path = FOLDER) -> tuple[str, int]:
    """Return the name of a workload's last run, and how many rounds it had."""
    rows = read(workload, folder)
    if not rows:
        raise SystemExit(f"{workload} has no run in {folder} to which rounds could be added")
    return rows[-1]["run"], max(row["round"] for row in rows if row["run"] == rows[-1]["run"])


def full_if_any(rows: list[Row]) -> list[Row]:
    """Return the rows at full scale; those of a quick run only when there are no others."""
    full = [row for row in rows if not row["is_quick"]]
    return full or rows


def latest(rows: Iterable[Row]) -> list[Row]:
    """Return, of every case, the rows of the last run that measured it: ratios are within one run."""
    last: dict[str, str] = {}
    kept = list(rows)
    for row in kept:
        last[row["case"]] = max(last.get(row["case"], ""), row["run"])
    return [row for row in kept if row["run"] == last[row["case"]]]


def calm(rows: Iterable[Row]) -> list[Row]:
    """Return the rounds that nothing else on the machine disturbed; of each case and peer at least one."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["case"], row["peer"]].append(row)
    kept = []
    for rounds in groups.values():
        least = min(_others(row) for row in rounds)
        kept += [row for row in rounds if _others(row) <= max(least, CALM_CORES)]
    return kept


def _others(row: Row) -> float:
    return float(row.get("others_cores", 0.0))


def medians(rows: Iterable[Row], figure: Callable[[Row], float | None]) -> dict[tuple[str, str], float]:
    """Return the median of a figure over the calm rounds, by (case, peer)."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in calm(rows):
        value = figure(row)
        if value is not None:
            found[row["case"], row["peer"]].append(value)
    return {key: median(values) for key, values in found.items()}
