"""What is computed from a row of results; each returns None where a row does not have it."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.peers.results import Row

Figure = Callable[[Row], float | None]


def records_per_s(row: Row) -> float | None:
    """Records (or requests) per second."""
    return row["records"] / row["wall_s"] if "records" in row and "wall_s" in row else None


def megabytes_per_s(row: Row) -> float | None:
    """Payload per second, in MB."""
    return row["bytes"] / 1e6 / row["wall_s"] if "bytes" in row and "wall_s" in row else None


def cpu_per_gigabyte(row: Row) -> float | None:
    """CPU seconds of the server for a GB of payload."""
    return row["server_cpu_s"] / row["bytes"] * 1e9 if "bytes" in row and "server_cpu_s" in row else None


def cpu_per_million(row: Row) -> float | None:
    """CPU seconds of the server for a million records or requests."""
    return row["server_cpu_s"] / row["records"] * 1e6 if "records" in row and "server_cpu_s" in row else None


def generator_cores(row: Row) -> float | None:
    """How many cores the generators used, their own start included where theirs is the clock."""
    took_s = row.get("elapsed_s", row.get("wall_s"))
    return row["generator_cpu_s"] / took_s if "generator_cpu_s" in row and took_s else None


def plain(name: str, divisor: float = 1.0) -> Figure:
    """Return the figure that is a field of the row."""
    return lambda row: row[name] / divisor if row.get(name) is not None else None


SHOWN: dict[str, Figure] = {
    "records/s": records_per_s,
    "MB/s": megabytes_per_s,
    "server CPU s/GB": cpu_per_gigabyte,
    "server CPU s/M": cpu_per_million,
    "generator cores": generator_cores,
    "others' cores": plain("others_cores"),
    "p50 ms": plain("p50_ms"),
    "p99 ms": plain("p99_ms"),
    "p99.9 ms": plain("p999_ms"),
    "settled s": plain("settled_s"),
    "start s": plain("start_s"),
    "resident MB": plain("rss_bytes", 1e6),
    "peak MB": plain("peak_rss_bytes", 1e6),
}


def figures_in(row: Row) -> dict[str, str]:
    """Return all figures that a row has, as text."""
    found = {name: figure(row) for name, figure in SHOWN.items()}
    return {name: number(value) for name, value in found.items() if value is not None}


def number(value: float) -> str:
    """Return a figure with three digits or so."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
