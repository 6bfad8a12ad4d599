import os
import subprocess
import sys

import pytest

from ottla import __version__
from ottla.cli.main import COMMANDS

HEAVY = ("asyncio", "kio", "rich", "uvloop", "ottla.client", "ottla.broker", "ottla.log")


def test_help_lists_every_command(ottla):
    shown = ottla("--help")
    assert shown.code == 0
    for name, (_, summary) in COMMANDS.items():
        assert any(line.split() == [name, *summary.split()] for line in shown.lines)


def test_help_imports_nothing_heavy():
    script = "import sys; from ottla.cli.main import run; run(['--help']); print([m for m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1]
    assert [name for name in HEAVY if f"'{name}'" in loaded] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_fits_80_columns(ottla, name):
    shown = ottla(name, "--help")
    assert shown.code == 0
    assert max(map(len, shown.lines)) <= 80


@pytest.mark.parametrize("verb", ["create", "list", "describe", "alter", "delete"])
def test_every_topic_command_has_help_that_fits_80_columns(ottla, verb):
    shown = ottla("topic", verb, "-h")
    assert shown.code == 0
    assert max(map(len, shown.lines)) <= 80


def test_the_version_is_the_packages(ottla):
    assert ottla("--version").out.decode() == f"ottla {__version__}\n"


def test_nothing_at_all_shows_the_help(ottla):
    shown = ottla()
    assert shown.code == 0
    assert "Commands:" in shown.err + shown.out.decode()


def test_a_mistyped_command_gets_the_near_one(ottla):
    wrong = ottla("topics", "list")
    assert wrong.code == 2
    assert wrong.err == "error: there is no command 'topics'; did you mean topic?\n  see: ottla --help\n"


def test_a_mistyped_option_says_where_to_read(ottla):
    wrong = ottla("consume", "orders", "--from-begining")
    assert wrong.code == 2
    assert wrong.err.startswith("error: no such option")
    assert "--from-beginning" in wrong.err
    assert wrong.err.endswith("  see: ottla consume --help\n")


def test_output_nobody_reads_ends_quietly_as_sigpipe_would(tmp_path):
    script = (
        "import sys; from ottla.cli.main import run\n"
        "from ottla.cli import output, topic\n"
        "import ottla.cli.session as session\n"
        "session.run = lambda *a, **k: [output.write_bytes(b'x' * 100_000) for _ in range(100)]\n"
        "sys.exit(run(['topic', 'describe', 'orders']))\n"
    )
    reading, writing = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", script], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    os.read(reading, 10)
    os.close(reading)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 141
    assert err == b""
