"""`spark-submit --master k8s://` through Spark's Kubernetes scheduler: executors are pods, one is killed.

The settings are those of examples/pipelines/kubernetes/pipeline.yaml; kubernetes.py stands in for a cluster.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from tests.spark.kubernetes import CONTAINER, Kubernetes
from tests.spark.standalone import SPARK_HOME
from tests.spark.topics import Topics, numbers
from tests.waiting import wait_until

from ottla.common.java import find_java
from ottla.testing.broker_process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MANIFEST = Path(__file__).parents[2] / "examples/pipelines/kubernetes/pipeline.yaml"
JOB = Path(__file__).with_name("killed_executors_job.py")
RECORDS = 300
PORTS = ("spark.driver.port", "spark.driver.blockManager.port")


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[Topics]:
    with BrokerProcess(tmp_path / "data") as broker, Topics(broker.address) as opened:
        yield opened


def settings_of_the_manifest() -> dict[str, str]:
    """Return Spark's settings, with the places of this machine."""
    objects = {each["kind"]: each for each in yaml.safe_load_all(MANIFEST.read_text())}
    (driver,) = objects["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    pairs = (
        each.removeprefix("--set=").split("=", 1) for each in driver["args"] if each.startswith("--set=")
    )
    return {
        **{name: value for name, value in pairs if name not in PORTS},
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.kubernetes.executor.enableApiWatcher": "false",  # the stand-in is polled
        "spark.kubernetes.executor.apiPollingInterval": "500ms",
        "spark.kubernetes.allocation.batch.delay": "200ms",
        "spark.executor.cores": "1",
        "spark.executor.memory": "600m",
        "spark.ui.enabled": "false",
    }


def test_a_stream_on_kubernetes_survives_the_death_of_an_executor(topics: Topics, tmp_path: Path) -> None:
    topics.admin.create_topic("killed-in", partitions=2)
    topics.admin.create_topic("killed-out", partitions=2)
    topics.fill("killed-in", numbers(0, RECORDS))
    with Kubernetes(tmp_path / "pods") as cluster, ThreadPoolExecutor(1) as pool:
        command = [str(SPARK_HOME / "bin/spark-submit"), "--master", cluster.master]
        for name, value in settings_of_the_manifest().items():
            command += ["--conf", f"{name}={value}"]
        command += ["--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
        command += [str(JOB), topics.address, str(tmp_path / "checkpoint")]
        job = pool.submit(
            subprocess.run,
            command,
            env={
                **os.environ,
                "JAVA_HOME": str(find_java().resolve().parents[1]),
                "PYSPARK_PYTHON": sys.executable,
            },
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        wait_until(lambda: job.done() or len(topics.values("killed-out")) > 0, "a copy", within_s=150)
        first = cluster.running()
        for name in first[:1]:
            cluster.kill(name)
        done = job.result(240)
        assert "done in run" in done.stdout, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
        assert len(first) in (1, 2)
        assert len(cluster.created) > len(first), "no executor in place of the one that was killed"
        spec = cluster.created[0]["spec"]
        claims = [
            each["persistentVolumeClaim"] for each in spec["volumes"] if "persistentVolumeClaim" in each
        ]
        assert [each["claimName"] for each in claims] == ["shop-pipeline"]
        assert [each["image"] for each in spec["containers"] if each["name"] == CONTAINER] == ["IMAGE"]
        wait_until(lambda: not cluster.running(), "the end of the executors")
    assert sorted(int(each) for each in topics.values("killed-out")) == list(range(RECORDS))
    assert topics.open_transactions() == []
