"""A broker that comes back with an empty directory, and how an operator goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ottla.cli.main import run
from ottla.client import Admin
from ottla.client.admin import NewTopic
from ottla.testing.local_cluster import LocalCluster


def test_an_empty_broker_leads_only_when_the_operator_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(2, folder=tmp_path) as cluster, Admin(cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("both", replicas=[[1, 2]]), NewTopic("alone", replicas=[[1]])])
        both, alone = cluster.topic("both"), cluster.topic("alone")
        both.send(*(b"%d" % number for number in range(100)))
        alone.send(b"only here")
        cluster.wait_until_in_sync()
        cluster.stop(2)
        both.send(b"acknowledged by broker 1 alone")
        cluster.kill(1)
        shutil.rmtree(tmp_path / "broker-1")
        cluster.start(1)
        cluster.start(2)
        here = ("-b", cluster.bootstrap_servers)
        with pytest.raises(SystemExit, match="1"):
            run(["cluster", "health", *here])
        health = "".join(capfd.readouterr())
        assert "both" in health
        assert "alone" in health
        described = admin.describe_topics(["both", "alone"])
        assert [described[name].partitions[0].leader for name in ("both", "alone")] == [-1, -1]
        assert run(["cluster", "elect", "--unclean", "--yes", *here]) == 0
        assert cluster.leader_of("both") == 2
        assert cluster.leader_of("alone") == 1
        cluster.wait_until_in_sync()
        assert [each.value for each in both.records(at_least=100)] == [
            b"%d" % number for number in range(100)
        ]
        alone.send(b"once more")
        assert [each.value for each in alone.records(at_least=1)] == [b"once more"]
