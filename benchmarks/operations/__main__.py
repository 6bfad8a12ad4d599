"""The incidents, and the command line."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

from confluent_kafka import Consumer, Producer
from tests.waiting import wait_until

from benchmarks.operations.operator import BROKERS, PARTITIONS, TOPIC, Operator

BOTH = (1, 2)
AHEAD_S = 400
"""More than it takes until a group is stuck (300 s) and until a transaction hangs."""


def broker_stops(op: Operator) -> None:
    op.cluster.stop(3)
    alerts = ("OttlaDown@3", "OttlaUnderReplicated")
    seen = op.red("broker 3 is stopped", "broker-down", "under-replicated", alerts=alerts)
    op.expect(f"writes: {seen.writes}", not seen.writes)
    op.show("cluster", "health", code=1)
    op.cluster.start(3)
    op.green("broker 3 is back")
    op.logs()


def quorum(op: Operator) -> None:
    op.cluster.stop(3)
    for server in op.cluster.zookeeper.servers[:2]:
        server.kill()
    codes = ("no-controller", "no-metadata-store", "zookeeper-quorum", "broker-down")
    alerts = ("OttlaNoController", "OttlaNoMetadataStore")
    op.red("no quorum, and broker 3 stopped", *codes, not_ready=(1, 2), alerts=alerts)
    op.show("cluster", "quorum", code=1)
    op.cluster.kill(2)
    seen = op.red("and broker 2 killed", "writes-stalled", not_ready=[1], alerts=["OttlaWritesStalled"])
    op.expect("writes fail", len(seen.writes) == PARTITIONS)
    op.show("cluster", "health", code=1)
    op.logs()
    op.cluster.zookeeper.start()
    op.cluster.start_together([2, 3])
    op.green("all are back")
    op.logs()


def controller_dies(op: Operator) -> None:
    dead = op.cluster.controller()
    op.cluster.kill(dead)
    for _ in range(5):
        typed = op.ottla("cluster", "health")
        op.expect(f"health names broker {dead}: {typed}", typed.code == 1 and f"broker {dead}" in typed.out)
    op.red("the controller died", "broker-down", alerts=[f"OttlaDown@{dead}"])
    op.cluster.start(dead)
    op.green("the former controller is back")
    op.logs()


def broker_hangs(op: Operator) -> None:
    op.cluster.pause(2)
    op.red("broker 2 is stopped by SIGSTOP", "broker-down", alerts=["OttlaDown@2"])
    op.show("cluster", "health", code=1)
    op.expect("writes, led by others", not op.write(15))
    op.cluster.resume(2)
    op.green("broker 2 runs again")
    op.logs()


def rolling_restart(op: Operator) -> None:
    failed, op.load.slowest_s = sum(op.load.failed.values()), 0.0
    for number in BROKERS:
        op.show("cluster", "health", "--safe-to-restart", str(number), "--wait", "600")
        op.cluster.restart(number)
        op.show("cluster", "health", "--wait", "600")
    refused = sum(op.load.failed.values()) - failed
    print(f"    {refused} writes failed, the slowest took {op.load.slowest_s:.2f} s", flush=True)
    op.expect(f"{refused} writes failed", not refused)
    op.green("all restarted")
    op.logs()


def disk_is_low(op: Operator) -> None:
    filler = op.fill(3, 1, leave_bytes=6 << 20)  # two of 64 MiB are 9 %
    seen = op.looks("less than 10 % free")
    op.expect("a warning", "disk-low" in seen.findings and seen.health_code == 0)
    op.show("cluster", "health")
    filler.unlink()
    op.green("there is space")


def one_full_disk(op: Operator) -> None:
    filler = op.fill(3, 1)
    seen = op.red("one disk of broker 3 is full", "disk-full", alerts=["OttlaDiskFull@3"])
    op.expect(f"readyz {seen.ready}", seen.ready[3] == 200)
    op.expect(f"healthz {seen.live}", seen.live[3] == 503)
    op.expect(f"writes {seen.writes}", not seen.writes)
    op.expect("broker 3 must not be restarted", not seen.safe_to_restart[3])
    op.show("cluster", "health", code=1)
    op.show("cluster", "describe-log-dirs")
    op.show("cluster", "describe-log-dirs", "3", "--topics")
    leaders = Counter(each.leader for each in op.cluster.view(1).partitions.values())
    print(f"    leaders: {dict(leaders)}", flush=True)
    op.expect("broker 3 leads on its other disk", leaders[3])
    time.sleep(10)
    op.logs()
    filler.unlink()
    op.green("there is space")
    op.logs()


def all_full_disks(op: Operator) -> None:
    fillers = [op.fill(3, which) for which in BOTH]
    seen = op.red("both disks of broker 3 are full", "disk-full", alerts=["OttlaDiskFull@3"], not_ready=[3])
    op.expect(f"healthz {seen.live}", seen.live[3] == 503)
    op.expect(f"writes {seen.writes}", not seen.writes)
    op.logs()
    time.sleep(20)
    lines = op.logs()
    op.expect(f"{len(lines)} lines in 20 s", len(lines) <= 20)
    for each in fillers:
        each.unlink()
    op.green("there is space")
    op.logs()


def start_with_full_disk(op: Operator) -> None:
    op.cluster.stop(3)
    filler = op.fill(3, 1)
    op.cluster.start(3)
    seen = op.red("broker 3 starts with a full disk", "disk-full")
    op.expect(f"writes {seen.writes}", not seen.writes)
    op.expect(f"readyz {seen.ready}", seen.ready[3] == 200)
    op.show("cluster", "health", code=1)
    op.logs()
    filler.unlink()
    op.show("cluster", "health", "--safe-to-restart", "3")
    op.cluster.restart(3)
    op.green("there is space, and it was restarted")
    op.logs()


def failed_disk(op: Operator) -> None:
    op.fragile.cut_power()
    seen = op.red("a disk of broker 2 fails", "log-directory-offline", alerts=["OttlaLogDirectoryOffline@2"])
    op.expect(f"readyz {seen.ready}", seen.ready[2] == 200)
    op.expect(f"healthz {seen.live}", seen.live[2] == 503)
    op.expect(f"writes {seen.writes}", not seen.writes)
    op.show("cluster", "health", code=1)
    op.show("cluster", "describe-log-dirs")
    op.show("cluster", "health", "--safe-to-restart", "1", code=1)
    op.show("cluster", "health", "--safe-to-restart", "2")
    op.logs()
    op.cluster.stop(2)
    op.fragile.restore_power()
    op.cluster.start(2)
    op.green("the disk is repaired")
    op.logs()


def clock(op: Operator) -> None:
    op.cluster.move_clock(2, 5)
    seen = op.looks("the clock of broker 2 is 5 s ahead")
    op.expect(f"a warning: {seen.findings}", "clock-skew" in seen.findings and seen.health_code == 0)
    op.show("cluster", "health")
    op.cluster.move_clock(2, 0)
    op.green("the clock is right")


def lost_partition(op: Operator) -> None:
    op.show("topic", "create", "single", "-p", "1", "-r", "1")
    producer = Producer({"bootstrap.servers": op.cluster.bootstrap})
    producer.produce("single", b"x")
    producer.flush(10)
    holder = op.cluster.leader_of("single", 0)
    op.cluster.kill(holder)
    op.red("its broker is away", "broker-down", "offline", alerts=["OttlaOfflinePartitions"])
    op.show("cluster", "health", code=1)
    op.show("cluster", "describe", code=None)
    op.logs()
    op.wipe(holder)
    op.cluster.start(holder)
    op.red("its disk is lost", "lost-disk", "offline", alerts=["OttlaLostDisk"])
    op.show("cluster", "health", code=1)
    op.logs()
    op.show("cluster", "elect", "--unclean", "single:0", "--yes")
    seen = op.green("it is given up")
    op.expect(f"an alert of {seen.alerts}", any("OttlaUncleanElection" in each for each in seen.alerts))
    op.logs()
    op.show("topic", "delete", "single", "--yes")


def older_zookeeper(op: Operator) -> None:
    servers, zookeeper = op.cluster.zookeeper.servers, op.cluster.zookeeper
    zookeeper.stop()
    for each in servers:
        shutil.copytree(each.data, op.data / f"older-{each.number}")
    zookeeper.start()
    op.show("cluster", "health", "--wait", "60")
    op.show("topic", "create", "newer", "-p", "3")
    zookeeper.stop()
    for each in servers:
        shutil.move(each.data, op.data / f"newest-{each.number}")
        shutil.copytree(op.data / f"older-{each.number}", each.data)
    zookeeper.start()
    alerts = ["OttlaMetadataRolledBack@1", "OttlaMetadataRolledBack@2", "OttlaMetadataRolledBack@3"]
    op.red("ZooKeeper is older", "metadata-rolled-back", not_ready=BROKERS, alerts=alerts)
    op.show("cluster", "health", code=1)
    op.logs()
    zookeeper.stop()
    for each in servers:
        shutil.rmtree(each.data)
        shutil.move(op.data / f"newest-{each.number}", each.data)
    zookeeper.start()
    op.green("the newest state is back")
    op.logs()
    op.show("topic", "describe", "newer")
    op.show("topic", "delete", "newer", "--yes")


def too_few_replicas(op: Operator) -> None:
    for number in (1, 3):
        op.cluster.kill(number)
    seen = op.red("one of three", "broker-down", "under-min-isr", alerts=["OttlaUnderMinIsr@2"])
    op.expect("writes fail", len(seen.writes) == PARTITIONS)
    op.show("cluster", "health", code=1)
    op.cluster.start_together([1, 3])
    op.green("three of three")
    op.logs()


def maintenance(op: Operator) -> None:
    op.show("cluster", "maintenance", "start", "2")
    op.show("cluster", "maintenance", "status")
    seen = op.looks("broker 2 is in maintenance")
    op.expect(f"{seen.findings}", set(seen.findings) == {"maintenance"} and seen.health_code == 0)
    op.show("topic", "create", "placed", "-p", "4", "-r", "2")
    held = {
        node
        for at, each in op.cluster.view(1).partitions.items()
        if at[0] == "placed"
        for node in each.replicas
    }
    op.expect(f"replicas on {held}", 2 not in held)
    op.cluster.restart(2)
    op.show("cluster", "health", "--wait", "60")
    op.show("cluster", "maintenance", "stop", "2")
    op.show("topic", "delete", "placed", "--yes")
    op.green("broker 2 is in service")
    op.logs()


def expansion(op: Operator) -> None:
    op.add_broker(4)
    op.show("topic", "create", "busy", "-p", "8", "-r", "1", "--set", "min.insync.replicas=1")
    ending = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": op.cluster.bootstrap, "linger.ms": 5, "log_level": 0})
        while not ending.wait(0.01):
            for partition in range(8):
                producer.produce("busy", bytes(500), partition=partition)
            producer.poll(0)
        producer.flush(10)

    busy = threading.Thread(target=write)
    busy.start()
    try:
        op.show("cluster", "reassign", "--all", "--dry-run")
        op.show("cluster", "reassign", "--all", "--throttle", "200KB", "--yes", "--no-wait")
        op.show("cluster", "reassign", "--watch", "--dry-run")
        op.show("cluster", "reassign", "--cancel")
        op.show("cluster", "reassign", "--all", "--throttle", "50MB", "--batch", "20", "--yes")
        op.show("cluster", "reassign", "--all", "--dry-run")
    finally:
        ending.set()
        busy.join()
    for topic in (TOPIC, "busy"):
        leaders = Counter(each.leader for each in op.partitions(topic))
        replicas = Counter(node for each in op.partitions(topic) for node in each.replicas)
        print(f"    {topic}: leaders {dict(leaders)}, replicas {dict(replicas)}", flush=True)
        for name, counts in (("leaders", leaders), ("replicas", replicas)):
            held = [counts[each] for each in (1, 2, 3, 4)]
            op.expect(f"{name} of {topic} are spread: {held}", max(held) - min(held) <= 1)
    op.show("topic", "describe", TOPIC)
    op.green("four brokers")
    op.show("cluster", "decommission", "4", "--dry-run")
    op.show("cluster", "decommission", "4", "--yes")
    op.show("topic", "create", "late", "-p", "4", "-r", "3")
    op.cluster.stop(4)
    op.show("cluster", "health", code=None)
    op.show("cluster", "decommission", "4", "--yes")
    del op.cluster.brokers[4]
    for topic in ("busy", "late"):
        op.show("topic", "delete", topic, "--yes")
    op.green("three brokers")
    op.logs()


def automatic_balance(op: Operator) -> None:
    op.add_broker(5)
    op.show("config", "alter", "--set", "ottla.auto.balance.enable=true")

    def is_even() -> bool:
        held = Counter(node for each in op.partitions(TOPIC) for node in each.replicas)
        return len(held) == 4 and max(held.values()) - min(held.values()) <= 1 and op.cluster.is_in_sync()

    wait_until(is_even, "an even spread", 120)
    op.green("four brokers, balanced")
    op.show("config", "alter", "--unset", "ottla.auto.balance.enable")
    op.show("cluster", "decommission", "5", "--yes")
    op.cluster.stop(5)
    op.show("cluster", "decommission", "5", "--yes")
    del op.cluster.brokers[5]
    op.green("three brokers")
    op.logs()


def disks_and_moves(op: Operator) -> None:
    op.show("cluster", "describe-log-dirs")
    op.show("cluster", "move-replicas", "1", f"{TOPIC}:0", "--to", str(op.cluster.disk(1, 2) / "ottla"))
    op.show("cluster", "move-replicas", "1", f"{TOPIC}:0", "--to", str(op.cluster.disk(1, 1) / "ottla"))
    op.show("topic", "trim", TOPIC, "--before", "@2020-01-01")
    op.show("topic", "alter", TOPIC, "--set", "retention.bytes=1073741824")
    op.show("config", "alter", "--topic", TOPIC, "--set", "min.insync.replicas=1")
    op.show("config", "alter", "--topic", TOPIC, "--unset", "min.insync.replicas")
    op.show("cluster", "elect", "--unclean", code=None)
    op.show("cluster", "elect", code=None)


def transaction(op: Operator) -> None:
    op.show("topic", "create", "prepared", "-p", "1", "-r", "1")
    op.show("topic", "create", "warm", "-p", "1", "-r", "3")
    holder = op.cluster.leader_of("prepared", 0)
    producer = Producer({"bootstrap.servers": op.cluster.bootstrap, "transactional.id": "orders-etl",
                         "transaction.timeout.ms": 20_000, "log_level": 0})  # fmt: skip
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("prepared", b"x")
    producer.flush(10)
    op.show("txn", "list")
    op.show("txn", "describe", "orders-etl")
    time.sleep(11)
    seen = op.looks("a transaction is open for half of the largest timeout")
    op.expect(f"alerts {seen.alerts}", any("OttlaTransactionOpen" in each for each in seen.alerts))
    op.cluster.kill(holder)
    op.red("its partition is offline", "offline")
    ended = threading.Thread(target=lambda: producer.commit_transaction(60), daemon=True)
    ended.start()
    time.sleep(5)
    for number in BROKERS:
        op.cluster.move_clock(number, AHEAD_S)
    op.red("its markers cannot be written", "hanging-transaction", alerts=["OttlaTransactionHanging"])
    op.show("cluster", "health", code=1)
    op.show("txn", "hanging", code=None)
    op.show("txn", "describe", "orders-etl", code=None)
    for number in BROKERS:
        op.cluster.move_clock(number, 0)
    op.cluster.start(holder)
    op.green("its broker is back")
    ended.join(60)
    op.logs()
    for topic in ("prepared", "warm"):
        op.show("topic", "delete", topic, "--yes")


def stuck_group(op: Operator) -> None:
    config = {"group.id": "billing", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    patient = {"max.poll.interval.ms": 86_400_000, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": op.cluster.bootstrap, **config, **patient})
    consumer.subscribe([TOPIC])
    while (message := consumer.poll(1)) is None or message.error():
        pass
    consumer.commit(message=message, asynchronous=False)
    for number in BROKERS:
        op.cluster.move_clock(number, AHEAD_S)
    seen = op.looks("no commits for minutes")
    op.expect(f"{seen.findings}", "stuck-group" in seen.findings and seen.health_code == 0)
    op.expect(f"{seen.alerts}", any("OttlaStuckGroup" in each for each in seen.alerts))
    op.show("cluster", "health")
    op.show("group", "describe", "billing")
    consumer.close()
    for number in BROKERS:
        op.cluster.move_clock(number, 0)
    op.show("group", "delete", "billing", "--yes")  # its lag is an alert as long as it exists
    op.green("the group is gone")


def backups(op: Operator) -> None:
    op.show("cluster", "export", "-o", "cluster.yaml")
    op.show("cluster", "apply", "-f", "cluster.yaml", "--dry-run")
    op.show("cluster", "backup", "cluster.backup")
    op.show("cluster", "restore", "cluster.backup", "--dry-run")
    op.show("topic", "create", "extra", "-p", "1")
    op.show("cluster", "apply", "-f", "cluster.yaml", "--dry-run", code=None)
    op.show("cluster", "apply", "-f", "cluster.yaml", "--prune", "--yes")
    op.show("cluster", "restore", "cluster.backup", "--yes", code=None)
    op.show("debug", "bundle", "--log", str(op.cluster.brokers[1].stderr_path), code=None)
    op.green("nothing has changed")


def rebuild(op: Operator) -> None:
    op.cluster.controller()
    for number in BROKERS:
        op.cluster.stop(number)
    op.cluster.zookeeper.stop()
    for each in op.cluster.zookeeper.servers:
        shutil.rmtree(each.data)
    op.cluster.zookeeper.start()
    for number in BROKERS:
        folders = [str(op.cluster.disk(number, which) / "ottla") for which in BOTH]
        op.show("cluster", "rebuild", "--scan-to", f"broker-{number}.scan", *folders, anywhere=True)
    scans = [f"broker-{number}.scan" for number in BROKERS]
    where = ("--zookeeper", op.cluster.zookeeper.address)
    op.show("cluster", "rebuild", *scans, *where, "--dry-run", code=3, anywhere=True)
    op.show("cluster", "rebuild", *scans, *where, "--yes", anywhere=True)
    op.cluster.start_together(BROKERS)
    op.show("cluster", "health", "--wait", "120")
    op.green("rebuilt")
    op.logs()


INCIDENTS: dict[str, Callable[[Operator], None]] = {
    "a broker stops": broker_stops,
    "no quorum": quorum,
    "the controller dies": controller_dies,
    "a broker hangs": broker_hangs,
    "a rolling restart": rolling_restart,
    "a disk is low": disk_is_low,
    "a disk is full": one_full_disk,
    "all disks are full": all_full_disks,
    "a start with a full disk": start_with_full_disk,
    "a disk fails": failed_disk,
    "a clock is wrong": clock,
    "a partition is lost": lost_partition,
    "an older ZooKeeper": older_zookeeper,
    "too few replicas": too_few_replicas,
    "maintenance": maintenance,
    "another broker": expansion,
    "automatic balance": automatic_balance,
    "disks and moves": disks_and_moves,
    "a transaction": transaction,
    "a stuck group": stuck_group,
    "backups": backups,
    "ZooKeeper is lost": rebuild,
}


def main(chosen: list[str]) -> int:
    """Run the incidents that are named, or all; return 1 if something was wrong."""
    data = Path(mkdtemp(prefix="ottla-operations-"))
    began = time.monotonic()
    try:
        with Operator(data) as op:
            op.green("a fresh cluster")
            op.logs()
            for name in chosen or INCIDENTS:
                print(f"== {name}, {time.monotonic() - began:.0f} s", flush=True)
                before = len(op.wrong)
                try:
                    INCIDENTS[name](op)
                except Exception as error:
                    op.report(f"{name}: {error!r}"[:2000])
                    break  # the cluster may be in any state
                print(f"== {name}: {'ok' if len(op.wrong) == before else 'WRONG'}", flush=True)
            op.load.stop()
            op.check_records()
            op.logs()
    finally:
        shutil.rmtree(data, ignore_errors=True)
    print(f"{time.monotonic() - began:.0f} s; {len(op.wrong)} wrong")
    for each in op.wrong:
        print(f"  {each}")
    return int(bool(op.wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
