"""The harness itself, on small programs that play the broker, good and bad."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.testing.broker_process import BrokerFailed, BrokerProcess, free_port, parse_ready_line

GOOD = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
while time.process_time() < 0.1:
    pass
print("Ottla, at your service", flush=True)
print("working", file=sys.stderr, flush=True)
print("ready PLAINTEXT://127.0.0.1:4711", flush=True)
signal.pause()
"""
SILENT = "import signal; signal.pause()"
BROKEN = "import sys; sys.exit('no such config: log.segmnet.bytes')"
DEAF = GOOD.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN")
UNCLEAN = GOOD.replace("sys.exit(0)", "sys.exit('flush failed')")


class ScriptedBroker(BrokerProcess):
    """Runs a script in the broker's place."""

    def __init__(self, data: Path, script: str) -> None:
        super().__init__(data)
        self.script = script

    def command(self) -> list[str]:
        program, *_ = super().command()
        return [program, "-c", self.script]


def test_the_command_carries_data_address_and_settings(tmp_path: Path) -> None:
    broker = BrokerProcess(
        tmp_path, listen="127.0.0.1:0", settings={"num.partitions": "3"}, arguments=["--ephemeral"]
    )
    assert broker.command()[1:] == [
        *("-m", "ottla.cli.main", "serve", "--data", str(tmp_path), "--listen", "127.0.0.1:0"),
        *("--log-format", "text", "--set", "ottla.metrics.listen=off", "--set", "num.partitions=3"),
        "--ephemeral",
    ]


@pytest.mark.parametrize(
    ("line", "addresses"),
    [
        ("ready 127.0.0.1:40123\n", ["127.0.0.1:40123"]),
        ("ready a.example:1, b-2.example:2", ["a.example:1", "b-2.example:2"]),
        ("ready PLAINTEXT://[::1]:9092", ["[::1]:9092"]),
        ("ready", []),
    ],
)
def test_a_ready_line_names_addresses(line: str, addresses: list[str]) -> None:
    assert parse_ready_line(line) == addresses


def test_a_broker_starts_is_observed_and_stops(tmp_path: Path) -> None:
    with ScriptedBroker(tmp_path / "data", GOOD) as broker:
        assert broker.address == "127.0.0.1:4711"
        assert broker.stdout_text().startswith("Ottla, at your service\n")
        assert broker.stderr_tail() == "working"
        assert 0.05 < broker.cpu_seconds() < 10
        assert broker.rss_bytes() > 1_000_000
        assert broker.descriptors() >= 3
        with pytest.raises(BrokerFailed, match="already runs"):
            broker.start()
    assert not broker.is_running


def test_a_broker_starts_again_after_a_stop_and_after_a_kill(tmp_path: Path) -> None:
    with ScriptedBroker(tmp_path / "data", GOOD) as broker:
        listen, first = broker.listen, broker.pid
        second = broker.restart().pid
        broker.kill()
        assert not broker.is_running
        third = broker.start().pid
        assert len({first, second, third}) == 3
        assert broker.listen == listen
    assert broker.stderr_tail() == "working\nworking\nworking"


def test_a_broker_that_fails_to_start_says_why(tmp_path: Path) -> None:
    broker = ScriptedBroker(tmp_path / "data", BROKEN)
    with pytest.raises(BrokerFailed, match=r"(?s)exit code 1 before it was ready.*no such config"):
        broker.start()


def test_a_broker_that_never_gets_ready_is_killed(tmp_path: Path) -> None:
    broker = ScriptedBroker(tmp_path / "data", SILENT)
    with pytest.raises(BrokerFailed, match=r"not ready within 0\.1 s"):
        broker.start(ready_within_s=0.1)
    assert not broker.is_running


def test_a_broker_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    broker = ScriptedBroker(tmp_path / "data", DEAF).start()
    pid = broker.pid
    with pytest.raises(BrokerFailed, match=r"did not stop within 0\.1 s"):
        broker.stop(within_s=0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_stop_with_another_exit_code_than_0_is_a_failure(tmp_path: Path) -> None:
    broker = ScriptedBroker(tmp_path / "data", UNCLEAN).start()
    with pytest.raises(BrokerFailed, match=r"(?s)exit code 1 instead of 0.*flush failed"):
        broker.stop()


def test_stopping_a_broker_that_died_is_a_failure(tmp_path: Path) -> None:
    broker = ScriptedBroker(tmp_path / "data", GOOD).start()
    os.kill(broker.pid, 9)
    broker._stdout.join()
    with pytest.raises(BrokerFailed, match="exit code -9"):
        broker.stop()


def test_an_error_beside_a_running_broker_carries_its_stderr_and_ends_it(tmp_path: Path) -> None:
    broker = ScriptedBroker(tmp_path / "data", GOOD)
    with pytest.raises(ZeroDivisionError) as raised, broker:
        _ = 1 / 0
    assert "working" in raised.value.__notes__[0]
    assert not broker.is_running


def test_free_ports_lie_below_those_for_outgoing_connections() -> None:
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(1024 < free_port() < first_outgoing for _ in range(50))
