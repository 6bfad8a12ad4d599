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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.cluster.load import client_config, create_topic

from ottla.testing.broker_process import BrokerProcess
from ottla.testing.cluster_process import ClusterProcess, wait_until

pytestmark = [pytest.mark.cluster]

RECORD = os.urandom(100_000)
RUN_S, STOP_S = 0.01, 0.09
LOAD_S = 10.0
LAG_MAX_MS = {"all": 2_000, "1": 5_000}
"""By acks: who does not wait for the followers is slowed down only when these lag."""
SESSION_TIMEOUT_MS = 30_000


@contextmanager
def starved(brokers: Iterable[BrokerProcess]) -> Iterator[None]:
    """Let these brokers together have a tenth of a core."""
    pids = [broker.pid for broker in brokers]
    group: Path | None = Path(f"/sys/fs/cgroup/cpu/ottla-starved-{os.getpid()}")
    try:
        group.mkdir()
    except OSError:
        group = None
    with duty_cycle(pids) if group is None else cpu_quota(group, pids):
        yield


@contextmanager
def cpu_quota(group: Path, pids: list[int]) -> Iterator[None]:
    """Keep processes in a cgroup (v1) with a CPU quota."""
    parent = group.parent / "cgroup.procs"
    try:
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text("10000")
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for pid in pids:
            parent.write_text(str(pid))
        group.rmdir()


@contextmanager
def duty_cycle(pids: list[int]) -> Iterator[None]:
    """Stop processes for nine tenths of the time."""
    ending = threading.Event()

    def starve() -> None:
        while not ending.wait(RUN_S):
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            ending.wait(STOP_S)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=starve, name="starve", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


@pytest.mark.parametrize("acks", ["all", "1"])
def test_starved_brokers_stay_in_sync_and_nothing_is_doubled(tmp_path: Path, acks: str) -> None:
    failures: list[str] = []
    acked = 0

    def delivered(error: KafkaError | None, _message: Message) -> None:
        nonlocal acked
        acked += error is None
        if error is not None:
            failures.append(str(error))

    settings = {"replica.lag.time.max.ms": str(LAG_MAX_MS[acks])}
    with ClusterProcess(tmp_path, settings=settings, session_timeout_ms=SESSION_TIMEOUT_MS) as cluster:
        create_topic(cluster.bootstrap, "t", 1, {"min.insync.replicas": "2"}, replicas=3)
        cluster.wait_until_in_sync()
        leader = cluster.leader_of("t", 0)
        config = {"enable.idempotence": False, "acks": acks, "socket.timeout.ms": 120_000}
        config["queue.buffering.max.kbytes"] = 100_000
        producer = Producer(client_config(cluster.bootstrap, config))
        # If producers wait for the followers, these alone are slow: the leader would take everything at once.
        with starved(each for number, each in cluster.brokers.items() if acks == "1" or number != leader):
            end = time.monotonic() + LOAD_S
            while time.monotonic() < end:
                try:
                    producer.produce("t", RECORD, on_delivery=delivered)
                except BufferError:
                    producer.poll(0.05)
                producer.poll(0)
            assert producer.flush(120) == 0
        cluster.wait_until_in_sync()
        reader = Consumer(client_config(cluster.bootstrap, {"group.id": "none"}))

        def in_log() -> int:
            return int(reader.get_watermark_offsets(TopicPartition("t", 0), timeout=30)[1])

        wait_until(lambda: in_log() >= acked)
        doubled = in_log() - acked
        reader.close()
        changes = cluster.brokers[leader].stderr_tail(10_000).count("t-0, epoch 0: proposing the ISR")
    print(f"acks={acks}: {acked} records acknowledged, {doubled} doubled, {changes} changes of the ISR")
    assert not failures
    assert doubled == 0
    assert changes == 0, "followers that make progress stay in sync"
