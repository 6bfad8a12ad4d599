"""Brokers with hardly any CPU time, and a producer that could send far more than they can replicate.

The producer is not idempotent. It has no timeouts of its own that count here, and no broker is lost: what is
in the log twice, a broker made it send twice. The brokers are starved by a CPU quota, or, where no cgroup can
be made, by stopping and continuing their processes.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.cluster.load import client_config

from ottla.testing.broker_process import BrokerProcess
from ottla.testing.cluster_process import ClusterProcess, wait_until

RECORD = os.urandom(100_000)
PERIOD_S = 0.1
RATE_SINCE_S = 2.0
"""Not counted in the rate: at first the quota of the calm time before is used up."""


def starved(brokers: Collection[BrokerProcess], cores: float = 0.1) -> AbstractContextManager[None]:
    """Let these brokers together have a part of one core."""
    pids = [broker.pid for broker in brokers]
    group = Path(f"/sys/fs/cgroup/cpu/ottla-starved-{os.getpid()}")
    try:
        group.mkdir()
    except OSError:
        return duty_cycle(pids, cores)
    return cpu_quota(group, pids, cores)


@contextmanager
def cpu_quota(group: Path, pids: Collection[int], cores: float) -> Iterator[None]:
    """Keep processes in a cgroup (v1) with a CPU quota."""
    parent = group.parent / "cgroup.procs"
    period_us = int(PERIOD_S * 1_000_000)
    try:
        (group / "cpu.cfs_period_us").write_text(str(period_us))
        (group / "cpu.cfs_quota_us").write_text(str(int(period_us * cores)))
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for pid in pids:
            parent.write_text(str(pid))
        group.rmdir()


@contextmanager
def duty_cycle(pids: Collection[int], cores: float) -> Iterator[None]:
    """Stop processes for most of the time."""
    ending = threading.Event()

    def starve() -> None:
        while not ending.wait(PERIOD_S * cores):
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            ending.wait(PERIOD_S * (1 - cores))
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=starve, name="starve", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


class Flooded(NamedTuple):
    """What became of a flood of records."""

    acked: int
    doubled: int
    failures: list[str]
    mb_per_s: float
    """What was acknowledged while it lasted."""


def flood(
    cluster: ClusterProcess,
    topic: str,
    acks: str,
    load_s: float,
    starve: Collection[BrokerProcess],
    cores: float = 0.1,
) -> Flooded:
    """Send as much as it takes to partition 0 of a topic whose brokers are starved meanwhile."""
    failures: list[str] = []
    acked = 0

    def delivered(error: KafkaError | None, _message: Message) -> None:
        nonlocal acked
        acked += error is None
        if error is not None:
            failures.append(str(error))

    config = {"enable.idempotence": False, "acks": acks, "socket.timeout.ms": 120_000}
    config["queue.buffering.max.kbytes"] = 100_000
    producer = Producer(client_config(cluster.bootstrap, config))
    before, counted_s = 0, load_s - RATE_SINCE_S
    with starved(starve, cores):
        start = time.monotonic()
        while (took_s := time.monotonic() - start) < load_s:
            if took_s < RATE_SINCE_S:
                before = acked
            try:
                producer.produce(topic, RECORD, on_delivery=delivered)
            except BufferError:
                producer.poll(0.05)
            producer.poll(0)
        rate = (acked - before) * len(RECORD) / counted_s / 1e6
        assert producer.flush(120) == 0
    cluster.wait_until_in_sync()
    reader = Consumer(client_config(cluster.bootstrap, {"group.id": "none"}))

    def in_log() -> int:
        return int(reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1])

    wait_until(lambda: in_log() >= acked)
    doubled = in_log() - acked
    reader.close()
    return Flooded(acked, doubled, failures, rate)
