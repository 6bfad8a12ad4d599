"""A cluster declared in a file: exported, applied elsewhere, changed, and applied again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from ottla.cli.main import run
from ottla.testing.local_cluster import LocalCluster

SECURE = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


class Cli:
    """Runs `ottla cluster` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, cluster: LocalCluster, *words: str) -> tuple[int, str, str]:
        try:
            code = run([*words, "-b", cluster.bootstrap_servers])
        except SystemExit as ended:
            code = int(ended.code or 0)
        shown = self.capsys.readouterr()
        return code, shown.out, shown.err


@pytest.fixture
def ottla(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture
def first() -> Iterator[LocalCluster]:
    with LocalCluster(2, settings=SECURE) as cluster:
        yield cluster


def test_a_cluster_is_exported_and_made_again_elsewhere(
    first: LocalCluster, ottla: Cli, tmp_path: Path
) -> None:
    assert ottla(first, "topic", "create", "orders", "-p", "3", "--set", "retention.ms=60000")[0] == 0
    assert ottla(first, "topic", "create", "payments", "-r", "1")[0] == 0
    ottla(first, "config", "alter", "--set", "log.retention.ms=7200000")
    ottla(first, "acl", "create", "-p", "alice", "-o", "read", "-t", "orders")
    ottla(first, "quota", "set", "--user", "alice", "producer_byte_rate=1000")
    file = str(tmp_path / "cluster.yaml")
    code, out, err = ottla(first, "cluster", "export", "-o", file)
    assert (code, out) == (0, ""), err
    assert ottla(first, "cluster", "apply", "-f", file)[0] == 0  # nothing to ask about

    with LocalCluster(2, settings=SECURE) as second:
        code, out, err = ottla(second, "cluster", "apply", "-f", file, "--dry-run")
        assert code == 3
        assert "+ topic orders: partitions 3, replication factor 2\n    + retention.ms = 60000" in out
        assert "+ acl User:alice allow read topic orders from *" in out
        assert "~ quota of user alice\n    + producer_byte_rate = 1000" in out
        assert AdminClient({"bootstrap.servers": second.bootstrap_servers}).list_topics().topics == {}
        assert ottla(second, "cluster", "apply", "-f", file, "--yes")[0] == 0
        assert ottla(second, "cluster", "apply", "-f", file, "--dry-run")[0] == 0
        admin = AdminClient({"bootstrap.servers": second.bootstrap_servers})
        topics = admin.list_topics(timeout=10).topics
        assert {name: len(each.partitions) for name, each in topics.items()} == {"orders": 3, "payments": 1}
        (described,) = admin.describe_configs([ConfigResource("topic", "orders")]).values()
        assert described.result(10)["retention.ms"].value == "60000"
        assert ottla(first, "cluster", "export")[1] == ottla(second, "cluster", "export")[1]


def test_prune_deletes_and_the_impossible_changes_nothing(
    first: LocalCluster, ottla: Cli, tmp_path: Path
) -> None:
    ottla(first, "topic", "create", "orders", "-p", "3", "--set", "retention.ms=60000")
    ottla(first, "topic", "create", "old")
    file = tmp_path / "cluster.json"
    document = {"version": 1, "topics": {"orders": {"partitions": 2, "configs": {"segment.ms": 5000}}}}
    file.write_text(json.dumps(document))
    code, out, err = ottla(first, "cluster", "apply", "-f", str(file), "-y")
    assert code == 1
    assert "! topic orders: 3 partitions cannot become 2" in out
    assert "nothing was changed" in err
    document["topics"]["orders"]["partitions"] = 4
    file.write_text(json.dumps(document))
    code, out, err = ottla(first, "cluster", "apply", "-f", str(file), "-y")
    assert code == 0, err
    assert "left alone without --prune: topic old, with all its records; topic orders" in err
    plan = json.loads(
        ottla(first, "cluster", "apply", "-f", str(file), "--prune", "--dry-run", "--format", "json")[1]
    )
    assert [each["what"] for each in plan["changes"]] == ["topic old, with all its records", "topic orders"]
    assert ottla(first, "cluster", "apply", "-f", str(file), "--prune", "-y")[0] == 0
    left = json.loads(ottla(first, "cluster", "export", "--format", "json")[1])
    assert left["topics"] == {
        "orders": {"partitions": 4, "replication_factor": 2, "configs": {"segment.ms": "5000"}}
    }


def test_an_export_tells_which_brokers_it_lacks_and_where_it_cannot_be_written(
    first: LocalCluster, ottla: Cli, tmp_path: Path
) -> None:
    ottla(first, "config", "alter", "--broker", "1", "--set", "log.retention.ms=7200000")
    first.kill(2)
    code, out, err = ottla(first, "cluster", "export")
    assert (code, "log.retention.ms" in out) == (0, True)
    assert "broker 2 does not answer: its own dynamic configs are not in the file" in err
    code, _, err = ottla(first, "cluster", "export", "-o", str(tmp_path / "absent" / "cluster.yaml"))
    assert (code, "cannot be written: No such file or directory" in err) == (1, True)


def test_backups_and_declarations_are_not_mixed_up(first: LocalCluster, ottla: Cli, tmp_path: Path) -> None:
    saved, declared = str(tmp_path / "cluster.backup"), str(tmp_path / "cluster.yaml")
    ottla(first, "cluster", "backup", saved)
    ottla(first, "cluster", "export", "-o", declared)
    assert f"ottla cluster restore {saved} --dry-run" in ottla(first, "cluster", "apply", "-f", saved)[2]
    assert f"ottla cluster apply -f {declared}" in ottla(first, "cluster", "restore", declared)[2]


def test_what_a_broker_refuses_is_found_before_anything_is_changed(
    first: LocalCluster, ottla: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.json"
    topics = {"good": {}, "bad": {"configs": {"retention.ms": "soon"}}}
    file.write_text(json.dumps({"version": 1, "topics": topics}))
    code, _, err = ottla(first, "cluster", "apply", "-f", str(file), "-y")
    assert code == 1
    assert "topic bad" in err
    assert "nothing was changed" in err
    assert json.loads(ottla(first, "cluster", "export", "--format", "json")[1])["topics"] == {}
