"""A real standalone Spark cluster, and the package that is shipped to its executors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.integration.secure_stage import (
    BROKER_PASSWORD,
    PASSWORD,
    SCRAM_MODULE,
    USER,
    SecureCluster,
    secure_broker,
)
from tests.spark.standalone import SLOW_START, StandaloneCluster, bare_python
from tests.spark.topics import Topics
from tests.waiting import wait_until

from ottla.client.admin import Acl
from ottla.common.topic_names import SPARK_DECISIONS_TOPIC
from ottla.spark.runtime.shipping import write_package
from ottla.testing.broker_process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ORDERS = Path(__file__).parents[2] / "examples/pipelines/orders"
JOB = Path(__file__).with_name("cluster_job.py")
RECORDS = 2_000
SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "700m",
    "spark.ui.enabled": "false",
}


def send(broker: BrokerProcess, topic: str, values: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def test_the_package_is_all_that_a_machine_with_the_libraries_lacks(tmp_path: Path) -> None:
    python = bare_python(tmp_path / "bare")
    package = write_package(tmp_path / "ottla.zip")

    without = subprocess.run([python, "-c", "import ottla"], cwd=tmp_path, capture_output=True, check=False)
    assert without.returncode != 0, "the executors' Python must not have Ottla, or this shows nothing"
    subprocess.run(
        [python, "-c", "import pyspark_ottla; print(pyspark_ottla.DefaultSource.name())"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(package)},
        check=True,
    )
    assert package.read_bytes() == write_package(tmp_path / "again.zip").read_bytes()
    assert {name.split("/")[0] for name in zipfile.ZipFile(package).namelist()} == {"ottla", "pyspark_ottla"}


def rows_in(lines: str) -> list[str]:
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines.splitlines())


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"transaction.two.phase.commit.enable": "true", "num.partitions": "4"}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with StandaloneCluster(folder, python=bare_python(folder / "bare")) as running:
        yield running


def test_a_standalone_cluster_runs_batch_and_exactly_once_stream(
    tmp_path: Path, broker: BrokerProcess, cluster: StandaloneCluster
) -> None:
    send(broker, "numbers", [str(number) for number in range(RECORDS)])

    printed = cluster.submit(
        JOB,
        broker.address,
        str(tmp_path / "checkpoint"),
        package=write_package(tmp_path / "ottla.zip"),
        settings=SMALL,
    )

    assert f"rows={RECORDS} distinct={RECORDS} sum={RECORDS * (RECORDS - 1) // 2}" in printed
    executors = [line for line in printed.splitlines() if line.startswith("executor ")]
    assert len(executors) == cluster.workers, printed
    assert all("/ottla.zip/" in line for line in executors), printed


def test_a_secured_broker_serves_drivers_and_executors_what_the_guide_allows_them(
    tmp_path: Path, cluster: StandaloneCluster
) -> None:
    """SASL_SSL with SCRAM, PEM texts as options, and the ACLs of docs/security-guide.md: no others."""
    more = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker",
        "transaction.two.phase.commit.enable": "true",
    }
    user = f"User:{USER}"
    acls = [
        Acl(user, "read", "topic", "numbers"),
        Acl(user, "write", "topic", "copies"),
        Acl(user, "read", "topic", "copies"),
        *(Acl(user, each, "topic", SPARK_DECISIONS_TOPIC) for each in ("create", "read", "write")),
        *(
            Acl(user, each, "transactional_id", "spark", pattern="prefixed")
            for each in ("write", "two_phase_commit")
        ),
    ]
    with secure_broker(tmp_path, **more) as secure:
        bootstrap = secure.bootstrap("SASL_SSL")
        with secure.admin() as admin:
            for topic in ("numbers", "copies"):
                admin.create_topic(topic, partitions=2)
            assert admin.create_acls(acls) == [None] * len(acls)
        produce = Producer(
            {
                "bootstrap.servers": bootstrap,
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(secure.certificates.ca),
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "broker",
                "sasl.password": BROKER_PASSWORD,
            }
        )
        for number in range(RECORDS):
            produce.produce("numbers", str(number))
        assert produce.flush(60) == 0
        printed = cluster.submit(
            JOB,
            bootstrap,
            str(tmp_path / "checkpoint"),
            json.dumps(spark_options(secure)),
            package=write_package(tmp_path / "ottla.zip"),
            settings=SMALL,
        )
        assert f"rows={RECORDS} distinct={RECORDS} sum={RECORDS * (RECORDS - 1) // 2}" in printed


def spark_options(secure: SecureCluster) -> dict[str, str]:
    """Return the options of the guide, with everything as text."""
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": secure.certificates.ca.read_text(),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{SCRAM_MODULE} required username="{USER}" password="{password}";',
    }


def test_killed_executors_lose_and_repeat_nothing(
    tmp_path: Path, broker: BrokerProcess, cluster: StandaloneCluster
) -> None:
    send(broker, "killed-in", [str(number) for number in range(RECORDS)])
    killed: list[int] = []
    with ThreadPoolExecutor(1) as pool, Topics(broker.address) as topics:
        topics.admin.create_topic("killed-out", partitions=4)
        job = pool.submit(
            cluster.submit,
            JOB.with_name("killed_executors_job.py"),
            broker.address,
            str(tmp_path / "checkpoint"),
            package=write_package(tmp_path / "ottla.zip"),
            settings={
                "spark.executor.memory": "700m",
                "spark.ui.enabled": "false",
                f"spark.executorEnv.{SLOW_START}": "11",
            },
        )
        for least in (1, RECORDS // 4, RECORDS // 2):
            wait_until(
                lambda least=least: job.done() or len(topics.values("killed-out")) >= least,  # type: ignore[misc]
                f"{least} copies",
                within_s=150,
            )
            wait_until(lambda: job.done() or cluster.executors(), "an executor")
            for process in cluster.executors()[:1]:
                os.kill(process, signal.SIGKILL)
                killed.append(process)
        printed = job.result(200)
        assert "done in run" in printed
        assert len(killed) == 3
        found = sorted(int(each) for each in topics.values("killed-out"))
        assert found == list(range(RECORDS))
        assert topics.open_transactions() == []


def test_ottla_pipeline_run_takes_the_orders_example_to_a_cluster(
    tmp_path: Path, broker: BrokerProcess, cluster: StandaloneCluster
) -> None:
    send(broker, "shop-orders", (ORDERS / "samples/orders.jsonl").read_text().splitlines())
    ottla = str(Path(sys.executable).with_name("ottla"))
    to_broker = ["--bootstrap-server", broker.address]
    run = [ottla, "pipeline", "run", str(ORDERS), "--available-now", "--master", cluster.url, *to_broker]
    batches = cluster.run(*run, "--set", "spark.executor.memory=700m", folder=tmp_path)

    assert {json.loads(line)["flow"] for line in batches.splitlines()} == {"revenue", "large_orders"}
    for topic in ("revenue", "large-orders"):
        consume = [ottla, "consume", topic, "--from-beginning", "--exit", "--format", "%v\\n", *to_broker]
        expected = (ORDERS / f"tests/minutes/expected/{topic}.jsonl").read_text()
        assert rows_in(cluster.run(*consume, folder=tmp_path)) == rows_in(expected)
    # The executors' Python has no Ottla (the first test): they can only have had it from the zip file.
    [last] = sorted({path.parents[1].name for path in cluster.folder.glob("work-*/app-*/*/ottla.zip")})[-1:]
    assert len(list(cluster.folder.glob(f"work-*/{last}/*/ottla.zip"))) == cluster.workers
