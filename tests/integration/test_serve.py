"""`ottla serve` as a process: its ready line, its end, and what it says when it cannot start."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ottla.testing.broker_process import BrokerFailed, BrokerProcess


def refusal(broker: BrokerProcess) -> str:
    """Start a broker that must not come up, and return what it says on stderr."""
    with pytest.raises(BrokerFailed, match=r"exit code [1-9]\d* before it was ready"):
        broker.start()
    said = broker.stderr_tail()
    assert "Traceback" not in said
    return said


def test_it_says_ready_with_its_address_and_stops_with_exit_code_0(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", listen="127.0.0.1:0") as broker:
        host, port = broker.address.rsplit(":", 1)
        assert host == "127.0.0.1"
        assert int(port) > 0
        assert [line for line in broker.stdout_text().splitlines() if line.startswith("ready")] == [
            f"ready {broker.address}"
        ]


def test_an_interrupt_stops_it_cleanly_too(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    process = broker._process
    os.kill(broker.pid, signal.SIGINT)
    assert process.wait(30) == 0, broker.stderr_tail()
    assert "Traceback" not in broker.stderr_tail()


def test_two_brokers_never_share_a_folder(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as first:
        second = BrokerProcess(first.data, stderr_path=tmp_path / "second.stderr")
        said = refusal(second)
        assert str(first.data) in said
        assert first.is_running


def test_an_address_in_use_is_named(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "one") as first:
        said = refusal(BrokerProcess(tmp_path / "two", listen=first.address))
        assert first.address in said


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("log.segmnet.bytes", "1048576", "log.segment.bytes"),  # unknown: the nearest name
        ("log.segment.bytes", "many", "log.segment.bytes"),
        ("num.io.threads", "4", "not implemented"),  # Kafka knows it, we do not
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_with_a_hint(
    key: str, value: str, named: str, tmp_path: Path
) -> None:
    said = refusal(BrokerProcess(tmp_path / "data", settings={key: value}))
    assert key in said
    assert named in said
