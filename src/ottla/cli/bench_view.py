"""What `ottla bench` reports."""

from __future__ import annotations

from typing import Any

import click

from ottla.cli.bench_run import Pace, Report
from ottla.cli.output import count, print_table
from ottla.common.units import MIB

BUSY = 0.85


def print_report(report: Report) -> None:
    """Print it for people, with what it does not tell."""
    load = report.load
    rows = [_row("produced", report.produced), _row("consumed", report.consumed)]
    columns = ["", "records", "seconds", "records/s", "MiB/s", "this client's CPU"]
    click.echo(
        f"{count(load.records, 'record')} of {load.size} bytes, {count(load.partitions, 'partition')}, "
        f"acks {load.acks}, compression {load.compression}"
    )
    print_table(columns, rows, right=columns[1:])
    shown = "  ".join(f"p{part} {value:.2f}" for part, value in _percentiles(report).items())
    click.echo(f"one record at a time, acknowledged in ms:  {shown}")
    busy = [
        name
        for name, pace in (("produced", report.produced), ("consumed", report.consumed))
        if pace.busy > BUSY
    ]
    if busy:
        click.echo(
            f"While it {' and '.join(busy)}, this client was busy all the time: the broker may be faster.",
            err=True,
        )


def as_json(report: Report) -> dict[str, Any]:
    """Return it for programs."""
    load = report.load
    return {
        "load": {
            name: getattr(load, name) for name in ("records", "size", "partitions", "acks", "compression")
        },
        "produced": _pace(report.produced),
        "consumed": _pace(report.consumed),
        "acknowledged_ms": {f"p{part}": round(value, 3) for part, value in _percentiles(report).items()},
    }


def _pace(pace: Pace) -> dict[str, Any]:
    return {
        "records": pace.records,
        "seconds": round(pace.seconds, 3),
        "records_per_second": round(pace.records / pace.seconds),
        "bytes_per_second": round(pace.bytes / pace.seconds),
        "client_cpu": round(pace.busy, 2),
    }


def _row(name: str, pace: Pace) -> list[str]:
    per_second = pace.records / pace.seconds
    mib = pace.bytes / pace.seconds / MIB
    return [
        name,
        f"{pace.records:,}",
        f"{pace.seconds:.2f}",
        f"{per_second:,.0f}",
        f"{mib:,.1f}",
        f"{pace.busy:.0%}",
    ]


def _percentiles(report: Report) -> dict[int, float]:
    times = report.acknowledged_ms
    return {part: times[min(len(times) - 1, len(times) * part // 100)] for part in (50, 95, 99)}
