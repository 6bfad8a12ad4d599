"""`ottla user`: list, create and delete SCRAM users, and set their passwords."""

from __future__ import annotations

import sys

import click

from ottla.cli.support import session
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import bootstrap_option, confirm, format_option, is_terminal
from ottla.cli.support.output import echo_err, print_json, print_table
from ottla.cli.support.problem_kinds import BAD_CONFIG
from ottla.cli.support.problems import Problem
from ottla.client.admin.scram_users import (
    ITERATIONS,
    describe_scram_users,
    remove_scram_user,
    set_scram_password,
)
from ottla.client.cluster import Cluster
from ottla.protocol.errors import ResourceNotFound

MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")

_mechanism_option = click.option(
    "-m",
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS, case_sensitive=False),
    multiple=True,
    help="For this mechanism; repeatable.",
)
_password_option = click.option(
    "--password", metavar="TEXT", help="The password.  [default: ask, or read one line from standard input]"
)
_iterations_option = click.option(
    "--iterations",
    type=click.IntRange(4096, 16384),
    default=ITERATIONS,
    show_default=True,
    metavar="N",
    help="How often the password is hashed.",
)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def user() -> None:
    """List, create and delete SCRAM users; set their passwords.

    \b
    ottla user create alice
    """


@user.command("list")
@format_option
@bootstrap_option
def list_(output_format: str, bootstrap: str) -> None:
    """List the users with their mechanisms.

    \b
    ottla user list
    """
    found = session.run(bootstrap, lambda cluster: describe_scram_users(cluster, ()))
    if output_format == "json":
        print_json([{"name": name, "mechanisms": found[name]} for name in sorted(found)])
    elif found:
        print_table(
            ["user", "mechanisms"], [[name, ", ".join(sorted(found[name]))] for name in sorted(found)]
        )
    else:
        echo_err("no users; create one with: ottla user create NAME")


@user.command(short_help="Create a user.")
@click.argument("name", metavar="NAME")
@_password_option
@_mechanism_option
@_iterations_option
@format_option
@bootstrap_option
def create(
    name: str,
    password: str | None,
    mechanisms: tuple[str, ...],
    iterations: int,
    output_format: str,
    bootstrap: str,
) -> None:
    """Create the user NAME. The password itself is not sent: only what SCRAM derives from it.

    \b
    ottla user create alice
    ottla user create etl --mechanism SCRAM-SHA-256 --mechanism SCRAM-SHA-512
    openssl rand -base64 24 | tee etl.password | ottla user create etl
    """
    chosen = mechanisms or MECHANISMS[:1]
    secret = _secret(password)

    async def command(cluster: Cluster) -> None:
        if name in await describe_scram_users(cluster, ()):
            raise Problem(
                f"the user {name} exists",
                f"another password:  ottla user set-password {name}",
                kind=BAD_CONFIG,
            )
        for mechanism in chosen:
            await set_scram_password(cluster, name, secret, mechanism, iterations)

    session.run(bootstrap, command)
    if output_format == "json":
        print_json({"name": name, "mechanisms": list(chosen)})
    echo_err(f"{name}: created, with {', '.join(chosen)}")


@user.command(short_help="Set another password for a user.")
@click.argument("name", metavar="NAME")
@_password_option
@_mechanism_option
@_iterations_option
@format_option
@bootstrap_option
def set_password(
    name: str,
    password: str | None,
    mechanisms: tuple[str, ...],
    iterations: int,
    output_format: str,
    bootstrap: str,
) -> None:
    """Set another password for the user NAME, for all of its mechanisms.

    Open connections stay open; with connections.max.reauth.ms they need it when they authenticate again.

    \b
    ottla user set-password alice
    """
    secret = _secret(password)

    async def command(cluster: Cluster) -> list[str]:
        known = (await _existing(cluster, name)) if not mechanisms else dict.fromkeys(mechanisms, 0)
        for mechanism in known:
            await set_scram_password(cluster, name, secret, mechanism, iterations)
        return sorted(known)

    changed = session.run(bootstrap, command)
    if output_format == "json":
        print_json({"name": name, "mechanisms": changed})
    echo_err(f"{name}: has another password for {', '.join(changed)}")


@user.command(short_help="Delete a user.")
@click.argument("name", metavar="NAME")
@_mechanism_option
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@format_option
@bootstrap_option
def delete(
    name: str, mechanisms: tuple[str, ...], dry_run: bool, yes: bool, output_format: str, bootstrap: str
) -> None:
    """Delete the user NAME, or its credential for a mechanism. Asks for confirmation on a terminal.

    Its ACLs and quotas stay.

    \b
    ottla user delete alice --dry-run
    """
    if is_terminal(sys.stdin) and not dry_run:
        confirm(f"Delete the user {name}?", yes)

    async def command(cluster: Cluster) -> list[str]:
        known = await _existing(cluster, name)
        removed = [each for each in known if not mechanisms or each in mechanisms]
        for mechanism in removed if not dry_run else ():
            await remove_scram_user(cluster, name, mechanism)
        return removed

    removed = session.run(bootstrap, command)
    if output_format == "json":
        print_json({"name": name, "removed": removed, "dry_run": dry_run})
    verb = "would be deleted" if dry_run else "deleted"
    echo_err(f"{name}: {', '.join(removed)} {verb}" if removed else f"{name}: has no such credential")


async def _existing(cluster: Cluster, name: str) -> dict[str, int]:
    try:
        return (await describe_scram_users(cluster, [name]))[name]
    except ResourceNotFound:
        raise Problem(f"there is no user {name!r}", "see: ottla user list", kind=BAD_CONFIG) from None


def _secret(given: str | None) -> str:
    """Return the password: as given, asked for on a terminal, or the first line of standard input."""
    if given is not None:
        return given
    if is_terminal(sys.stdin):
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    line = sys.stdin.readline().rstrip("\n")
    if not line:
        raise click.UsageError("there is no password on standard input; give --password, or a terminal")
    return line
