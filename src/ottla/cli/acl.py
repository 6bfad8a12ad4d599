"""`ottla acl`: list, create and delete ACLs, and explain what they allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ottla.cli.support import session
from ottla.cli.support.completing import group_names, topic_names
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import bootstrap_option, confirm, format_option
from ottla.cli.support.output import count, echo_err, print_json, print_table
from ottla.cli.support.problem_kinds import BAD_CONFIG
from ottla.cli.support.problems import Problem
from ottla.client.admin.acls import Acl, AclQuery, Acls
from ottla.client.admin.config_admin import ConfigAdmin
from ottla.client.cluster import Cluster
from ottla.protocol.errors import KafkaError
from ottla.security.acl_explanation import Explanation, explain
from ottla.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.security.principal import USER

COLUMNS = ("principal", "host", "permission", "operation", "resource", "name", "pattern")
OPERATIONS = [each.name.lower() for each in Operation if each > Operation.ANY]
PRODUCER = {"topic": ("write", "describe", "create"), "transactional_id": ("write", "describe")}
"""What a producer does, by the type of the resource; as for kafka-acls --producer."""
CONSUMER = {"topic": ("read", "describe"), "group": ("read",)}

Resources = list[tuple[str, str]]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def acl() -> None:
    """List, create and delete ACLs; explain what they allow.

    \b
    ottla acl list
    """


def _resource_options(command: click.decorators.FC) -> click.decorators.FC:
    for option in (
        click.option("--user-principal", "users", multiple=True, metavar="NAME", help="Tokens of this user."),
        click.option("--token", "tokens", multiple=True, metavar="ID", help="This delegation token."),
        click.option("--transactional-id", "transactional_ids", multiple=True, metavar="ID", help="This id."),
        click.option("--cluster", is_flag=True, help="The cluster itself."),
        click.option(
            "-g", "--group", "groups", multiple=True, metavar="NAME", shell_complete=group_names,
            help="This consumer group.",
        ),
        click.option(
            "-t", "--topic", "topics", multiple=True, metavar="NAME", shell_complete=topic_names,
            help="This topic; * for all; repeatable, as the others.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def _resources(chosen: dict[str, Any]) -> Resources:
    found = [(kind, name) for kind, names in (
        ("topic", chosen["topics"]),
        ("group", chosen["groups"]),
        ("transactional_id", chosen["transactional_ids"]),
        ("delegation_token", chosen["tokens"]),
        ("user", [_principal(each) for each in chosen["users"]]),
    ) for name in names]  # fmt: skip
    return [*found, ("cluster", CLUSTER_NAME)] if chosen["cluster"] else found


_operation_option = click.option(
    "-o", "--operation", "operations", multiple=True, metavar="OPERATION",
    type=click.Choice(OPERATIONS, case_sensitive=False),
    help="read, write, create, delete, alter, describe, all, ...; repeatable.",
)  # fmt: skip
_principal_option = click.option(
    "-p", "--principal", metavar="NAME", help="A user: alice or User:alice; * for everyone."
)
_host_option = click.option("--host", metavar="ADDRESS", help="From this address.  [default: any]")
_deny_option = click.option("--deny", is_flag=True, help="Deny instead of allow.")
_prefixed_option = click.option("--prefixed", is_flag=True, help="NAME is a prefix of names.")


@acl.command("list")
@_principal_option
@_operation_option
@_resource_options
@format_option
@bootstrap_option
def list_(
    principal: str | None, operations: tuple[str, ...], output_format: str, bootstrap: str, **chosen: Any
) -> None:
    """List ACLs: all, or those for a user, an operation, or a resource.

    A resource finds every ACL that applies to it, also prefixed ones and *.

    \b
    ottla acl list
    ottla acl list --principal alice
    ottla acl list --topic orders
    """
    queries = _queries(principal, operations, _resources(chosen), "match")
    found = session.run(bootstrap, lambda cluster: _found(cluster, queries))
    if output_format == "json":
        print_json([_as_json(each) for each in found])
    elif found:
        print_table(COLUMNS, [_row(each) for each in found])
    else:
        echo_err("no ACLs; create one with: ottla acl create --principal NAME --operation read --topic NAME")


@acl.command()
@_principal_option
@_operation_option
@_resource_options
@_prefixed_option
@_host_option
@_deny_option
@click.option("--producer", is_flag=True, help="All that a producer needs on --topic, --transactional-id.")
@click.option("--consumer", is_flag=True, help="All that a consumer needs on --topic and --group.")
@format_option
@bootstrap_option
def create(
    principal: str | None,
    operations: tuple[str, ...],
    prefixed: bool,
    host: str | None,
    deny: bool,
    producer: bool,
    consumer: bool,
    output_format: str,
    bootstrap: str,
    **chosen: Any,
) -> None:
    """Allow a user to do something; with --deny, forbid it.

    \b
    ottla acl create --principal alice --operation read --topic orders
    ottla acl create -p etl --producer --topic sales- --prefixed
    ottla acl create -p reports --consumer --topic orders --group reports
    ottla acl create -p ops --operation all --cluster
    ottla acl create -p bob -o write --topic '*' --deny
    """
    if principal is None:
        raise click.UsageError("for whom? Give --principal")
    resources = _resources(chosen)
    wanted = [(kind, name, each) for kind, name in resources for each in operations]
    for is_wanted, needs in ((producer, PRODUCER), (consumer, CONSUMER)):
        if is_wanted:
            wanted += [(kind, name, each) for kind, name in resources for each in needs.get(kind, ())]
    if not wanted:
        raise click.UsageError("allow what? Give --operation (or --producer, --consumer) and a resource")
    acls = [
        Acl(
            _principal(principal),
            operation,
            kind,
            name,
            "prefixed" if prefixed and kind != "cluster" and name != "*" else "literal",
            host or "*",
            "deny" if deny else "allow",
        )
        for kind, name, operation in dict.fromkeys(wanted)
    ]
    errors = session.run(bootstrap, lambda cluster: Acls(cluster).create(acls))
    _raise_first(acls, errors)
    if output_format == "json":
        print_json([_as_json(each) for each in acls])
    for each in acls:
        echo_err(f"created: {_text(each)}")


@acl.command()
@_principal_option
@_operation_option
@_resource_options
@_prefixed_option
@_host_option
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@format_option
@bootstrap_option
def delete(
    principal: str | None,
    operations: tuple[str, ...],
    prefixed: bool,
    host: str | None,
    dry_run: bool,
    yes: bool,
    output_format: str,
    bootstrap: str,
    **chosen: Any,
) -> None:
    """Delete the ACLs that have all of these values. Asks for confirmation.

    \b
    ottla acl delete --principal alice --topic orders
    ottla acl delete --topic sales- --prefixed
    """
    resources = _resources(chosen)
    if principal is None and not resources and not operations:
        raise click.UsageError("which ACLs? Give --principal, --operation or a resource")
    queries = _queries(principal, operations, resources, "prefixed" if prefixed else "literal")
    if host is not None:
        for query in queries:
            query["host"] = host
    found = session.run(bootstrap, lambda cluster: _found(cluster, queries))
    if found and not dry_run:
        for each in found:
            echo_err(_text(each))
        confirm(f"Delete {count(len(found), 'ACL')}?", yes)
        session.run(bootstrap, lambda cluster: _delete(cluster, found))
    if output_format == "json":
        print_json([{**_as_json(each), "deleted": not dry_run} for each in found])
    elif dry_run:
        for each in found:
            echo_err(f"would be deleted: {_text(each)}")
    echo_err(f"{count(len(found), 'ACL')} {'found' if dry_run else 'deleted'}")


@acl.command(short_help="Explain why a user may or may not do something.")
@_principal_option
@_operation_option
@_resource_options
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", help="From this address.  [default: 127.0.0.1]"
)
@format_option
@bootstrap_option
def test(
    principal: str | None,
    operations: tuple[str, ...],
    host: str,
    output_format: str,
    bootstrap: str,
    **chosen: Any,
) -> None:
    """Explain whether a user may do something, and which ACL decides. Exits with 1 if it is denied.

    \b
    ottla acl test --principal alice --operation write --topic orders
    """
    resources = _resources(chosen)
    if principal is None or not operations or not resources:
        raise click.UsageError("test what? Give --principal, --operation and a resource")
    who = _principal(principal)
    asked = [(kind, name, each) for kind, name in resources for each in operations]

    async def command(cluster: Cluster) -> list[Explanation]:
        acls = [_binding(each) for each in await Acls(cluster).describe()]
        super_users, allow_if_no_acl = await _rules(cluster)
        return [
            explain(
                acls,
                who,
                host,
                Operation[operation.upper()],
                ResourceType[kind.upper()],
                name,
                super_users=super_users,
                allow_if_no_acl=allow_if_no_acl,
            )
            for kind, name, operation in asked
        ]

    decided = list(zip(asked, session.run(bootstrap, command), strict=True))
    if output_format == "json":
        print_json([_explained(*each) for each in decided])
    for (kind, name, operation), explanation in decided:
        verdict = "allowed" if explanation.is_allowed else "denied"
        styled = click.style(verdict, fg="green" if explanation.is_allowed else "red")
        echo_err(f"{styled}: {who} {operation} {_resource_text(kind, name)}: {explanation.reason}")
        if explanation.acl is not None:
            echo_err(f"  {_text(_acl(explanation.acl))}")
    if not all(explanation.is_allowed for _, explanation in decided):
        raise click.exceptions.Exit(1)


async def _rules(cluster: Cluster) -> tuple[frozenset[str], bool]:
    """Return the super users and whether everyone may use resources without ACLs."""
    node_id = min(cluster.brokers, default=None)
    values = {each.name: each.value or "" for each in await ConfigAdmin(cluster).broker_configs(node_id)}
    if not values.get("authorizer.class.name"):
        raise Problem(
            "the cluster has no authorizer: everything is allowed to everyone",
            "set authorizer.class.name on every broker:  docs/security-acls.md",
            kind=BAD_CONFIG,
        )
    super_users = frozenset(filter(None, map(str.strip, values.get("super.users", "").split(";"))))
    return super_users, values.get("allow.everyone.if.no.acl.found") == "true"


async def _found(cluster: Cluster, queries: Sequence[AclQuery]) -> list[Acl]:
    found = [each for query in queries for each in await Acls(cluster).describe(**query)]
    return sorted(dict.fromkeys(found), key=_row)


async def _delete(cluster: Cluster, acls: Sequence[Acl]) -> None:
    for each in acls:
        await Acls(cluster).delete(
            principal=each.principal,
            operation=each.operation,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            pattern=each.pattern,
            host=each.host,
            permission=each.permission,
        )


def _queries(
    principal: str | None, operations: Sequence[str], resources: Resources, pattern: str
) -> list[AclQuery]:
    base = AclQuery()
    if principal is not None:
        base["principal"] = _principal(principal)
    queries: list[AclQuery] = [base]
    if resources:
        queries = [
            {**each, "resource_type": kind, "resource_name": name, "pattern": pattern}
            for each in queries
            for kind, name in resources
        ]
    if operations:
        queries = [{**each, "operation": operation} for each in queries for operation in operations]
    return queries


def _raise_first(acls: Sequence[Acl], errors: Sequence[KafkaError | None]) -> None:
    for each, error in zip(acls, errors, strict=True):
        if error is not None:
            raise Problem(f"{_text(each)}: {error}", kind=BAD_CONFIG)


def _principal(name: str) -> str:
    return name if ":" in name else USER + name


def _binding(each: Acl) -> AclBinding:
    return AclBinding(
        ResourceType[each.resource_type.upper()],
        each.resource_name,
        PatternType[each.pattern.upper()],
        each.principal,
        each.host,
        Operation[each.operation.upper()],
        Permission[each.permission.upper()],
    )


def _acl(binding: AclBinding) -> Acl:
    return Acl(
        binding.principal,
        Operation(binding.operation).name.lower(),
        ResourceType(binding.resource_type).name.lower(),
        binding.resource_name,
        PatternType(binding.pattern_type).name.lower(),
        binding.host,
        Permission(binding.permission).name.lower(),
    )


def _row(each: Acl) -> list[str]:
    resource = each.resource_type.replace("_", " ")
    what = [each.permission, each.operation, resource, each.resource_name, each.pattern]
    return [each.principal, each.host, *what]


def _as_json(each: Acl) -> dict[str, Any]:
    return {
        "principal": each.principal,
        "host": each.host,
        "permission": each.permission,
        "operation": each.operation,
        "resource_type": each.resource_type,
        "resource_name": each.resource_name,
        "pattern": each.pattern,
    }


def _explained(asked: tuple[str, str, str], explanation: Explanation) -> dict[str, Any]:
    kind, name, operation = asked
    return {
        "resource_type": kind,
        "resource_name": name,
        "operation": operation,
        "allowed": explanation.is_allowed,
        "reason": explanation.reason,
        "acl": None if explanation.acl is None else _as_json(_acl(explanation.acl)),
    }


def _resource_text(kind: str, name: str) -> str:
    return "the cluster" if kind == "cluster" else f"{kind.replace('_', ' ')} {name}"


def _text(each: Acl) -> str:
    pattern = " (prefix)" if each.pattern == "prefixed" else ""
    resource = _resource_text(each.resource_type, each.resource_name)
    where = "" if each.host == "*" else f" from {each.host}"
    return f"{each.permission} {each.principal} {each.operation} {resource}{pattern}{where}"
