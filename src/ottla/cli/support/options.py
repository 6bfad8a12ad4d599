"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from ottla.cli.support.completing import broker_keys, client_keys, profile_names
from ottla.cli.support.problems import Problem
from ottla.cli.support.profiles import BOOTSTRAP_KEY, PROFILE_VARIABLE, SERVICE_KEYS, find_profile

Command = TypeVar("Command", bound=Callable[..., Any])

ACKS = ("all", "-1", "0", "1")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "OTTLA_BOOTSTRAP"
MAX_PORT = 65_535
REGISTRY_URL = "http://127.0.0.1:8081"
REGISTRY_VARIABLE = "OTTLA_REGISTRY"
TYPED_PROFILE = "ottla.typed_profile"
JAAS_KEY, USER_KEY = "sasl.jaas.config", "sasl.username"
SETTINGS = "ottla.settings"
"""Where a command's context keeps the client settings: of the profile, the file and `-X`."""


def bootstrap_option(command: Command) -> Command:
    """Add the options that select the cluster: `-b`, `--profile`, `--command-config` and `-X`."""
    for option in (
        click.option(
            "-X",
            "extra",
            multiple=True,
            metavar="KEY=VALUE",
            callback=_take_extra,
            shell_complete=client_keys,
            expose_value=False,
            help="A client option in Kafka's spelling; repeatable.",
        ),
        click.option(
            "--command-config",
            metavar="FILE",
            type=click.Path(path_type=Path),
            callback=_take_file,
            expose_value=False,
            is_eager=True,
            hidden=True,
            help="A .properties file of client options, as for Kafka's tools.",
        ),
        click.option(
            "--profile",
            metavar="NAME",
            envvar=PROFILE_VARIABLE,
            callback=_take_profile,
            expose_value=False,
            is_eager=True,
            shell_complete=profile_names,
            help=f"A profile (or ${PROFILE_VARIABLE}).",
        ),
        click.option(
            "-b",
            "--bootstrap-server",
            "bootstrap",
            metavar="HOST:PORT",
            envvar=BOOTSTRAP_VARIABLE,
            callback=_bootstrap,
            help="A broker of the cluster; several with commas.  "
            f"[default: ${BOOTSTRAP_VARIABLE} or {DEFAULT_BOOTSTRAP}]",
        ),
    ):
        command = option(command)
    return command


def client_settings() -> dict[str, str]:
    """Return the client settings of this command, by Kafka's names."""
    context = click.get_current_context(silent=True)
    return dict(context.meta.get(SETTINGS, {})) if context is not None else {}


def same_cluster() -> str:
    """Return the options that make another command use the same cluster, as typed for this one."""
    context = click.get_current_context(silent=True)
    if context is None:
        return ""
    if context.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE:
        return f" -b {context.params['bootstrap']}"
    return f" --profile {name}" if (name := context.meta.get(TYPED_PROFILE)) else ""


def _settings(ctx: click.Context) -> dict[str, str]:
    return cast("dict[str, str]", ctx.meta.setdefault(SETTINGS, {}))


def _merged(weak: Mapping[str, str], strong: Mapping[str, str]) -> dict[str, str]:
    """Return all settings; where both have a login, that of `strong` alone counts, however it is written."""
    hidden: tuple[str, ...] = ()
    if JAAS_KEY in strong and USER_KEY not in strong:
        hidden = (USER_KEY, "sasl.password")
    elif USER_KEY in strong and JAAS_KEY not in strong:
        hidden = (JAAS_KEY,)
    return {**{key: value for key, value in weak.items() if key not in hidden}, **strong}


