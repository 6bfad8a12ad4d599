"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "OTTLA_BOOTSTRAP"


def bootstrap_option(command: Command) -> Command:
    """Add `-b/--bootstrap-server`: which cluster to talk to."""
    option = click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT",
        envvar=BOOTSTRAP_VARIABLE,
        default=DEFAULT_BOOTSTRAP,
        show_default=f"${BOOTSTRAP_VARIABLE} or {DEFAULT_BOOTSTRAP}",
        help="A broker of the cluster; several with commas.",
    )
    return option(command)


def format_option(command: Command) -> Command:
    """Add `--format table|json`: for people or for programs."""
    option = click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="For people or for programs.",
    )
    return option(command)


def key_values(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Turn repeated `key=value` options into a dict (a click callback)."""
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not (key and equals):
            raise click.BadParameter(f"{text!r} is not key=value", ctx, param)
        if key in values:
            raise click.BadParameter(f"{key} is given twice", ctx, param)
        values[key] = value.strip()
    return values


def is_terminal(stream: Any) -> bool:
    """Return whether a person is at the other end of a standard stream."""
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"
