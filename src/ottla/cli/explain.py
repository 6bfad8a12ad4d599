"""`ottla explain`: the text behind an error code."""

from __future__ import annotations

import re
import textwrap

import click

from ottla.cli.support.options import format_option
from ottla.cli.support.output import print_json, print_table
from ottla.cli.support.problem_kinds import KINDS, Kind, kind_named
from ottla.cli.support.problems import Problem

WIDTH = 78
CONTINUED = " \\\n      -X"


def _codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [code for code in KINDS if code.startswith(incomplete.upper())]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("code", required=False, shell_complete=_codes)
@format_option
def explain(code: str | None, output_format: str) -> None:
    """Explain the error CODE: its causes, and what to do. Without a CODE, list all.

    \b
    ottla explain OTTLA-E101
    """
    if code is None:
        if output_format == "json":
            print_json([each._asdict() for each in KINDS.values()])
        else:
            print_table(["code", "what"], [[each.code, each.title] for each in KINDS.values()])
        return
    kind = kind_named(code)
    if kind is None:
        raise Problem(f"there is no code {code!r}", "list them:  ottla explain")
    if output_format == "json":
        print_json(kind._asdict())
    else:
        click.echo(as_text(kind))


def as_text(kind: Kind) -> str:
    """Return a kind of problem as text; commands are on lines of their own, to be copied."""
    lines = [f"{click.style(kind.code, bold=True)}: {kind.title}", "", _wrapped(kind.why), ""]
    for step in kind.fix:
        command = re.fullmatch(r"(.+:) `([^`]+)`\.", step)
        if command is None:
            lines.append(_wrapped(step, "- ", "  "))
        else:
            text = command[2] if len(command[2]) < WIDTH - 4 else command[2].replace(" -X", CONTINUED)
            lines += [_wrapped(command[1], "- ", "  "), f"    {text}"]
    return "\n".join(lines)


def _wrapped(text: str, first: str = "", rest: str = "") -> str:
    plain = text.replace("`", "").replace("[configuration](configuration.md)", "docs/configuration.md")
    return textwrap.fill(plain, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
