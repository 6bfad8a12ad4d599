"""`ottla quota`: list, set and remove quotas of users, client ids and addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from ottla.cli.support import session
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import bootstrap_option, format_option
from ottla.cli.support.output import count, echo_err, print_json, print_table
from ottla.cli.support.problem_kinds import BAD_CONFIG
from ottla.cli.support.problems import Problem
from ottla.client.admin.quotas import EntityQuotas, alter_quotas, list_quotas
from ottla.common.near_names import or_nearest
from ottla.protocol.errors import InvalidRequest
from ottla.security.quota_entities import CLIENT_ID, IP, QUOTA_KEYS, USER, entity_text

Entity = dict[str, str | None]

_AMOUNT = re.compile(r"([0-9_]+(?:\.[0-9]+)?)\s*(|[kMG]B?|[KMG]iB)")
_UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def quota() -> None:
    """List, set and remove quotas of users, client ids and addresses.

    \b
    ottla quota list
    """


def _entity_options(command: click.decorators.FC) -> click.decorators.FC:
    """Add the options that name an entity; with several, the entity has all of them."""
    for option in (
        click.option("--ip-defaults", is_flag=True, help="Every address without a quota of its own."),
        click.option("--ip", metavar="ADDRESS", help="This address."),
        click.option("--client-defaults", is_flag=True, help="Every client id without a quota of its own."),
        click.option("--client-id", metavar="NAME", help="This client id."),
        click.option("--user-defaults", is_flag=True, help="Every user without a quota of its own."),
        click.option("--user", metavar="NAME", help="This user."),
    ):
        command = option(command)
    return command


def _entity(chosen: Mapping[str, Any]) -> Entity:
    entity: Entity = {}
    for kind, name, defaults in (
        (USER, "user", "user_defaults"),
        (CLIENT_ID, "client_id", "client_defaults"),
        (IP, "ip", "ip_defaults"),
    ):
        if chosen[name] is not None and chosen[defaults]:
            raise click.UsageError(f"--{kind} and --{defaults.replace('_', '-')} exclude each other")
        if chosen[name] is not None or chosen[defaults]:
            entity[kind] = chosen[name]
    if IP in entity and len(entity) > 1:
        raise click.UsageError("a quota of an address has neither a user nor a client id")
    return entity


def _needed(chosen: Mapping[str, Any]) -> Entity:
    entity = _entity(chosen)
    if not entity:
        raise click.UsageError("whose quota? Give --user, --client-id or --ip")
    return entity


@quota.command("list")
@_entity_options
@format_option
@bootstrap_option
def list_(output_format: str, bootstrap: str, **chosen: Any) -> None:
    """List quotas: all, or those of a user, a client id or an address.

    \b
    ottla quota list
    ottla quota list --user alice
    """
    entity = _entity(chosen)
    found = session.run(bootstrap, lambda cluster: list_quotas(cluster, entity, (), strict=False))
    found.sort(key=lambda each: entity_text(each.entity.items()))
    if output_format == "json":
        print_json([{"entity": dict(each.entity), "quotas": dict(each.quotas)} for each in found])
    elif found:
        print_table(["entity", "quota", "value"], [row for each in found for row in _rows(each)])
    else:
        echo_err("no quotas; set one with: ottla quota set --user NAME producer_byte_rate=1MB")


@quota.command("set", short_help="Set quotas of a user, a client id or an address.")
@click.argument("values", metavar="KEY=VALUE...", nargs=-1, required=True)
@_entity_options
@click.option("--dry-run", is_flag=True, help="Only validate.")
@format_option
@bootstrap_option
def set_(values: tuple[str, ...], dry_run: bool, output_format: str, bootstrap: str, **chosen: Any) -> None:
    """Set quotas of a user, a client id, both together, or an address.

    Rates are per second, and on each broker. Bytes may have a unit: 10MB, 512KiB.

    \b
    ottla quota set --user alice producer_byte_rate=10MB consumer_byte_rate=20MB
    ottla quota set --client-defaults request_percentage=50
    ottla quota set --user alice --client-id reports consumer_byte_rate=1MB
    ottla quota set --ip-defaults connection_creation_rate=20
    """
    entity, quotas = _needed(chosen), _parse(values)
    _alter(bootstrap, entity, quotas, (), dry_run)
    if output_format == "json":
        print_json({"entity": entity, "set": quotas, "dry_run": dry_run})
    verb = "can be set to" if dry_run else "is now"
    for key, value in quotas.items():
        echo_err(f"{entity_text(entity.items())}: {key} {verb} {_number(value)}")


@quota.command(short_help="Remove quotas of a user, a client id or an address.")
@click.argument("keys", metavar="[KEY...]", nargs=-1)
@_entity_options
@format_option
@bootstrap_option
def remove(keys: tuple[str, ...], output_format: str, bootstrap: str, **chosen: Any) -> None:
    """Remove quotas of a user, a client id, both together, or an address: these, or all of them.

    \b
    ottla quota remove --user alice producer_byte_rate
    ottla quota remove --ip-defaults
    """
    entity = _needed(chosen)
    for key in keys:
        _check_key(key)
    found = session.run(bootstrap, lambda cluster: list_quotas(cluster, entity, (), strict=True))
    held = [key for each in found for key in each.quotas]
    removed = [key for key in held if not keys or key in keys]
    if removed:
        _alter(bootstrap, entity, {}, removed, dry_run=False)
    if output_format == "json":
        print_json({"entity": entity, "removed": removed})
    echo_err(f"{entity_text(entity.items())}: {count(len(removed), 'quota')} removed")


def _alter(
    bootstrap: str, entity: Entity, set_to: dict[str, float], unset: list[str] | tuple[()], dry_run: bool
) -> None:
    try:
        session.run(
            bootstrap, lambda cluster: alter_quotas(cluster, entity, set_to, unset, validate_only=dry_run)
        )
    except InvalidRequest as error:
        raise Problem(str(error), kind=BAD_CONFIG) from None


def _parse(texts: tuple[str, ...]) -> dict[str, float]:
    quotas: dict[str, float] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        matched = _AMOUNT.fullmatch(value.strip())
        if not equals or matched is None:
            raise click.UsageError(f"{text!r} is not KEY=NUMBER")
        _check_key(key)
        if key in quotas:
            raise click.UsageError(f"{key} is given twice")
        quotas[key] = float(matched[1]) * _UNITS[matched[2].removesuffix("B")]
    return quotas


def _check_key(key: str) -> None:
    if key not in QUOTA_KEYS:
        hint = or_nearest(key, QUOTA_KEYS) or f"; there are {', '.join(QUOTA_KEYS)}"
        raise click.UsageError(f"there is no quota {key!r}{hint}")


def _rows(found: EntityQuotas) -> list[list[str]]:
    return [
        [entity_text(found.entity.items()), key, _number(value)]
        for key, value in sorted(found.quotas.items())
    ]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
