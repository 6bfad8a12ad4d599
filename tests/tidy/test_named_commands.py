"""The commands that documentation, errors and findings name: they exist, with these options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

from ottla.cli.main import ottla

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
NAMED = re.compile(r"\bottla((?: +[^\s`|;,()&<>\"'”]+)+)")
GENERAL = {"-h", "--help", "--version"}
COMMANDS = set(ottla.list_commands(click.Context(ottla)))
NO_COMMANDS = {"ottla backup orders", "ottla topic watch"}
"""An example of a plugin, and the name of a thread."""


def in_page(text: str) -> Iterator[str]:
    """Yield the commands in code spans and blocks, without their comments."""
    for block in re.findall(r"^```[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.lstrip("$ ").startswith("ottla "):
                yield from (each[0] for each in NAMED.finditer(line.split("  #")[0]))
    yield from re.findall(r"`(ottla [^`\n]+)`", text)


def in_source(text: str) -> Iterator[str]:
    """Yield the commands in the strings that users may read; not those of docstrings."""
    if not any(f"ottla {each}" in text for each in COMMANDS):
        return  # parsing takes longer
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            said = "".join(str(each.value) if isinstance(each, ast.Constant) else "X" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            said = node.value
        else:
            continue
        yield from (each[0] for each in NAMED.finditer(said) if each[1].split()[0] in COMMANDS)


def problem(text: str) -> str | None:
    """Return what is wrong with a command."""
    words = text.split()[1:]
    command: click.Command = ottla
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        following = command.get_command(click.Context(command), words[0])
        if following is None:
            return f"{text}: there is no {words[0]}"
        command, words = following, words[1:]
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    for word in words:
        name = word.split("=")[0].rstrip(".:")
        if re.fullmatch(r"--[a-z][a-z-]+|-[a-zA-Z]", name) and name not in known | GENERAL:
            return f"{text}: {command.name} has no {name}"
    return None


def test_documented_commands_exist() -> None:
    named = [(page.name, each) for page in PAGES for each in in_page(page.read_text())]
    assert len(named) > 500
    assert [
        f"{page}: {wrong}" for page, each in named if each not in NO_COMMANDS and (wrong := problem(each))
    ] == []


def test_the_commands_that_messages_name_exist() -> None:
    named = [(source.name, each) for source in SOURCES for each in in_source(source.read_text())]
    assert len(named) > 200
    assert [
        f"{name}: {wrong}" for name, each in named if each not in NO_COMMANDS and (wrong := problem(each))
    ] == []
