"""kafka-log-dirs and kafka-reassign-partitions, on a broker with two log directories and between brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.clients import wait_until
from tests.interop.conftest import Tool

from ottla.testing.local_cluster import LocalCluster

TOOLS = "org.apache.kafka.tools"


def test_the_tools_show_both_directories_and_move_a_replica(java: Tool, tmp_path: Path) -> None:
    with LocalCluster(1, folder=tmp_path / "data", directories=2) as cluster:
        topic = cluster.create_topic("moved", 2)
        topic.send(*(b"%d" % number for number in range(200)), partition=0)
        to = ("--bootstrap-server", cluster.bootstrap_servers)
        first, second = map(str, cluster.directories_of(1))

        def replicas() -> dict[str, list[dict[str, Any]]]:
            out = java(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", "moved", *to).stdout
            (broker,) = json.loads(out.splitlines()[-1])["brokers"]
            return {each["logDir"]: each["partitions"] for each in broker["logDirs"]}

        found = replicas()
        assert {path: [each["partition"] for each in found[path]] for path in found} == {
            first: ["moved-0"],
            second: ["moved-1"],
        }
        plan = tmp_path / "plan.json"
        where = {"topic": "moved", "partition": 0, "replicas": [1], "log_dirs": [second]}
        plan.write_text(json.dumps({"version": 1, "partitions": [where]}))
        command = (f"{TOOLS}.reassign.ReassignPartitionsCommand", *to, "--reassignment-json-file", str(plan))
        out = java(*command, "--execute").stdout
        assert f"to {second} for replica moved-0 with broker 1" in out, out
        wait_until(lambda: (Path(second) / "moved-0").exists(), "the replica is in the other directory")
        out = java(*command, "--verify").stdout
        assert "moved-0" in out, out
        assert "still in progress" not in out, out
        assert {each["partition"] for each in replicas()[second]} == {"moved-0", "moved-1"}
        values = [record.value for record in topic.records(200) if record.partition == 0]
        assert values == [b"%d" % number for number in range(200)]


def test_a_throttled_reassignment_is_cancelled_and_another_verified_and_no_throttle_stays(
    java: Tool, tmp_path: Path
) -> None:
    with LocalCluster(2, folder=tmp_path / "data") as cluster:
        topic = cluster.create_topic("moved", 1, replication_factor=1)
        topic.send(*(bytes(100_000) for _ in range(20)))
        here = cluster.leader_of("moved")
        there = 3 - here
        plan = tmp_path / "plan.json"
        where = {"topic": "moved", "partition": 0, "replicas": [there]}
        plan.write_text(json.dumps({"version": 1, "partitions": [where]}))
        to = ("--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(plan))

        def reassign(*options: str) -> str:
            return java(f"{TOOLS}.reassign.ReassignPartitionsCommand", *to, *options).stdout

        def replicas() -> tuple[int, ...]:
            return cluster.broker(here).cluster.image.topics["moved"].partitions[0].replicas

        def throttles() -> list[str]:
            image = cluster.broker(here).cluster.image
            keys = [*image.topic_overrides("moved"), *image.broker_overrides(1), *image.broker_overrides(2)]
            return [key for key in keys if "throttled" in key]

        out = reassign("--execute", "--throttle", "1000")
        assert "Successfully started partition reassignment for moved-0" in out, out
        assert throttles()
        assert "still in progress" in reassign("--verify")
        out = reassign("--cancel")
        assert "Successfully cancelled partition reassignment for: moved-0" in out, out
        assert (replicas(), throttles()) == ((here,), [])
        reassign("--execute", "--throttle", "100000000")
        wait_until(lambda: replicas() == (there,), "the replica is on the other broker")
        out = reassign("--verify")
        assert "Reassignment of partition moved-0 is completed" in out, out
        assert throttles() == []
