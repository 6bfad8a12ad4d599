"""The files of `ottla generate prometheus` and `grafana`, with Prometheus itself on a running broker."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.integration.clients import wait_until
from tests.integration.scraping import get_json

from ottla.cli.generated import grafana
from ottla.cli.generated.prometheus import ALERTS_FILE, CONFIG_FILE, rules_for
from ottla.testing.broker_process import free_port
from ottla.testing.local_broker import OttlaBroker

WITHIN_S = 60
VARIABLES = {"$__rate_interval": "1m", "$instance": ".*", "$topic": ".*", "$group": ".*"}


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(program) is None,
        reason=f"{program} is not installed; get it with: apt-get install prometheus",
    )


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker(settings={"ottla.metrics.listen": "127.0.0.1:0"}) as running:
        running.create_topic("orders", 1)
        servers = {"bootstrap.servers": running.bootstrap_servers}
        producer = Producer(servers)
        producer.produce("orders", b"x", partition=0)
        assert producer.flush(20) == 0
        consumer = Consumer({**servers, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        consumer.close()
        yield running


@pytest.fixture(scope="module")
def folder(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files, for this broker."""
    made = tmp_path_factory.mktemp("prometheus")
    addresses = broker.broker(1).addresses
    assert addresses is not None
    command = ["generate", "prometheus", "-o", str(made), "-t", str(addresses.metrics)]
    subprocess.run([sys.executable, "-m", "ottla.cli", *command], check=True, timeout=WITHIN_S)
    return made


@pytest.fixture(scope="module")
def prometheus(folder: Path) -> Iterator[str]:
    """Prometheus with these files; its address."""
    address = f"127.0.0.1:{free_port()}"
    text = (folder / CONFIG_FILE).read_text()
    assert text.count("15s") == 2
    (folder / CONFIG_FILE).write_text(text.replace("15s", "1s"))  # as long as it has to wait, so do we
    storage = f"--storage.tsdb.path={folder / 'data'}"
    command = ["prometheus", f"--config.file={CONFIG_FILE}", storage, f"--web.listen-address={address}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        wait_until(lambda: is_scraped(address), f"Prometheus to scrape (see {folder / 'log'})", WITHIN_S)
        yield address
    finally:
        process.terminate()
        process.wait(WITHIN_S)


def is_scraped(address: str) -> bool:
    try:
        return [each["value"][1] for each in query(address, "up")] == ["1"]
    except (OSError, ValueError):  # it does not listen yet, or says in words that it is not ready
        return False


def query(address: str, expression: str) -> list[Any]:
    status, said = get_json(address, f"/api/v1/query?query={urllib.parse.quote(expression)}")
    assert (status, said.get("status")) == (200, "success"), (expression, said)
    return list(said["data"]["result"])


@needs("promtool")
@pytest.mark.parametrize(("what", "file"), [("config", CONFIG_FILE), ("rules", ALERTS_FILE)])
def test_promtool_accepts_the_files(folder: Path, what: str, file: str) -> None:
    done = subprocess.run(
        ["promtool", "check", what, file], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules_for(60))} rules found" in done.stdout


@needs("prometheus")
def test_prometheus_scrapes_the_broker_and_evaluates_every_alert(prometheus: str) -> None:
    def rules() -> list[dict[str, Any]]:
        groups = get_json(prometheus, "/api/v1/rules")[1]["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    wait_until(lambda: {each["health"] for each in rules()} == {"ok"}, "all rules to be evaluated", WITHIN_S)
    assert len(rules()) == len(rules_for(60))
    # A broker alone that just started is well: nothing is down, missing or offline.
    assert [each["name"] for each in rules() if each["state"] == "firing"] == []


@needs("prometheus")
def test_prometheus_understands_every_expression_of_the_dashboard(prometheus: str) -> None:
    wait_until(lambda: len(query(prometheus, "kafka_consumergroup_lag_seconds")) == 1, "the lag", WITHIN_S)
    names = re.compile("|".join(map(re.escape, VARIABLES)))
    panels = json.loads(grafana.dashboard("Ottla"))["panels"]
    expressions = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(expressions) > 25
    for expression in expressions:
        query(prometheus, names.sub(lambda found: VARIABLES[found.group()], expression))
