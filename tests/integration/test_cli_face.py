"""The commands that a newcomer meets, as programs, on a real broker."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.clients import HasAddress, wait_until

BROKER_SETTINGS = {"group.initial.rebalance.delay.ms": "50"}
WITHIN_S = 90


class Cli:
    """Runs `ottla` in a process of its own."""

    def __init__(self, address: str, home: Path) -> None:
        self.environment = {**os.environ, "OTTLA_BOOTSTRAP": address, "HOME": str(home)}

    def __call__(self, *words: str, text: str = "", code: int = 0, **more: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "ottla.cli", *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            env={**self.environment, **more},
            check=False,
        )
        assert done.returncode == code, f"ottla {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr


@pytest.fixture
def ottla(broker: HasAddress, tmp_path: Path) -> Cli:
    return Cli(broker.address, tmp_path)


def test_what_consume_writes_produce_reads_back_unchanged(ottla: Cli) -> None:
    records = [
        {"key": "k", "value": "v", "headers": [["h", "x"], ["none", None]], "timestamp": 1_700_000_000_000},
        {"key": {"base64": "/w=="}, "value": None, "headers": [], "timestamp": 1_700_000_000_001},
        {
            "key": None,
            "value": "a\nb\t\u2603",
            "headers": [["b", {"base64": "/w=="}]],
            "timestamp": 1_700_000_000_002,
        },
    ]
    for topic in ("trip-out", "trip-back"):
        ottla("topic", "create", topic, "--partitions", "4")
    ottla("produce", "trip-out", "-f", "json", text="\n".join(map(json.dumps, records)))
    out = ottla("consume", "trip-out", "--from-beginning", "--exit")
    ottla("produce", "trip-back", "-f", "json", "--keep-partitions", text=out)
    back = ottla("consume", "trip-back", "--from-beginning", "--exit")
    first, second = ([json.loads(line) for line in text.splitlines()] for text in (out, back))
    assert [{**each, "topic": "trip-back"} for each in first] == second
    by_time = sorted(first, key=lambda each: each["timestamp"])
    assert [{name: each[name] for name in records[0]} for each in by_time] == records


def test_the_doctor_finds_a_healthy_broker(ottla: Cli, tmp_path: Path) -> None:
    found = json.loads(ottla("doctor", "--write", "--data", str(tmp_path), "--format", "json"))
    states = {each["check"]: each["state"] for each in found}
    on_the_way = ("DNS", "TCP", "Kafka", "advertised", "record", "clock", "disk space", "file limits")
    assert {name: states[name] for name in on_the_way} == dict.fromkeys(on_the_way, "ok")
    assert "ottla-doctor" not in ottla("topic", "list")


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port where somebody answers, in the words of HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_the_doctor_tells_what_is_no_kafka_broker(ottla: Cli, deaf_port: int, tmp_path: Path) -> None:
    address = f"127.0.0.1:{deaf_port}"
    done = ottla("doctor", "-b", address, "--data", str(tmp_path), code=1)
    assert "problem" in done


def test_the_doctor_reports_an_unreachable_advertised_address(tmp_path: Path) -> None:
    from ottla.testing.broker_process import BrokerProcess

    with BrokerProcess(tmp_path / "data", arguments=["--advertise", "127.0.0.1:1"]) as broker:
        ottla = Cli(broker.address, tmp_path)
        listen = broker.listen
        lost = ottla("topic", "describe", "x", "-b", listen, code=1)
        assert "there is no topic" in lost or "OTTLA-E102" in lost
        found = subprocess.run(
            [sys.executable, "-m", "ottla.cli", "doctor", "-b", listen, "--format", "json"],
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            cwd=tmp_path,
            check=False,
        )
    assert found.returncode == 1
    (advertised,) = [each for each in json.loads(found.stdout) if each["check"] == "advertised"]
    assert (advertised["state"], advertised["code"]) == ("wrong", "OTTLA-E102")


def test_topics_and_groups_are_completed_from_the_broker(ottla: Cli) -> None:
    ottla("topic", "create", "complete-me", "--partitions", "1")
    ottla("group", "seek", "complete-group", "--topic", "complete-me", "--to-earliest", "--yes")
    asked = {"ottla topic describe compl": "complete-me", "ottla group describe compl": "complete-group"}
    for words, found in asked.items():
        how = {"_OTTLA_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "3"}
        assert ottla(**how) == f"plain,{found}\n"


def test_a_measurement_says_how_busy_its_own_client_was(ottla: Cli) -> None:
    report = json.loads(ottla("bench", "-n", "3000", "--format", "json"))
    assert report["produced"]["records"] == 3000
    assert 0 < report["produced"]["client_cpu"] < 2
    assert report["acknowledged_ms"]["p50"] <= report["acknowledged_ms"]["p99"]


def test_the_demo_counts_every_order_once_and_ends_cleanly(ottla: Cli) -> None:
    done = json.loads(ottla("demo", "--no-spark", "--seconds", "1", "--rate", "500", "--format", "json"))
    assert done["complete"]
    assert done["sent"]["orders"] > 0


def test_ctrl_c_ends_the_demo_and_the_broker_that_it_started(tmp_path: Path) -> None:
    """Nothing runs at the default address of a machine of tests, or else the demo uses that."""
    environment = {name: value for name, value in os.environ.items() if name != "OTTLA_BOOTSTRAP"}
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", "demo", "--no-spark"],
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "said").open("w"),
        env=environment,
        text=True,
    )
    wait_until(lambda: "counted" in _said(tmp_path), "a line of the demo", WITHIN_S)
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    started = [int(each) for each in Path(children).read_text().split()]
    process.send_signal(signal.SIGINT)
    assert process.wait(WITHIN_S) == 0
    assert not [each for each in started if Path(f"/proc/{each}").exists()]
    assert "orders counted" in _said(tmp_path)


def _said(folder: Path) -> str:
    return (folder / "said").read_text()
