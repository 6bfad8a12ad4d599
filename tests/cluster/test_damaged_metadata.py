"""Harm done to the files that say whose data this is and which topics there are.

Nothing else knows that. So the broker either has all of it or refuses to start, and says what to do.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from tests.cluster.damage import CONFIGS, TOPIC, Damaged, append, flip
from tests.cluster.load import DEADLINE_S, client_config

from ottla.testing.broker_process import BrokerFailed


def refusal(damaged: Damaged) -> str:
    """Start a broker that must refuse, and return its words."""
    before = {path: path.read_bytes() for path in damaged.files(".log")}
    with pytest.raises(BrokerFailed, match="exit code 1 before it was ready"):
        damaged.start()
    assert "Traceback" not in damaged.said
    assert {path: path.read_bytes() for path in damaged.files(".log")} == before, "it touched the logs"
    return damaged.said


def assert_topic_and_configs_are_known(damaged: Damaged) -> None:
    admin = AdminClient(client_config(damaged.broker.address))
    assert len(admin.list_topics(timeout=DEADLINE_S).topics[TOPIC].partitions) == 1
    (described,) = admin.describe_configs([ConfigResource("topic", TOPIC)]).values()
    values = {key: entry.value for key, entry in described.result(DEADLINE_S).items()}
    assert {key: values[key] for key in CONFIGS} == CONFIGS


@pytest.mark.parametrize(
    "contents",
    [
        pytest.param(b"", id="empty"),
        pytest.param(random.Random(1).randbytes(100), id="garbage"),
        pytest.param(b"#\nversion=1\nnode.id=1\n", id="cut-off"),
        pytest.param(b"#\nversion=9\nnode.id=1\ncluster.id=x\ndirectory.id=y\n", id="another-version"),
    ],
)
def test_an_unreadable_meta_properties_is_refused_by_name(damaged: Damaged, contents: bytes) -> None:
    path = damaged.data / "meta.properties"
    path.write_bytes(contents)
    if contents == b"":
        damaged.as_process()
    assert str(path) in refusal(damaged)
    assert path.read_bytes() == contents


@pytest.mark.parametrize(("key", "other"), [("cluster.id", "AAAAAAAAQACAAAAAAAAAAA"), ("node.id", "7")])
def test_the_directory_of_another_broker_is_refused(stopped: Damaged, key: str, other: str) -> None:
    path = stopped.data / "meta.properties"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(f"{key}={other}" if line.startswith(key) else line for line in lines) + "\n")
    said = refusal(stopped)
    assert "belong" in said
    assert other in said


def test_without_meta_properties_the_directory_is_taken_for_ours(stopped: Damaged) -> None:
    (stopped.data / "meta.properties").unlink()
    stopped.start()
    stopped.assert_whole()
    assert (stopped.data / "meta.properties").exists()


@pytest.mark.parametrize("how", ["missing", "emptied", "garbage", "cut-in-half", "of-another-cluster"])
def test_lost_metadata_is_refused_and_the_logs_stay(damaged: Damaged, how: str, tmp_path: Path) -> None:
    path = damaged.data / "metadata.db"
    contents = path.read_bytes()
    match how:
        case "missing":
            path.unlink()
            damaged.as_process()
        case "emptied":
            path.write_bytes(b"")
        case "garbage":
            path.write_bytes(random.Random(2).randbytes(len(contents)))
        case "cut-in-half":
            path.write_bytes(contents[: len(contents) // 2])
        case _:
            path.write_bytes(another_metadata(tmp_path))
    for _ in range(2):  # also when it is tried again: the refusal must not have made a new cluster
        said = refusal(damaged)
        assert "metadata" in said or "cluster" in said
    path.write_bytes(contents)
    damaged.start()
    assert_topic_and_configs_are_known(damaged)
    damaged.assert_whole()


def another_metadata(tmp_path: Path) -> bytes:
    """Return the metadata of a fresh cluster of its own."""
    program = (
        "import asyncio, sys; from pathlib import Path; from ottla.broker import Broker\n"
        "async def main():\n"
        "    async with Broker({'log.dirs': sys.argv[1], 'listeners': 'PLAINTEXT://127.0.0.1:0'}): pass\n"
        "asyncio.run(main())"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "other")], check=True)
    return (tmp_path / "other" / "metadata.db").read_bytes()


def test_garbage_in_the_journal_is_no_reason_to_forget_a_topic(damaged: Damaged) -> None:
    append(damaged.data / "metadata.db-journal", random.Random(4).randbytes(3000))
    damaged.start()
    assert_topic_and_configs_are_known(damaged)
    damaged.assert_whole()


@pytest.mark.parametrize("seed", range(8))
def test_a_flipped_bit_in_the_metadata_is_refused_or_harmless(stopped: Damaged, seed: int) -> None:
    """It may hit a page that is not used; but if the broker starts, it knows everything."""
    path = stopped.data / "metadata.db"
    choose = random.Random(seed)
    flip(path, choose.randrange(path.stat().st_size), bit=choose.randrange(8))
    try:
        stopped.start()
    except BrokerFailed:
        assert str(path) in stopped.said
        assert "Traceback" not in stopped.said
        return
    assert_topic_and_configs_are_known(stopped)
    stopped.assert_served()
