"""`ottla serve -n 3` and `ottla zookeeper start` as processes: a cluster in one terminal, gone with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from ottla.broker.zookeeper_server import ZooKeeperFailed, zookeeper_jars
from ottla.common.java import JavaNotFound, find_java
from ottla.testing.broker_process import free_port
from ottla.testing.cluster_process import view_of, wait_until

OTTLA = [sys.executable, "-m", "ottla.cli.main"]


@pytest.fixture(autouse=True)
def _needs_zookeeper() -> None:
    try:
        find_java()
        zookeeper_jars()
    except (JavaNotFound, ZooKeeperFailed) as reason:
        pytest.skip(str(reason))


@contextmanager
def running(*arguments: str, stderr: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a command; afterwards it is gone, however the test left it."""
    with stderr.open("w") as output:
        process = subprocess.Popen([*OTTLA, *arguments], stdout=subprocess.PIPE, stderr=output, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ready_line(process: subprocess.Popen[str]) -> list[str]:
    """Return the addresses that the command says it is ready at."""
    assert process.stdout is not None
    line = process.stdout.readline().split()
    assert line[:1] == ["ready"], line
    return line[1:]


def test_three_brokers_and_a_zookeeper_come_and_go_with_one_command(tmp_path: Path) -> None:
    said = tmp_path / "stderr"
    port = free_port()
    arguments = ["serve", "-n", "3", "--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{port}"]
    with running(*arguments, stderr=said) as process:
        addresses = ready_line(process)
        assert addresses == [f"127.0.0.1:{each}" for each in range(port, port + 3)]
        children = psutil.Process(process.pid).children()
        assert len(children) == 4
        wait_until(lambda: set(view_of(addresses[2]).brokers) == {1, 2, 3}, 10)
        done = subprocess.run(
            [*OTTLA, "topic", "create", "t", "-b", addresses[1]], capture_output=True, text=True, check=True
        )
        assert done.returncode == 0
        wait_until(lambda: ("t", 0) in view_of(addresses[0]).partitions, 10)
        assert len(view_of(addresses[0]).partitions["t", 0].replicas) == 3
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 0, said.read_text()
        assert not any(each.is_running() for each in children)
    assert '"node_id": "2"' in said.read_text()  # not a terminal: JSON, which says who speaks
    assert "Traceback" not in said.read_text()
    assert sorted(each.name for each in (tmp_path / "data").iterdir()) == [
        "broker-1",
        "broker-2",
        "broker-3",
        "zookeeper",
    ]


def test_the_cluster_ends_even_when_the_command_is_killed(tmp_path: Path) -> None:
    arguments = ["serve", "-n", "2", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    with running(*arguments, stderr=tmp_path / "stderr") as process:
        assert len(ready_line(process)) == 2
        children = psutil.Process(process.pid).children()
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs(children, timeout=30)
        assert alive == []


def test_brokers_that_cannot_start_end_the_command_in_words(tmp_path: Path) -> None:
    said = tmp_path / "stderr"
    arguments = ["serve", "-n", "2", "--ephemeral", "--listen", "127.0.0.1:0", "--set", "no.such.key=1"]
    with running(*arguments, stderr=said) as process:
        assert process.wait(30) == 1
    assert "no.such.key" in said.read_text()
    assert "Traceback" not in said.read_text()


def test_a_zookeeper_alone_serves_a_broker_and_keeps_its_cluster(tmp_path: Path) -> None:
    port = free_port()
    start = ["zookeeper", "start", "--data", str(tmp_path / "zookeeper"), "--listen", f"127.0.0.1:{port}"]
    serve = ["serve", "--data", str(tmp_path / "broker"), "--listen", "127.0.0.1:0", "--node-id", "7"]
    serve += ["--zookeeper", f"127.0.0.1:{port}/mine"]
    for _ in range(2):
        with running(*start, stderr=tmp_path / "zookeeper.stderr") as zookeeper:
            assert ready_line(zookeeper) == [f"127.0.0.1:{port}"]
            with running(*serve, stderr=tmp_path / "broker.stderr") as broker:
                (address,) = ready_line(broker)
                view = view_of(address)
                assert view.controller == 7
                broker.terminate()
                assert broker.wait(30) == 0
            zookeeper.terminate()
            assert zookeeper.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["zookeeper", "start", "--number", "1"], "--member and --number belong together"),
        (["zookeeper", "start", "--member", "1=x", "--number", "1"], "is not N=HOST:PORT:PORT"),
        (["zookeeper", "start", "--member", "1=x:1:2", "--number", "2"], "is not among the members"),
        (["zookeeper", "start", "--listen", "here"], "is not HOST:PORT"),
        (["serve", "-n", "2", "--advertise", "here:1"], "-n excludes"),
        (["serve", "--zookeeper", "x", "--set", "zookeeper.connect=y"], "exclude each other"),
        (["zookeeper", "start", "--listen", "127.0.0.1:99999"], "there is no port 99999"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], words: str) -> None:
    done = subprocess.run([*OTTLA, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_broker_without_its_zookeeper_does_not_start_and_says_so(tmp_path: Path) -> None:
    arguments = ["--zookeeper", f"127.0.0.1:{free_port()}", "--set", "zookeeper.connection.timeout.ms=500"]
    done = subprocess.run(
        [*OTTLA, "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert "ottla zookeeper start" in done.stderr
    assert "Traceback" not in done.stderr
