import os
import re
import subprocess
import sys

import click
import pytest

from ottla import __version__
from ottla.cli.main import COMMANDS
from ottla.cli.main import ottla as ottla_command

MAX_MODULES = 190
DESTROYING = (
    "abort",
    "apply",
    "decommission",
    "delete",
    "elect",
    "reassign",
    "rebuild",
    "restore",
    "seek",
)
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
    assert len(loaded.split(",")) < MAX_MODULES


MOST_TO_ASK_A_BROKER = 300
"""Modules: each costs about half a millisecond of the start."""
NOT_TO_LIST = ("ottla.protocol.records", "ottla.client.producer", "ottla.client.admin.topic_admin", "uvloop")


def test_listing_topics_imports_only_what_it_needs():
    script = (
        "import sys; sys.modules['hypothesis'] = None; from ottla.cli.main import run;"
        "run(['topic', 'list', '-b', '127.0.0.1:1']); print([m for m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "no broker at 127.0.0.1:1" in done.stderr
    loaded = done.stdout.splitlines()[-1]
    assert [name for name in NOT_TO_LIST if f"'{name}'" in loaded] == []
    assert len(loaded.split(",")) < MOST_TO_ASK_A_BROKER


def all_commands() -> list[tuple[str, ...]]:
    """Return every command and sub-command, as it is typed."""

    def below(command: click.Command, words: tuple[str, ...]) -> list[tuple[str, ...]]:
        found = [words]
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                found += below(command.get_command(context, name), (*words, name))
        return found

    return below(ottla_command, ())


@pytest.mark.parametrize("words", all_commands(), ids=lambda words: "-".join(words) or "ottla")
def test_every_help_fits_80_columns_and_tells_what_each_option_is_for(ottla, words):
    shown = ottla(*words, "--help")
    assert shown.code == 0
    assert max(map(len, shown.lines)) <= 80
    context = click.Context(ottla_command)
    command = ottla_command
    for word in words:
        command = command.get_command(context, word)
    listed = shown.out.decode().partition("Commands:")[2].splitlines()
    assert not [line for line in listed if line.endswith("...")], "a summary is cut off: give a short_help"
    untold = [each.name for each in command.params if isinstance(each, click.Option) and not each.help]
    assert untold == []
    assert command.help
    example = rf"^ *(?:\S.*(?:\| |: +))?{' '.join(('ottla', *words))}( |$)"
    assert re.search(example, shown.out.decode(), re.MULTILINE), "no example"


def test_every_command_that_destroys_can_be_tried_first(ottla):
    for words in all_commands():
        if len(words) == 2 and words[-1:] in [(each,) for each in DESTROYING]:
            shown = ottla(*words, "--help").out.decode()
            assert "--dry-run" in shown
            assert "--yes" in shown


def test_the_version_is_the_packages(ottla):
    assert ottla("--version").out.decode() == f"ottla {__version__}\n"


def test_nothing_at_all_shows_the_help(ottla):
    shown = ottla()
    assert shown.code == 0
    assert "Commands:" in shown.err + shown.out.decode()


def test_a_mistyped_command_gets_the_near_one(ottla):
    wrong = ottla("topics", "list")
    assert wrong.code == 2
    first = "error: there is no command 'topics'; did you mean topic?"
    assert wrong.err.splitlines() == [first, "  see:  ottla --help  (OTTLA-E501)"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("config", "set"), "alter"),
        (("topic", "ls"), "list"),
        (("group", "reset"), "seek"),
        (("acl", "rm"), "delete"),
    ],
)
def test_the_word_of_another_tool_gets_ours(ottla, typed, meant):
    wrong = ottla(*typed)
    assert wrong.code == 2
    assert wrong.err.splitlines()[0] == f"error: there is no command {typed[1]!r}; did you mean {meant}?"


def test_a_mistyped_option_says_where_to_read(ottla):
    wrong = ottla("consume", "orders", "--from-begining")
    assert wrong.code == 2
    assert wrong.err.startswith("error: no such option")
    assert "--from-beginning" in wrong.err
    assert wrong.err.endswith("  see:  ottla consume --help  (OTTLA-E501)\n")


def test_a_closed_output_ends_quietly_as_sigpipe_would(tmp_path):
    script = (
        "import sys; from ottla.cli.main import run\n"
        "from ottla.cli.topic import command\n"
        "from ottla.cli.support import output\n"
        "import ottla.cli.support.session as session\n"
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


def completed(*words: str) -> dict[str, str | None]:
    """Return what a shell is told for the last word, with the descriptions."""
    from click.shell_completion import ShellComplete

    found = ShellComplete(ottla_command, {}, "ottla", "_OTTLA_COMPLETE").get_completions(
        list(words[:-1]), words[-1]
    )
    return {each.value: each.help for each in found}


def test_config_keys_are_completed_with_what_they_mean():
    topic = completed("topic", "create", "orders", "--set", "retention.")
    assert list(topic) == ["retention.bytes=", "retention.ms="]
    assert all(topic.values())
    assert "log.retention.ms=" in completed("serve", "--set", "log.retention")
    assert "retention.ms" in completed("topic", "alter", "orders", "--unset", "reten")
    assert "min.insync.replicas=" in completed("config", "alter", "--topic", "orders", "--set", "min.")
    assert "log.dirs=" in completed("serve", "--set", "log.d")
    assert "sasl.mechanism=" in completed("topic", "list", "-X", "sasl.mech")


def test_descriptions_of_sub_commands_are_whole():
    for words in all_commands():
        group = ottla_command
        for word in words:
            group = group.get_command(click.Context(group), word)
        if isinstance(group, click.Group):
            cut = [each for each in completed(*words, "").items() if (each[1] or "").endswith("...")]
            assert cut == [], words
