"""The progress bar is for people at a terminal, and for nothing else."""

import io
import os
import sys

import pytest

from ottla.cli.support.progress import is_pipe, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_with(stdout_descriptor: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether there was a progress bar of rich, with a terminal as standard error."""
    shown: list[object] = []
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("rich.progress.Progress.start", lambda bar: shown.append(bar))
    with open(stdout_descriptor, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", Terminal())  # here: pytest sets its own between fixture and test
        with progress("orders", 10) as update:
            update(5)
    return bool(shown)


def test_nothing_is_shown_if_another_program_reads_the_output(monkeypatch):
    reading, writing = os.pipe()
    assert not shown_with(writing, monkeypatch)
    os.close(reading)


def test_it_is_shown_while_a_file_is_written(monkeypatch, tmp_path):
    assert shown_with(os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT), monkeypatch)


def test_a_stream_without_a_descriptor_is_no_pipe():
    assert not is_pipe(io.StringIO())