def _take_profile(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
    try:
        found = find_profile(name)
    except Problem:
        if not ctx.resilient_parsing:
            raise
        return
    found = {key: value for key, value in found.items() if key not in SERVICE_KEYS}
    ctx.meta[SETTINGS] = _merged(found, _settings(ctx))
    if ctx.get_parameter_source("profile") is ParameterSource.COMMANDLINE:
        ctx.meta[TYPED_PROFILE] = name


def _take_file(ctx: click.Context, param: click.Parameter, file: Path | None) -> None:
    if file is not None and not ctx.resilient_parsing:
        from ottla.common.config.declaration import ConfigError
        from ottla.common.config.properties import read_properties

        try:
            ctx.meta[SETTINGS] = _merged(_settings(ctx), read_properties(file))
        except ConfigError as error:
            raise click.BadParameter(str(error), ctx, param) from None


def _take_extra(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> None:
    ctx.meta[SETTINGS] = _merged(_settings(ctx), key_values(ctx, param, texts))


def _bootstrap(ctx: click.Context, param: click.Parameter, given: str | None) -> str:
    """Return the address: as typed, of the typed profile, or of the environment."""
    profile = _settings(ctx).get(BOOTSTRAP_KEY)
    is_typed = ctx.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE
    profile_is_typed = ctx.get_parameter_source("profile") is ParameterSource.COMMANDLINE
    if given is not None and (is_typed or not (profile_is_typed and profile)):
        return given
    return profile or given or DEFAULT_BOOTSTRAP


def batch_options(command: Command) -> Command:
    """Add the producer options `--acks` and `--compression`."""
    for option in (
        click.option(
            "-z",
            "--compression",
            type=click.Choice(CODECS),
            default="none",
            show_default=True,
            help="The compression codec.",
        ),
        click.option(
            "--acks",
            type=click.Choice(ACKS),
            default="all",
            show_default=True,
            help="Which replicas must acknowledge.",
        ),
    ):
        command = option(command)
    return command


def format_option(command: Command) -> Command:
    """Add `--format table|json`."""
    option = click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "json"]),
        default="table",
        help="Text (default), or JSON.",
    )
    return option(command)


def named_argument(
    name: str, spelled: str, metavar: str, complete: Any = None
) -> Callable[[Command], Command]:
    """Add an argument that may also be given as an option, as for Kafka's tools (`--topic orders`)."""

    def take(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.meta[f"ottla.named.{name}"] = value

    def given(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        named = ctx.meta.get(f"ottla.named.{name}")
        if named is not None and value is not None:
            if "values" not in [each.name for each in ctx.command.params]:
                raise click.UsageError(f"unexpected {value!r}: {spelled} already names {named}", ctx)
            ctx.meta["ottla.first_value"] = value
        found = named if named is not None else value
        if found is None and not ctx.resilient_parsing:
            raise click.MissingParameter(ctx=ctx, param=param)
        return found

    def add(command: Command) -> Command:
        command = click.argument(
            name, metavar=metavar, required=False, callback=given, shell_complete=complete
        )(command)
        return click.option(
            spelled,
            f"{name}_named",
            metavar=metavar,
            hidden=True,
            is_eager=True,
            expose_value=False,
            callback=take,
            help=f"Same as {metavar}, in the spelling of Kafka's tools.",
        )(command)

    return add


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


def config_file_option(help_text: str) -> Callable[[Command], Command]:
    """Declare `--config`, a broker's .properties file."""
    return click.option(
        "-c", "--config", "file", metavar="FILE", type=click.Path(path_type=Path), help=help_text
    )


def log_options(command: Command) -> Command:
    """Declare `--log-level` and `--log-format`, of a broker or of several processes."""
    from ottla.common.log_format import AUTO, FORMATS

    level = click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="The log level on standard error.",
    )
    log_format = click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        default=AUTO,
        help="The format of log lines.  [default: text on a terminal, else json]",
    )
    return level(log_format(command))


def broker_settings_option(help_text: str) -> Callable[[Command], Command]:
    """Declare `--set`, config keys of a broker."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        callback=key_values,
        shell_complete=broker_keys,
        help=help_text,
    )


def listen_address(option: str, text: str, example: str = DEFAULT_BOOTSTRAP) -> tuple[str, int]:
    """Return host and port of an address to listen on; raise UsageError if it is none."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()):
        raise click.UsageError(f"{option}: {text!r} is not HOST:PORT, such as {example}")
    return host.strip("[]"), listen_port(option, port)


def listen_port(option: str, port: str) -> int:
    """Return a port to listen on; raise UsageError if there is no such port."""
    if int(port) > MAX_PORT:
        raise click.UsageError(
            f"{option}: there is no port {port}: they are 1 to {MAX_PORT}, and 0 is any free one"
        )
    return int(port)


def is_terminal(stream: Any) -> bool:
    """Return whether a standard stream is a terminal."""
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation, unless `yes`; abort if the answer is no, or without a terminal."""
    if yes:
        return
    if not is_terminal(sys.stdin):
        raise click.UsageError(f"{question} There is no terminal to ask for confirmation: use --yes")
    if not is_confirmed(question):
        raise click.Abort


def is_confirmed(question: str) -> bool:
    """Ask a question on the terminal and return whether the answer is yes; Ctrl-C aborts at once.

    asyncio's handler of Ctrl-C would only cancel the task, which reads the answer until Enter is pressed.
    """
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        raise
    finally:
        signal.signal(signal.SIGINT, previous)
