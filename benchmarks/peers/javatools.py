"""Loads by Kafka's own ProducerPerformance and ConsumerPerformance, from the jars of the newest Kafka."""

from __future__ import annotations

import re
import subprocess

from tests.interop.fetch_jars import MEASURED_KAFKA_VERSION

from benchmarks.peers.kafka import QUIET, jars
from benchmarks.peers.load import Figures, Go, Options

JVM = ("-server", "-Xmx512M", "-XX:+UseG1GC", QUIET)


def _run(tool: str, *arguments: str) -> str:
    command = [
        "java",
        *JVM,
        "-cp",
        f"{jars(MEASURED_KAFKA_VERSION)}/*",
        f"org.apache.kafka.tools.{tool}",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"{tool} failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout


def produce(options: Options, go: Go) -> Figures:
    """Send; the time is the tool's own, from its first record to its last ack."""
    properties = [
        f"bootstrap.servers={options['address']}",
        f"acks={options['acks']}",
        f"compression.type={options['compression']}",
        "linger.ms=20",
        "batch.size=1000000",
    ]
    arguments = ["--topic", options["topic"], "--num-records", str(options["records"]), "--throughput", "-1"]
    arguments += ["--record-size", str(options["record_bytes"]), "--producer-props", *properties]
    go()
    said = _run("ProducerPerformance", *arguments)
    rate = float(re.findall(r"([\d.]+) records/sec", said)[-1])
    return {"wall_s": options["records"] / rate}


def consume(options: Options, go: Go) -> Figures:
    """Read; the time is the tool's own, without that of joining its group."""
    arguments = ["--bootstrap-server", options["address"], "--topic", options["topic"]]
    go()
    said = _run(
        "ConsumerPerformance", *arguments, "--messages", str(options["records"]), "--timeout", "60000"
    )
    head, last = said.strip().splitlines()[-2:]
    row = dict(zip(re.split(r",\s*", head), re.split(r",\s*", last), strict=True))
    return {"wall_s": float(row["fetch.time.ms"]) / 1000}
