"""`ottla up`: broker and services under one supervisor, one ready line, one Ctrl-C."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from ottla.testing.broker_process import free_port

OTTLA = [sys.executable, "-m", "ottla.cli.main"]


def test_one_command_starts_broker_registry_and_console_and_one_signal_ends_them(tmp_path: Path) -> None:
    arguments = ["up", "--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{free_port()}"]
    arguments += ["--registry", "127.0.0.1:0", "--console", "127.0.0.1:0"]
    with (tmp_path / "stderr").open("w") as output:
        process = subprocess.Popen([*OTTLA, *arguments], stdout=subprocess.PIPE, stderr=output, text=True)
    try:
        assert process.stdout is not None
        word, bootstrap, registry, console = process.stdout.readline().split()
        assert word == "ready"
        name, _, url = registry.partition("=")
        assert name == "registry"
        with urllib.request.urlopen(f"{url}/subjects") as answer:
            assert json.load(answer) == []
        with urllib.request.urlopen(console.removeprefix("console=")) as answer:
            assert b"<title>Overview" in answer.read()
        listed = subprocess.run(
            [*OTTLA, "topic", "list", "--all", "--format", "json", "-b", bootstrap],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "_schemas" in listed.stdout
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) >= 2
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert not [each for each in children if each.is_running() and each.status() != "zombie"]
    finally:
        process.kill()
        process.wait()


def test_a_port_in_use_is_reported_before_anything_is_created(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for arguments in (
            ["serve", "--listen", address],
            ["up", "--listen", address],
            ["up", "--listen", "127.0.0.1:0", "--registry", address],
        ):
            told = subprocess.run(
                [*OTTLA, *arguments, "--data", str(tmp_path / "data")], capture_output=True, text=True
            )
            assert told.returncode == 1
            assert f"{address}: address already in use" in told.stderr
            assert "OTTLA-E302" in told.stderr
            assert not (tmp_path / "data").exists()
