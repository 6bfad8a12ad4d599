"""docs/cli.md: every command of `ottla` with its options and an example, from the click commands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from ottla.cli.main import ottla

SHARED = ("--bootstrap-server", "--profile", "-X", "--help")
"""Options of every command that connects to a cluster; the page lists them once."""
HEAD = """\
# Command line

<!-- Made from the commands of ottla by: make docs -->

`ottla COMMAND --help` prints the same text.

| | |
|---|---|
| cluster | `-b`, else `--profile`, `OTTLA_BOOTSTRAP`, `OTTLA_PROFILE`, default profile, `127.0.0.1:9092` |
| confirmation | destructive commands ask for it; scripts pass `--yes`; `--dry-run` previews the change |
| exit code | 0 success, 1 failure, 2 usage error, 130 after Ctrl-C |
| errors | carry a code: [problems](problems.md) |

| option of every command that connects | |
|---|---|
| `-b, --bootstrap-server HOST:PORT` | addresses of brokers, separated by commas |
| `--profile NAME` | a cluster of the profiles file ([several clusters](operations.md#several-clusters)) |
| `-X KEY=VALUE` | any [client option](client-options.md), repeatable |
| `--help` | print the help of the command |
"""


def cli_page() -> str:
    """Return the page."""
    lines = [HEAD, "| command | what it does |", "|---|---|"]
    commands = list(_commands(ottla, click.Context(ottla, info_name="ottla")))
    for context in commands:
        path = context.command_path
        lines.append(f"| [`{path}`](#{path.replace(' ', '-')}) | {_summary(context.command)} |")
    for context in commands:
        lines += ["", *_section(context)]
    return "\n".join(lines) + "\n"


def missing_examples() -> list[str]:
    """Return the commands for which the page has no example."""
    contexts = _commands(ottla, click.Context(ottla, info_name="ottla"))
    return [each.command_path for each in contexts if not _examples(each)]


def _commands(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """Yield a context for each command below this one that can be run."""
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        sub = command.get_command(context, name)
        if sub is not None and not sub.hidden:
            yield from _commands(sub, click.Context(sub, info_name=name, parent=context))


def _section(context: click.Context) -> list[str]:
    """Return the lines about one command: usage, help, examples, options."""
    usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    lines = [f"## {context.command_path}", "", _help_text(context.command), ""]
    lines += ["```text", usage, "```", "", "Example:", "", "```text", *_examples(context), "```"]
    rows = [
        record
        for each in context.command.get_params(context)
        if isinstance(each, click.Option)
        and not set(SHARED) & set(each.opts)
        and (record := each.get_help_record(context)) is not None
    ]
    if rows:
        lines += ["", "| option | |", "|---|---|"]
        lines += [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in rows]
    return lines


def _summary(command: click.Command) -> str:
    """Return the first sentence of a command's help."""
    first = _help_text(command).split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=\.)\s", first)[0]


def _help_text(command: click.Command) -> str:
    """Return the help of a command without its examples."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(each for each in paragraphs if not each.startswith("\b")).strip()


def _examples(context: click.Context) -> list[str]:
    """Return the examples in a command's help."""
    command = context.command
    blocks = [*inspect.cleandoc(command.help or "").split("\n\n"), inspect.cleandoc(command.epilog or "")]
    return [
        line
        for each in blocks
        if each.startswith("\b")
        for line in each.removeprefix("\b").strip().splitlines()
    ]


def _cell(text: str) -> str:
    """Return text for a cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|")
