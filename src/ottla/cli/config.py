"""`ottla config`: configs of topics and brokers, configuration files, and profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ottla.cli.support import session
from ottla.cli.support.completing import config_keys, topic_names
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import bootstrap_option, format_option, key_values
from ottla.cli.support.output import count, echo_err, print_json, print_table
from ottla.cli.support.problem_kinds import BAD_CONFIG
from ottla.cli.support.problems import Problem
from ottla.cli.support.profiles import is_secret, is_secret_of_broker, profiles_file, read_profiles
from ottla.client.admin.config_admin import ConfigAdmin, ConfigEntry, ConfigSource
from ottla.client.cluster import Cluster
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError
from ottla.common.config.properties import read_properties
from ottla.protocol.errors import InvalidConfig

# Find all problems of a broker's configuration file, not only the first.

Wrong = list[tuple[str, str]]


def check_file(file: Path) -> tuple[int, Wrong]:
    """Return the number of keys in a file, and its problems by key."""
    try:
        raw = read_properties(file)
    except ConfigError as error:
        raise Problem(str(error), kind=BAD_CONFIG) from None
    wrong: Wrong = []
    rest = dict(raw)
    for _ in range(len(raw) + 1):
        try:
            BrokerConfig(rest)
        except ConfigError as error:
            wrong.append((error.key, error.reason))
            if rest.pop(error.key, None) is None:  # about a combination of keys: no single one to remove
                break
        else:
            break
    return len(raw), wrong


SET_SOURCES = frozenset(ConfigSource) - {ConfigSource.DEFAULT, ConfigSource.UNKNOWN}


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def config() -> None:
    """Show, change and validate configs of topics and brokers.

    \b
    ottla config describe --topic orders
    """


def _resource_options(command: click.decorators.FC) -> click.decorators.FC:
    topic = click.option("-t", "--topic", metavar="NAME", shell_complete=topic_names, help="Of this topic.")
    broker = click.option("--broker", type=click.IntRange(0), metavar="N", help="Of this broker.")
    return topic(broker(command))


@config.command(short_help="Show configs of a topic or of brokers.")
@_resource_options
@click.option("-a", "--all", "everything", is_flag=True, help="Include defaults.")
@click.option("--docs", is_flag=True, help="What each means.")
@format_option
@bootstrap_option
def describe(
    topic: str | None, broker: int | None, everything: bool, docs: bool, output_format: str, bootstrap: str
) -> None:
    """Show the configs that are set for a topic, a broker, or all brokers.

    \b
    ottla config describe --topic orders
    ottla config describe --broker 1 --all
    """
    _at_most_one(topic, broker)

    async def command(cluster: Cluster) -> list[ConfigEntry]:
        admin = ConfigAdmin(cluster)
        if topic is not None:
            return await admin.topic_configs(topic, documentation=docs)
        return await admin.broker_configs(broker, documentation=docs)

    found = session.run(bootstrap, command, topic=topic)
    shown = [each for each in found if everything or each.source in SET_SOURCES]
    if output_format == "json":
        print_json([_as_json(each) for each in shown])
    elif shown:
        _print(shown, docs)
    else:
        echo_err(
            f"all {len(found)} have their defaults; show them with --all" if found else "nothing has been set"
        )


@config.command(short_help="Change configs at run time.")
@_resource_options
@click.option(
    "--set",
    "set_to",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    shell_complete=config_keys,
    help="Set it; repeatable.",
)
@click.option("--unset", multiple=True, metavar="KEY", help="Reset to the default; repeatable.")
@click.option("--dry-run", is_flag=True, help="Only validate.")
@format_option
@bootstrap_option
def alter(
    topic: str | None,
    broker: int | None,
    set_to: dict[str, str],
    unset: tuple[str, ...],
    dry_run: bool,
    output_format: str,
    bootstrap: str,
) -> None:
    """Change configs at run time: of a topic, of one broker, or (without either) of all brokers.

    \b
    ottla config alter --topic orders --set retention.ms=86400000
    ottla config alter --set log.retention.ms=86400000 --dry-run
    """
    _at_most_one(topic, broker)
    if not set_to and not unset:
        raise click.UsageError("nothing to change: give --set or --unset")

    async def command(cluster: Cluster) -> None:
        admin = ConfigAdmin(cluster)
        try:
            if topic is not None:
                await admin.alter_topic_configs(topic, set_to=set_to, unset=unset, validate_only=dry_run)
            else:
                await admin.alter_broker_configs(broker, set_to=set_to, unset=unset, validate_only=dry_run)
        except InvalidConfig as error:
            raise Problem(str(error) or "the broker rejected the configs", kind=BAD_CONFIG) from None

    session.run(bootstrap, command, topic=topic)
    where = topic or ("all brokers" if broker is None else f"broker {broker}")
    shown = {key: "(secret)" if is_secret_of_broker(key) else value for key, value in set_to.items()}
    if output_format == "json":
        print_json({"of": where, "set": shown, "unset": list(unset), "dry_run": dry_run})
    would = "would be" if dry_run else "is now"
    for key, value in shown.items():
        echo_err(f"{where}: {key} {would} {value}")
    for key in unset:
        echo_err(f"{where}: {key} {would} at its default")


@config.command(short_help="Validate a broker's configuration file.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@format_option
def validate(file: Path, output_format: str) -> int:
    """Validate a broker's .properties FILE, key by key, without starting a broker.

    Exits with 1 if the broker would reject it.

    \b
    ottla config validate server.properties
    """

    keys, wrong = check_file(file)
    if output_format == "json":
        print_json({"file": str(file), "keys": keys, "problems": [{"key": k, "reason": r} for k, r in wrong]})
    elif wrong:
        print_table(["key", "what is wrong"], wrong)
    echo_err(f"{file}: {count(keys, 'key')}, {count(len(wrong), 'problem') if wrong else 'no problems'}")
    return 1 if wrong else 0


@config.command(short_help="List the profiles for --profile.")
@format_option
def profiles(output_format: str) -> None:
    """List the profiles for `--profile`, and the file they are in.

    \b
    ottla config profiles
    """
    path = profiles_file()
    found, default = read_profiles(path)
    if output_format == "json":
        shown = {name: _hidden(options) for name, options in found.items()}
        print_json({"file": str(path), "default": default, "profiles": shown})
        return
    echo_err(f"{path}{'' if path.exists() else ' does not exist yet'}")
    if found:
        rows = [
            [f"{name} (default)" if name == default else name, f"{key}={value}"]
            for name, options in found.items()
            for key, value in _hidden(options).items()
        ]
        print_table(["profile", "option"], rows)
    else:
        echo_err('write one:  [local]\n            bootstrap.servers = "127.0.0.1:9092"')


def _at_most_one(topic: str | None, broker: int | None) -> None:
    if topic is not None and broker is not None:
        raise click.UsageError("--topic and --broker exclude each other")


def _hidden(options: dict[str, str]) -> dict[str, str]:
    """Return the options without secrets."""
    return {key: "(secret)" if is_secret(key) else value for key, value in options.items()}


def _as_json(entry: ConfigEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name.lower(),
        "read_only": entry.is_read_only,
        "secret": entry.is_sensitive,
        "documentation": entry.documentation,
    }


def _print(entries: Sequence[ConfigEntry], docs: bool) -> None:
    rows = [
        [
            each.name,
            "(secret)" if each.is_sensitive else each.value or "",
            each.source.name.lower().replace("_", " "),
            *([each.documentation or ""] if docs else []),
        ]
        for each in entries
    ]
    print_table(["config", "value", "from", *(["meaning"] if docs else [])], rows)
