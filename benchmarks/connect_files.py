"""Lines of a file to a topic, by Kafka Connect's FileStreamSource and by ours, in turns on one broker.

    python -m benchmarks.connect_files --lines 2000000 --rounds 2

CPU seconds are those of the worker's processes (JVM, engine, Python workers) from the creation of the
connector until all lines are in the topic; the broker's are not counted. The first round starts Spark, later
ones do not. Needs Kafka's jars: make interop.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.integration.connect_stage import call
from tests.interop.connect_worker import WorkerProcess
from tests.interop.kafka_connect import kafka_connect
from tests.interop.test_connect_rest import JAVA_SOURCE, OUR_SOURCE

from benchmarks.connect_cdc import cpu_seconds
from ottla.client import Consumer, TopicPartition
from ottla.testing.broker_process import BrokerProcess

WITHIN_S = 600.0
FILLING = "a line of a hundred characters " * 3
TEXT = {f"{each}.converter": "org.apache.kafka.connect.storage.StringConverter" for each in ("key", "value")}


def measure(
    what: str, url: str, pid: int, bootstrap: str, config: dict[str, str], lines: int
) -> tuple[float, float]:
    """Copy the file to a new topic; return the seconds and the CPU seconds."""
    began, cpu = time.monotonic(), cpu_seconds(pid)
    answer = call(url, "PUT", f"/connectors/{what}/config", config | TEXT)
    if answer.status != 201:
        raise SystemExit(f"{what}: {answer}")
    place = TopicPartition(config["topic"], 0)
    with Consumer(bootstrap, isolation_level="read_uncommitted", enable_auto_commit=False) as consumer:
        while time.monotonic() - began < WITHIN_S:
            try:
                if consumer.end_offsets([place])[place] >= lines:
                    break
            except Exception:  # the topic is not there yet
                pass
            time.sleep(0.05)
        else:
            raise SystemExit(f"{what}: not all lines have come within {WITHIN_S} s")
    took, used = time.monotonic() - began, cpu_seconds(pid) - cpu
    call(url, "DELETE", f"/connectors/{what}")
    print(
        f"{what}: {lines:,} lines in {took:.1f} s ({lines / took:,.0f}/s), {used:.1f} CPU s: "
        f"{lines / used:,.0f} lines per CPU second",
        flush=True,
    )
    return took, used


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-files-") as name:
        folder = Path(name)
        source = folder / "lines.txt"
        with source.open("w") as file:
            for number in range(chosen.lines):
                file.write(f"{number:010d} {FILLING}\n")
        with (
            BrokerProcess(folder / "broker") as broker,
            kafka_connect(broker.address, folder, java=()) as (java_url, java_pid),
            WorkerProcess(broker.address, folder) as worker,
        ):
            assert worker.process is not None
            for number in range(chosen.rounds):
                java = {**JAVA_SOURCE, "file": str(source), "topic": f"java-{number}"}
                ours = {**OUR_SOURCE, "file": str(source), "topic": f"ours-{number}"}
                _, java_cpu = measure(
                    f"kafka-{number}", java_url, java_pid, broker.address, java, chosen.lines
                )
                _, our_cpu = measure(
                    f"ottla-{number}", worker.url, worker.process.pid, broker.address, ours, chosen.lines
                )
                print(f"lines per CPU second beside Kafka Connect: {java_cpu / our_cpu:.2f}", flush=True)
            worker.stop()


if __name__ == "__main__":
    main()
