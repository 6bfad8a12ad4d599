"""A cluster of processes, its load, and an operator who types commands and looks at everything.

Three brokers with two disks each (small tmpfs mounts), an ensemble of three ZooKeepers, a Prometheus with our
alerts, a producer (confluent-kafka, acks=all, idempotent) and a reader.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.cluster.conditions import ConditionedCluster, Conditions
from tests.cluster.mounts import CuttableDisk, small_tmpfs
from tests.waiting import wait_until

from benchmarks.operations.load import PARTITIONS, TOPIC, Load
from ottla.testing.broker_process import BrokerProcess, free_port
from ottla.testing.cluster_process import PartitionView

BROKERS = (1, 2, 3)
DISK_SIZE_MB = 64
FRAGILE = (2, 2)
"""The disk of a broker that can fail: an ext4 file system that stops working."""
SESSION_TIMEOUT_MS = 4_000
SETTINGS = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.max.timeout.ms": "20000",
    "log.segment.bytes": "1048576",
    "log.retention.check.interval.ms": "1000",
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "replica.lag.time.max.ms": "6000",
    "leader.imbalance.check.interval.seconds": "10",
}
COMMAND_WITHIN_S = 180
MOST_LINES = 40
AFTERWARDS = ("OttlaUncleanElection", "OttlaLostRecords", "OttlaLoopBlocked")
"""Alerts about what happened in the last minutes."""


@dataclass
class Typed:
    """What a command returned."""

    words: tuple[str, ...]
    code: int
    out: str
    seconds: float

    def __str__(self) -> str:
        shown = "".join(f"\n      {line}" for line in self.out.splitlines())
        return f"$ ottla {' '.join(self.words)}   [{self.code}, {self.seconds:.1f} s]{shown}"


@dataclass
class Look:
    """What everything says at one moment."""

    writes: dict[int, str]
    """The errors of writes with acks=all, by partition; empty if all succeed."""
    health_code: int
    findings: dict[str, str]
    doctor_code: int
    safe_to_restart: dict[int, bool]
    ready: dict[int, int | str]
    live: dict[int, int | str]
    alerts: set[str]
    controllers: float

    def __str__(self) -> str:
        lines = [
            f"writes: {self.writes or 'ok'}; controllers: {self.controllers:g}",
            f"health: {self.health_code} {' '.join(sorted(self.findings))}; doctor: {self.doctor_code}",
            f"readyz: {self.ready} healthz: {self.live} safe to restart: {self.safe_to_restart}",
            f"alerts: {' '.join(sorted(self.alerts)) or '(none)'}",
        ]
        return "\n".join(f"      {line}" for line in lines)


class DiskedCluster(ConditionedCluster):
    """Brokers with two disks each, JSON logs and metrics."""

    def __init__(self, data: Path) -> None:
        self.metrics = {number: f"127.0.0.1:{free_port()}" for number in range(1, 6)}
        super().__init__(data, Conditions(clocks=True, ensemble=True), settings=SETTINGS)

    def disk(self, number: int, which: int = 1) -> Path:
        """Return where a disk of a broker is mounted."""
        if (number, which) == FRAGILE:
            return self.data / "fragile" / "disk"
        return self.data / f"disk-{number}-{which}"

    def make_broker(
        self, number: int, settings: dict[str, str], arguments: list[str], environment: dict[str, str]
    ) -> BrokerProcess:
        """Return a broker with two data directories."""
        settings = {**settings, "ottla.metrics.listen": self.metrics[number]}
        made = super().make_broker(number, settings, arguments, environment)
        made.data = self.disk(number, 1) / "ottla"
        made.arguments = (
            *made.arguments,
            "--data",
            str(self.disk(number, 2) / "ottla"),
            "--log-format",
            "json",
        )
        return made


class Operator:
    """Types commands, looks, and remembers what was wrong."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.cluster = DiskedCluster(data)
        self.load = Load(self.cluster.bootstrap)
        self.wrong: list[str] = []
        self._mounts = ExitStack()
        (data / "fragile").mkdir()
        self.fragile = CuttableDisk(data / "fragile", DISK_SIZE_MB)
        self._mounts.callback(self.fragile.close)
        self._prometheus: subprocess.Popen[bytes] | None = None
        self._prometheus_address = f"127.0.0.1:{free_port()}"
        self._read: dict[int, int] = {}

    def __enter__(self) -> Self:
        for disk in [(number, which) for number in self.cluster.brokers for which in (1, 2)]:
            if disk != FRAGILE:
                self._mounts.enter_context(small_tmpfs(self.cluster.disk(*disk), f"{DISK_SIZE_MB}m"))
        self.cluster.__enter__()
        self.ottla(
            "topic", "create", TOPIC, "-p", str(PARTITIONS), "-r", "3", "--set", "retention.ms=3600000"
        )
        self.cluster.wait_until_in_sync()
        self.load.start()
        self._watch()
        wait_until(lambda: len(self.up()) == len(BROKERS), "Prometheus scrapes", 30)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self.load.stop() if self.load._thread.ident else None
        if self._prometheus is not None:
            self._prometheus.terminate()
            self._prometheus.wait()
        try:
            self.cluster.kill_all()
        finally:
            self._mounts.close()

    def _watch(self) -> None:
        targets = [word for each in self.cluster.metrics.values() for word in ("-t", each)][
            : 2 * len(BROKERS)
        ]
        self.ottla("generate", "prometheus", "-o", str(self.data), *targets, anywhere=True)
        config = self.data / "prometheus.yml"
        config.write_text(config.read_text().replace("15s", "1s"))
        with (self.data / "prometheus.log").open("wb") as log:
            self._prometheus = subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.data / 'tsdb'}",
                 f"--web.listen-address={self._prometheus_address}"],
                cwd=self.data, stdout=log, stderr=log,
            )  # fmt: skip

    # What an operator does

    def ottla(self, *words: str, anywhere: bool = False, on: Sequence[int] | None = None) -> Typed:
        """Type a command."""
        where = () if anywhere else ("-b", self.bootstrap(on))
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "ottla.cli", *words, *where],
            capture_output=True, text=True, timeout=COMMAND_WITHIN_S, check=False, cwd=self.data,
        )  # fmt: skip
        return Typed(words, done.returncode, done.stdout + done.stderr, time.monotonic() - began)

    def bootstrap(self, on: Sequence[int] | None = None) -> str:
        return ",".join(self.cluster.brokers[each].listen for each in on or self.cluster.brokers)

    def show(self, *words: str, code: int | None = 0, anywhere: bool = False) -> Typed:
        """Type a command, print it and what it says; a wrong exit code is remembered."""
        typed = self.ottla(*words, anywhere=anywhere)
        print(f"    {typed}", flush=True)
        if code is not None and typed.code != code:
            self.report(f"exit code {typed.code}, not {code}: ottla {' '.join(words)}")
        return typed

    def report(self, what: str) -> None:
        """Remember what is wrong."""
        self.wrong.append(what)
        print(f"    !!! {what}", flush=True)

    def expect(self, what: str, holds: object) -> None:
        if not holds:
            self.report(what)

    # What an operator sees

    def write(self, timeout_s: float = 6.0) -> dict[int, str]:
        """Send a record to each partition, acks=all; return the errors."""
        errors = dict.fromkeys(range(PARTITIONS), "no answer")
        producer = Producer(
            {"bootstrap.servers": self.cluster.bootstrap, "acks": "all", "linger.ms": 0,
             "delivery.timeout.ms": int(timeout_s * 1000), "log_level": 0}
        )  # fmt: skip

        for partition in range(PARTITIONS):

            def done(error: KafkaError | None, _: Message, at: int = partition) -> None:
                if error is None:
                    del errors[at]
                else:
                    errors[at] = error.name()

            producer.produce(TOPIC, b"canary", partition=partition, on_delivery=done)
        producer.flush(timeout_s + 5)
        return errors

    def page(self, number: int, page: str) -> tuple[int | str, Any]:
        """Return status and body of a page of a broker."""
        try:
            with urllib.request.urlopen(f"http://{self.cluster.metrics[number]}{page}", timeout=3) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except OSError as error:
            return type(error).__name__, {}

    def query(self, expression: str) -> list[Any]:
        """Ask Prometheus."""
        url = f"http://{self._prometheus_address}/api/v1/query?query={urllib.parse.quote(expression)}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            return list(json.loads(answer.read())["data"]["result"])

    def up(self) -> list[Any]:
        """Return the brokers that Prometheus scrapes."""
        try:
            return self.query("up == 1")
        except OSError:
            return []

    def alerts(self) -> set[str]:
        """Return the alerts that are pending or firing."""
        with urllib.request.urlopen(f"http://{self._prometheus_address}/api/v1/alerts", timeout=5) as answer:
            found = json.loads(answer.read())["data"]["alerts"]
        return {f"{each['labels']['alertname']}@{each['labels'].get('instance', '')}" for each in found}

    def look(self) -> Look:
        """Look at everything."""
        writes = self.write()
        typed = self.ottla("cluster", "health", "--format", "json")
        try:
            report = json.loads(typed.out)
            findings = {each["code"]: each["what"] for each in report["findings"]}
        except ValueError:
            findings = {"(no JSON)": typed.out}
        doctor = self.ottla("doctor")
        safe = {
            each: self.ottla("cluster", "health", "--safe-to-restart", str(each)).code == 0
            for each in BROKERS
        }
        counted = self.query("sum(kafka_controller_kafkacontroller_activecontrollercount)")
        names = {address: f"{number}" for number, address in self.cluster.metrics.items()}
        alerts = {
            f"{name}@{names.get(place, place)}" for name, place in (each.split("@") for each in self.alerts())
        }
        return Look(
            writes, typed.code, findings, doctor.code, safe,
            {each: self.page(each, "/readyz")[0] for each in BROKERS},
            {each: self.page(each, "/healthz")[0] for each in BROKERS},
            alerts, float(counted[0]["value"][1]) if counted else -1,
        )  # fmt: skip

    def looks(self, label: str) -> Look:
        """Look, and print."""
        seen = self.look()
        print(f"  {label}\n{seen}", flush=True)
        return seen

    def green(self, label: str, within_s: float = 60) -> Look:
        """Wait until the cluster is healthy, then expect that everything says so."""
        typed = self.ottla("cluster", "health", "--wait", str(int(within_s)))
        if typed.code:
            self.report(f"{label}: not healthy within {within_s:g} s\n{typed}")
        time.sleep(2.5)
        seen = self.looks(label)
        self.expect(f"{label}: writes fail {seen.writes}", not seen.writes)
        self.expect(
            f"{label}: health {seen.health_code} {seen.findings}", seen.health_code == 0 and not seen.findings
        )
        self.expect(f"{label}: doctor {seen.doctor_code}", seen.doctor_code == 0)
        self.expect(f"{label}: readyz {seen.ready}", set(seen.ready.values()) == {200})
        self.expect(f"{label}: healthz {seen.live}", set(seen.live.values()) == {200})
        self.expect(f"{label}: restarts {seen.safe_to_restart}", all(seen.safe_to_restart.values()))
        self.expect(f"{label}: controllers {seen.controllers}", seen.controllers == 1)
        lasting = {each for each in seen.alerts if not each.startswith(AFTERWARDS)}
        self.expect(f"{label}: alerts {lasting}", not lasting)
        return seen

    def red(
        self,
        label: str,
        *codes: str,
        within_s: float = 30,
        alerts: Iterable[str] = (),
        not_ready: Iterable[int] = (),
    ) -> Look:
        """Wait until health names the codes, then expect that pages and alerts agree."""
        deadline = time.monotonic() + within_s
        began = time.monotonic()
        while True:
            seen = self.look()
            lacking = {*codes} - {*seen.findings}
            lacking_alerts = {each for each in alerts if not any(one.startswith(each) for one in seen.alerts)}
            not_yet = {each for each in not_ready if seen.ready[each] == 200}
            if (
                not lacking and not lacking_alerts and not not_yet and seen.health_code == 1
            ) or time.monotonic() > deadline:
                break
            if seen.writes and seen.health_code == 0:
                self.report(
                    f"{label}: GREEN while writes fail: {seen.writes}, {time.monotonic() - began:.0f} s"
                )
        print(f"  {label} ({time.monotonic() - began:.0f} s)\n{seen}", flush=True)
        self.expect(f"{label}: health lacks {lacking}: {seen.findings}", not lacking)
        self.expect(f"{label}: no alert {lacking_alerts}", not lacking_alerts)
        self.expect(f"{label}: ready {not_yet}", not not_yet)
        self.expect(f"{label}: health is {seen.health_code}", seen.health_code == 1)
        return seen

    def log(self, number: int) -> list[dict[str, Any]]:
        """Return the new log lines of a broker."""
        path = self.cluster.brokers[number].stderr_path
        position = self._read.get(number, 0)
        with path.open("rb") as file:
            file.seek(position)
            text = file.read()
        self._read[number] = position + len(text)
        lines = []
        for line in text.decode().splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                lines.append({"message": line, "level": "RAW"})
        return lines

    def logs(self) -> list[dict[str, Any]]:
        """Print the new events, warnings and errors of all brokers; return all new lines."""
        found = []
        for number, broker in self.cluster.brokers.items():
            if not broker.stderr_path.exists():
                continue
            lines = self.log(number)
            found += lines
            shown = [each for each in lines if "event" in each or each["level"] not in ("info", "debug")]
            print(f"    log of {number}: {len(lines)} lines")
            for each in shown[:MOST_LINES]:
                at, level, event = each.get("time", "")[11:19], each["level"][:5], each.get("event", "")
                print(f"      {at} {level:5} {event:18} {each['message'][:210]}")
                if "exception" in each:
                    print("        " + each["exception"].replace("\n", "\n        "))
            if len(shown) > MOST_LINES:
                print(f"      ... {len(shown) - MOST_LINES} more")
        sys.stdout.flush()
        return found

    def read_all(self) -> list[list[int]]:
        """Return the records of the load, by partition, in order."""
        consumer = Consumer(
            {"bootstrap.servers": self.cluster.bootstrap, "group.id": "check", "enable.partition.eof": True}
        )
        consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
        found: list[list[int]] = [[] for _ in range(PARTITIONS)]
        ended: set[int] = set()
        deadline = time.monotonic() + 60
        while len(ended) < PARTITIONS and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is not None:
                ended.add(message.partition())
            elif (value := message.value()) != b"canary":
                found[message.partition()].append(int(value.rstrip(b".")))
        consumer.close()
        return found

    def check_records(self) -> None:
        """Nothing acknowledged is lost or doubled; order holds."""
        load, read = self.load, self.read_all()
        lost = sum(len(each - {*got}) for each, got in zip(load.acked, read, strict=True))
        doubled = sum(len(got) - len({*got}) for got in read)
        ordered = all(got == sorted(got) for got in read)
        print(
            f"  {sum(map(len, load.acked))} acknowledged, {lost} lost, {doubled} doubled, in order: {ordered}"
        )
        print(f"  refused: {dict(load.failed)}, the slowest took {load.slowest_s:.1f} s")
        self.expect(f"{lost} lost, {doubled} doubled, order {ordered}", not lost and not doubled and ordered)

    def partitions(self, topic: str) -> list[PartitionView]:
        """Return the partitions of a topic, as a broker sees them."""
        return [each for (name, _), each in self.cluster.view().partitions.items() if name == topic]

    # Disks

    def fill(self, number: int, which: int, leave_bytes: int = 0) -> Path:
        """Fill a disk with a file of somebody else; return it."""
        disk = self.cluster.disk(number, which)
        filler = disk / "filler"
        room = shutil.disk_usage(disk).free - leave_bytes
        with filler.open("wb", buffering=0) as file:
            for _ in range(room // 4096 + (0 if leave_bytes else 1_000)):
                try:
                    file.write(bytes(4096))
                except OSError:
                    break
        return filler

    def wipe(self, number: int) -> None:
        """Replace the disks of a broker."""
        for which in (1, 2):
            shutil.rmtree(self.cluster.disk(number, which) / "ottla")

    def add_broker(self, number: int) -> None:
        """Start another broker."""
        for which in (1, 2):
            self._mounts.enter_context(small_tmpfs(self.cluster.disk(number, which), f"{DISK_SIZE_MB}m"))
        first = self.cluster.brokers[1]
        words = ["--node-id", str(number), "--zookeeper", self.cluster.zookeeper.address]
        settings = {key: value for key, value in first.settings.items() if key != "ottla.metrics.listen"}
        self.cluster.brokers[number] = self.cluster.make_broker(number, settings, words, {})
        self.cluster.start(number)
