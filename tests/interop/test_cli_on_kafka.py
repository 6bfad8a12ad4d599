"""The `ottla` command on Apache Kafka itself: what it does with Ottla it does with Kafka."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.fetch_jars import KAFKA_JARS

WITHIN_S = 60


class Cli:
    """Runs `ottla` against one address."""

    def __init__(self, address: str) -> None:
        self.address = address

    def __call__(self, *words: str, text: str = "", code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "ottla.cli", *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            env={"OTTLA_BOOTSTRAP": self.address, "HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
            check=False,
        )
        assert done.returncode == code, f"ottla {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def json(self, *words: str) -> object:
        return json.loads(self(*words, "--format", "json"))


@pytest.fixture(scope="module")
def ottla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    if not KAFKA_JARS.is_dir():
        pytest.skip(f"Kafka's jars are not in {KAFKA_JARS}; fetch them with: make interop")
    with ApacheKafka(Path(tmp_path_factory.mktemp("kafka"))) as kafka:
        yield Cli(kafka.address)


def test_topics_are_made_listed_changed_and_deleted(ottla: Cli) -> None:
    ottla("topic", "create", "made", "--partitions", "2", "--set", "retention.ms=3600000")
    assert {"made"} <= {each["name"] for each in ottla.json("topic", "list")}
    (described,) = ottla.json("topic", "describe", "made")
    assert (len(described["partitions"]), described["configs"]) == (2, {"retention.ms": "3600000"})
    ottla("topic", "alter", "made", "--partitions", "3", "--unset", "retention.ms")
    (described,) = ottla.json("topic", "describe", "made")
    assert (len(described["partitions"]), described["configs"]) == (3, {})
    ottla("topic", "delete", "made", "--dry-run")
    ottla("topic", "delete", "made", "--yes")
    assert "there is no topic 'made'" in ottla("topic", "describe", "made", code=1)


def test_a_cluster_is_exported_changed_and_applied(ottla: Cli, tmp_path: Path) -> None:
    ottla("topic", "create", "declared", "--partitions", "2", "--set", "retention.ms=3600000")
    ottla("quota", "set", "--user", "alice", "producer_byte_rate=1000")
    document = json.loads(ottla("cluster", "export", "--format", "json"))
    assert document["topics"]["declared"] == {
        "partitions": 2,
        "replication_factor": 1,
        "configs": {"retention.ms": "3600000"},
    }
    file = tmp_path / "cluster.yaml"
    file.write_text(ottla("cluster", "export"))
    ottla("cluster", "apply", "-f", str(file), "--dry-run")  # nothing to do
    document["topics"]["declared"] |= {"partitions": 3, "configs": {"segment.ms": 7_200_000}}
    document["topics"]["another"] = {}
    file.write_text(json.dumps(document))
    ottla("cluster", "apply", "-f", str(file), "--prune", "--dry-run", code=3)
    ottla("cluster", "apply", "-f", str(file), "--prune", "--yes")
    ottla("cluster", "apply", "-f", str(file), "--prune", "--dry-run")
    (described,) = ottla.json("topic", "describe", "declared")
    assert (len(described["partitions"]), described["configs"]) == (3, {"segment.ms": "7200000"})
    refused = ottla("cluster", "backup", str(tmp_path / "backup"), code=1)
    assert "ottla cluster export" in refused
    del document["topics"]["declared"], document["topics"]["another"]
    file.write_text(json.dumps(document))
    assert "- topic declared" in ottla("cluster", "apply", "-f", str(file), "--prune", "--yes")


def test_records_go_in_and_come_out_and_make_the_round_trip(ottla: Cli) -> None:
    records = [
        {"key": "a", "value": "1", "headers": [["h", "x"], ["empty", None]], "timestamp": 1_700_000_000_000},
        {"key": None, "value": {"base64": "AP/+"}, "headers": [], "timestamp": 1_700_000_000_001},
        {"key": "gone", "value": None, "headers": [], "timestamp": 1_700_000_000_002},
    ]
    for topic in ("first", "second"):
        ottla("topic", "create", topic, "--partitions", "3")
    ottla("produce", "first", "--format", "json", text="\n".join(map(json.dumps, records)))
    read = ottla("consume", "first", "--from-beginning", "--exit")
    ottla("produce", "second", "--format", "json", "--keep-partitions", text=read)
    again = ottla("consume", "second", "--from-beginning", "--exit")

    def told(text: str) -> list[dict[str, object]]:
        found = [json.loads(line) for line in text.splitlines()]
        return sorted(({**each, "topic": ""} for each in found), key=lambda each: each["timestamp"])

    assert told(read) == told(again)
    assert [{name: each[name] for name in records[0]} for each in told(read)] == records


def test_reading_begins_and_ends_at_the_given_positions(ottla: Cli) -> None:
    ottla("topic", "create", "numbers", "--partitions", "1")
    ottla("produce", "numbers", text="\n".join(map(str, range(100))))
    values = {
        "start:3": "0 1 2",
        "-2": "98 99",
        "10:12": "10 11",
        "0=97": "97 98 99",
        "@2020-01-01T00:00:@2020-01-02": "",
    }
    for offset, found in values.items():
        shown = ottla("consume", "numbers", "-o", offset, "-e", "-f", "%v ")
        assert shown.strip() == found, offset


def test_groups_are_described_moved_and_deleted(ottla: Cli) -> None:
    ottla("topic", "create", "read", "--partitions", "1")
    ottla("produce", "read", text="a\nb\nc\n")
    ottla("group", "seek", "readers", "--topic", "read", "--to-offset", "1", "--yes")
    assert "readers" in {each["group"] for each in ottla.json("group", "list")}
    (described,) = ottla.json("group", "describe", "readers")
    assert described["partitions"][0]["lag"] == 2
    ottla("group", "delete", "readers", "--yes")
    assert "there is no group 'readers'" in ottla("group", "describe", "readers", code=1)


def test_configs_are_described_altered_and_refused(ottla: Cli) -> None:
    ottla("topic", "create", "tuned", "--partitions", "1")
    ottla("config", "alter", "--topic", "tuned", "--set", "max.message.bytes=200000")
    entries = {each["name"]: each for each in ottla.json("config", "describe", "--topic", "tuned")}
    entry = entries["max.message.bytes"]
    assert (entry["value"], entry["source"]) == ("200000", "topic")
    assert len(ottla.json("config", "describe", "--broker", "1", "--all")) > 100
    assert "OTTLA-E301" in ottla("config", "alter", "--topic", "tuned", "--set", "max.mesage.bytes=1", code=1)


def test_transactions_and_brokers_are_listed(ottla: Cli) -> None:
    assert ottla.json("txn", "list") == []
    described = ottla.json("cluster", "describe")
    assert len(described["brokers"]) == 1
    ottla("cluster", "health")


def test_the_doctor_finds_a_healthy_kafka(ottla: Cli) -> None:
    found = {each["check"]: each["state"] for each in ottla.json("doctor", "--write")}
    on_the_way = ("DNS", "TCP", "Kafka", "advertised", "record", "clock")
    assert {name: found[name] for name in on_the_way} == dict.fromkeys(on_the_way, "ok")


def test_a_quick_measurement_is_made_and_leaves_nothing(ottla: Cli) -> None:
    report = ottla.json("bench", "--records", "5000", "--partitions", "2")
    assert report["produced"]["records"] == 5000
    assert report["consumed"]["records"] >= 5000
    assert not [each for each in ottla.json("topic", "list") if each["name"].startswith("ottla-bench")]


def test_an_unknown_topic_comes_with_the_near_name(ottla: Cli) -> None:
    ottla("topic", "create", "orders", "--partitions", "1")
    assert "did you mean: orders?" in ottla("consume", "ordres", code=1)
