"""(i) A long steady run: do memory, descriptors and latency stay flat?

    python -m benchmarks.peers.soak [--minutes 120] [--rate 1000] [--peer ottla]

A paced producer, a consumer in a group that commits, segments that roll and are deleted, and with every
sample a new connection that asks for the metadata and goes. Samples go to build/bench/soak.jsonl as they are
taken.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.peers import results
from benchmarks.peers.kafka import KafkaNodes
from benchmarks.peers.ottla import OneOttla
from benchmarks.peers.servers import Server

SAMPLE_EVERY_S = 15.0
TICK_S = 0.005
RECORD_BYTES = 500
TOPIC = "soak"
TOPIC_CONFIG = {"segment.bytes": "16777216", "retention.bytes": "67108864", "retention.ms": "600000"}
STAMP_BYTES = 20
SETTINGS = {"log.retention.check.interval.ms": "30000"}  # else the first deletion comes after five minutes


class PacedProducer(threading.Thread):
    """Sends `rate` records a second, each with the time of its sending in front."""

    def __init__(self, address: str, rate: int) -> None:
        super().__init__(name="producer", daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": address, "linger.ms": 1, "socket.nagle.disable": True, "acks": "all"}
        )
        self._rate = rate
        self._ended = threading.Event()
        self.failed = 0
        self.sent = 0

    def run(self) -> None:
        """Send until stopped."""
        filling, began = b"x" * (RECORD_BYTES - STAMP_BYTES), time.monotonic()
        while not self._ended.wait(TICK_S):
            due = int((time.monotonic() - began) * self._rate)
            for _ in range(due - self.sent):
                stamp = b"%020d" % time.perf_counter_ns()
                self._producer.produce(TOPIC, stamp + filling, on_delivery=self._delivered)
            self.sent = due
            self._producer.poll(0)
        self._producer.flush(30)

    def end(self) -> None:
        """Send no more."""
        self._ended.set()
        self.join()

    def _delivered(self, error: object, _message: object) -> None:
        self.failed += error is not None


class Reader(threading.Thread):
    """Reads as a member of a group and notes how long each record was under way."""

    def __init__(self, address: str) -> None:
        super().__init__(name="reader", daemon=True)
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "soak",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 1_000,
            }
        )
        self._consumer.subscribe([TOPIC])
        self._ended = threading.Event()
        self._latencies: deque[int] = deque(maxlen=1_000_000)
        self.read = 0

    def run(self) -> None:
        """Read until stopped."""
        while not self._ended.is_set():
            message = self._consumer.poll(0.1)  # not consume(): that waits for as many as it may return
            if message is not None and message.error() is None:
                self._latencies.append(time.perf_counter_ns() - int((message.value() or b"")[:STAMP_BYTES]))
                self.read += 1
        self._consumer.close()

    def take_latencies_ms(self) -> list[float]:
        """Return the latencies since the last call, in order of size."""
        taken, self._latencies = self._latencies, deque(maxlen=1_000_000)
        return sorted(each / 1e6 for each in taken)

    def end(self) -> None:
        """Read no more."""
        self._ended.set()
        self.join()


def sample(server: Server, producer: PacedProducer, reader: Reader, minute: float) -> dict[str, Any]:
    """Return how the server is now."""
    AdminClient({"bootstrap.servers": server.address}).list_topics(timeout=30)
    latencies = reader.take_latencies_ms()
    part = {f"p{share}_ms": _at(latencies, share / 100) for share in (50, 99, 99.9)}
    return {
        "peer": server.name,
        "minute": round(minute, 2),
        "sent": producer.sent,
        "read": reader.read,
        "failed": producer.failed,
        "rss_bytes": server.rss_bytes(),
        "descriptors": server.descriptors(),
        "server_cpu_s": round(server.cpu_seconds(), 2),
        **part,
    }


def _at(ordered: list[float], share: float) -> float | None:
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 2) if ordered else None


def run(server: Server, minutes: float, rate: int, output: Path = results.FOLDER) -> None:
    """Let a started server work for so long; every sample is written when it is taken."""
    run_name = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    admin = AdminClient({"bootstrap.servers": server.address})
    for future in admin.create_topics([NewTopic(TOPIC, 6, 1, config=TOPIC_CONFIG)]).values():
        future.result(30)
    producer, reader = PacedProducer(server.address, rate), Reader(server.address)
    producer.start()
    reader.start()
    began = time.monotonic()
    while (passed_s := time.monotonic() - began) < minutes * 60:
        time.sleep(min(SAMPLE_EVERY_S, minutes * 60 - passed_s + 0.01))
        row = sample(server, producer, reader, (time.monotonic() - began) / 60)
        results.append("soak", {"run": run_name, "rate": rate, **row}, output)
    producer.end()
    reader.end()


def main() -> None:
    """Run the soak."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--rate", type=int, default=1_000, help="records per second")
    parser.add_argument("--peer", choices=("ottla", "kafka"), default="ottla")
    parser.add_argument("--output", type=Path, default=results.FOLDER, help="the folder of soak.jsonl")
    options = parser.parse_args()
    kind = {"ottla": OneOttla, "kafka": KafkaNodes}[options.peer]
    with (
        tempfile.TemporaryDirectory(prefix="ottla-soak-") as folder,
        kind(Path(folder) / "server", SETTINGS) as server,
    ):
        run(server, options.minutes, options.rate, options.output)


if __name__ == "__main__":
    main()
