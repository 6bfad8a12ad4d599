"""Whose limit was measured: a generator's limit is never reported as a server's."""

from __future__ import annotations

from typing import Any

FULL = 0.9
"""From this part of what it may use on, something counts as full."""
CORES = 2


def limit(row: dict[str, Any]) -> str:
    """Return what had no CPU left: the generators (their limit is what was seen), or the whole machine.

    A generator of ours is full with one core: its Python thread is what feeds the C library's. The machine is
    full with whatever else runs on it.
    """
    wall_s, cores = row.get("elapsed_s", row["wall_s"]), row.get("cores", CORES)
    server, generators = row["server_cpu_s"] / wall_s, row["generator_cpu_s"] / wall_s
    if generators > FULL * min(row["generators"], cores) and server < FULL:
        return "generator"
    if server + generators + row.get("others_cores", 0.0) > FULL * cores:
        return "machine"
    return ""
