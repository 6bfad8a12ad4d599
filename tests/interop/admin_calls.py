"""Kafka's Admin client (java/AdminCalls.java), every call against Apache Kafka and against Ottla.

python -m tests.interop.admin_calls      # prints what differs, explained or not
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.interop.admin_differences import differing, reason
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.java_process import OPTIONS, compile_java

from ottla.testing.broker_process import free_port
from ottla.testing.local_broker import OttlaBroker

WITHIN_S = 280
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="secret" user_admin="secret";'
)
SECURITY = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": "a-secret-of-the-cluster",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "sasl.enabled.mechanisms": "PLAIN",
}
# What two clusters cannot have in common: addresses, times, ids that are drawn, folders.
VARYING = (
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST:PORT"),
    (re.compile(r"/(tmp|dev/shm)/[\w./-]+"), "FOLDER"),
    (re.compile(r"((?:clusterId|consumerId): )[\w-]{22}(?=[,)])"), r"\1ID"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "TIME"),
    (re.compile(r"(reader|first)-[\w-]{36}"), "MEMBER"),
    (re.compile(r"(producerId[:=] ?)\d+"), r"\1ID"),
)


@contextmanager
def secured_kafka(folder: Path) -> Iterator[str]:
    """Start Apache Kafka with users and ACLs; yield the address of its listener with SASL."""
    address = f"127.0.0.1:{free_port()}"
    properties = {
        **SECURITY,
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}"
            for name, protocol in (
                ("PLAINTEXT", "PLAINTEXT"),
                ("CONTROLLER", "PLAINTEXT"),
                ("SASL_PLAINTEXT", "SASL_PLAINTEXT"),
            )
        ),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    }
    with ApacheKafka(folder, listeners={"SASL_PLAINTEXT": address}, properties=properties):
        yield address


@contextmanager
def secured_ottla() -> Iterator[str]:
    """Start Ottla with the same settings; yield its address."""
    settings = {
        **SECURITY,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "ottla.sasl.plain.without.tls.enable": "true",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    }
    with OttlaBroker(settings=settings, security_protocol="SASL_PLAINTEXT") as broker:
        yield broker.bootstrap_servers


def calls(path: str, address: str) -> dict[str, str]:
    """Run every call against a broker; return each step's result with what varies taken out."""
    command = ["java", *OPTIONS, QUIET, "-cp", path, "AdminCalls", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr
    found = {}
    for line in done.stdout.splitlines():
        step, _, result = line.partition("\t")
        for pattern, instead in VARYING:
            result = pattern.sub(instead, result)
        found[step] = result
    return found


def both(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the results of Apache Kafka and of Ottla."""
    classes = folder / "classes"
    classes.mkdir()
    path = compile_java("AdminCalls", classes)
    with secured_kafka(folder) as kafka, secured_ottla() as ottla, ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(calls, (path, path), (kafka, ottla))
    return theirs, ours


def main() -> None:
    """Print the steps whose results differ."""
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = both(Path(folder))
    for step in differing(theirs, ours):
        why = reason(step, theirs, ours) or "UNEXPLAINED"
        print(f"{step}: {why}\n  Kafka: {theirs.get(step)}\n  Ottla: {ours.get(step)}")


if __name__ == "__main__":
    main()
