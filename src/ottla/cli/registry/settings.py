"""`ottla registry config|mode`: how a registry treats subjects."""

from __future__ import annotations

from typing import Any

import click

from ottla.cli.registry.client import ask, path_of, url_option
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import format_option, key_values
from ottla.cli.support.output import echo_err, print_json
from ottla.registry.formats.levels import LEVELS

HELP = {"help_option_names": ["-h", "--help"]}
FLAGS = frozenset({"normalize", "validateFields", "validateRules", "validateNewSchemas"})


@click.group(cls=LazyGroup, context_settings=HELP, short_help="Look at compatibility levels; change them.")
def config() -> None:
    """Look at and change the compatibility level, and what else is configured.

    \b
    ottla registry config get
    """


@click.group(cls=LazyGroup, context_settings=HELP)
def mode() -> None:
    """Look at and change who may write: READWRITE, READONLY, IMPORT.

    \b
    ottla registry mode get
    """


_subject = click.argument("name", metavar="[SUBJECT]", required=False)


def _path(kind: str, name: str | None, **query: object) -> str:
    return path_of(kind, *([name] if name else []), **query)


def _show(found: Any, output_format: str) -> None:
    if output_format == "json":
        print_json(found)
        return
    for key, value in (found or {}).items():
        click.echo(f"{key}={value}")


@config.command("get")
@_subject
@click.option("--own", is_flag=True, help="Only what is set for the subject itself.")
@format_option
@url_option
def get_config(name: str | None, own: bool, output_format: str, url: str) -> None:
    """Show the config that counts for a subject, or for all.

    \b
    ottla registry config get
    ottla registry config get orders-value
    """
    _show(ask(url, "GET", _path("config", name, defaultToGlobal=not own)), output_format)


@config.command("set", short_help="Set the compatibility level, or another field.")
@_subject
@click.option(
    "--level",
    type=click.Choice(LEVELS, case_sensitive=False),
    metavar="LEVEL",
    help=f"The compatibility level: {', '.join(LEVELS)}.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="Another field, such as normalize=true or alias=NAME; repeatable.",
)
@format_option
@url_option
def set_config(
    name: str | None, level: str | None, settings: dict[str, str], output_format: str, url: str
) -> None:
    """Set the compatibility level, or another field, of a subject or of all.

    \b
    ottla registry config set --level FULL
    ottla registry config set orders-value --level NONE --set normalize=true
    """
    body: dict[str, Any] = {
        key: value.lower() == "true" if key in FLAGS else value for key, value in settings.items()
    }
    if level is not None:
        body["compatibility"] = level.upper()
    if not body:
        raise click.UsageError("nothing to set: name a --level, or a field with --set KEY=VALUE")
    _show(ask(url, "PUT", _path("config", name), body), output_format)


@config.command("delete")
@_subject
@format_option
@url_option
def delete_config(name: str | None, output_format: str, url: str) -> None:
    """Go back to the config of all, or to the default.

    \b
    ottla registry config delete orders-value
    """
    _show(ask(url, "DELETE", _path("config", name)), output_format)
    echo_err(f"the config of {name or 'all'} is removed")


@mode.command("get")
@_subject
@format_option
@url_option
def get_mode(name: str | None, output_format: str, url: str) -> None:
    """Show the mode that counts for a subject, or for all.

    \b
    ottla registry mode get orders-value
    """
    _show(ask(url, "GET", _path("mode", name, defaultToGlobal=True)), output_format)


@mode.command("set")
@click.argument("value", metavar="MODE", type=click.Choice(["READWRITE", "READONLY", "IMPORT"], False))
@_subject
@click.option("--force", is_flag=True, help="IMPORT even if there are schemas.")
@format_option
@url_option
def set_mode(value: str, name: str | None, force: bool, output_format: str, url: str) -> None:
    """Set the mode of a subject, or of all.

    \b
    ottla registry mode set READONLY
    ottla registry mode set IMPORT orders-value
    """
    _show(ask(url, "PUT", _path("mode", name, force=force), {"mode": value.upper()}), output_format)


@mode.command("delete")
@_subject
@format_option
@url_option
def delete_mode(name: str | None, output_format: str, url: str) -> None:
    """Go back to the mode of all, or to READWRITE.

    \b
    ottla registry mode delete orders-value
    """
    _show(ask(url, "DELETE", _path("mode", name)), output_format)
    echo_err(f"the mode of {name or 'all'} is removed")
