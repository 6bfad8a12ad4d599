"""`ottla token`: create, list, renew and expire delegation tokens."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import click

from ottla.cli.support import session
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import bootstrap_option, format_option
from ottla.cli.support.output import echo_err, print_json, print_table
from ottla.cli.support.problem_kinds import BAD_CONFIG
from ottla.cli.support.problems import Problem
from ottla.client.admin.delegation_tokens import DelegationTokenInfo, DelegationTokens
from ottla.client.cluster import Cluster
from ottla.security.principal import USER

JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_DURATION = re.compile(r"(\d+)([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def token() -> None:
    """Create, list, renew and expire delegation tokens.

    \b
    ottla token create
    """


def _duration(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    """Turn `12h` into milliseconds (a click callback)."""
    if text is None:
        return None
    matched = _DURATION.fullmatch(text.strip())
    if matched is None:
        raise click.BadParameter(f"{text!r} is not a time like 30m, 12h or 7d", ctx, param)
    return int(matched[1]) * _UNIT_MS[matched[2]]


@token.command(short_help="Create a token.")
@click.option("--owner", metavar="NAME", help="The user that it stands for.  [default: yourself]")
@click.option("--renewer", "renewers", multiple=True, metavar="NAME", help="Who may renew it; repeatable.")
@click.option(
    "--max-lifetime", metavar="TIME", callback=_duration,
    help="How long it can be renewed: 12h, 7d.  [default: of the broker]",
)  # fmt: skip
@format_option
@bootstrap_option
def create(
    owner: str | None, renewers: tuple[str, ...], max_lifetime: int | None, output_format: str, bootstrap: str
) -> None:
    """Create a token: a user name and a password for workers, without the user's own password.

    The password is printed once, to standard output, as options of a client: those of ottla, Java and Spark
    take the last line.

    \b
    ottla token create --max-lifetime 12h
    ottla token create --owner etl --renewer scheduler --format json
    """
    made = session.run(
        bootstrap,
        lambda cluster: DelegationTokens(cluster).create(
            None if owner is None else _principal(owner),
            [_principal(each) for each in renewers],
            max_lifetime,
        ),
    )
    if output_format == "json":
        print_json({**_as_json(made), "password": made.password})
        return
    echo_err(f"token {made.token_id} of {made.owner}, valid until {_time(made.expires_at_ms)}")
    click.echo(f"sasl.username={made.token_id}\nsasl.password={made.password}")
    click.echo(
        f'sasl.jaas.config={JAAS} username="{made.token_id}" password="{made.password}" tokenauth="true";'
    )


@token.command("list")
@click.option("--owner", "owners", multiple=True, metavar="NAME", help="Of this user; repeatable.")
@format_option
@bootstrap_option
def list_(owners: tuple[str, ...], output_format: str, bootstrap: str) -> None:
    """List the tokens that you may see; never their passwords.

    \b
    ottla token list
    """
    wanted = [_principal(each) for each in owners] or None
    found = session.run(bootstrap, lambda cluster: DelegationTokens(cluster).describe(wanted))
    if output_format == "json":
        print_json([_as_json(each) for each in found])
    elif found:
        rows = [
            [
                each.token_id,
                each.owner,
                ", ".join(each.renewers) or "-",
                _time(each.expires_at_ms),
                _time(each.max_expires_at_ms),
            ]
            for each in found
        ]
        print_table(["token", "owner", "renewers", "valid until", "at most until"], rows)
    else:
        echo_err("no tokens; create one with: ottla token create")


@token.command(short_help="Extend the validity of a token.")
@click.argument("token_id", metavar="TOKEN")
@click.option("--for", "period", metavar="TIME", callback=_duration, help="For 12h, 7d, ...")
@format_option
@bootstrap_option
def renew(token_id: str, period: int | None, output_format: str, bootstrap: str) -> None:
    """Extend the validity of a token, at most up to its maximum lifetime.

    \b
    ottla token renew dG9rZW4taWQ --for 12h
    """

    async def command(cluster: Cluster) -> int:
        tokens = DelegationTokens(cluster)
        return await tokens.renew(await _hmac(tokens, token_id), period)

    _tell(token_id, session.run(bootstrap, command), output_format)


@token.command()
@click.argument("token_id", metavar="TOKEN")
@click.option("--in", "period", metavar="TIME", callback=_duration, help="In 30m, 12h, ...  [default: now]")
@format_option
@bootstrap_option
def expire(token_id: str, period: int | None, output_format: str, bootstrap: str) -> None:
    """End the validity of a token now, or after a time.

    \b
    ottla token expire dG9rZW4taWQ
    """

    async def command(cluster: Cluster) -> int:
        tokens = DelegationTokens(cluster)
        return await tokens.expire(await _hmac(tokens, token_id), period)

    _tell(token_id, session.run(bootstrap, command), output_format)


async def _hmac(tokens: DelegationTokens, token_id: str) -> bytes:
    for each in await tokens.describe(None):
        if each.token_id == token_id:
            return each.hmac
    raise Problem(
        f"there is no token {token_id!r} that you may see", "see: ottla token list", kind=BAD_CONFIG
    )


def _tell(token_id: str, expires_at_ms: int, output_format: str) -> None:
    if output_format == "json":
        print_json({"token_id": token_id, "expires_at_ms": expires_at_ms})
    echo_err(f"{token_id}: valid until {_time(expires_at_ms)}")


def _as_json(each: DelegationTokenInfo) -> dict[str, Any]:
    return {
        "token_id": each.token_id,
        "owner": each.owner,
        "renewers": list(each.renewers),
        "issued_at_ms": each.issued_at_ms,
        "expires_at_ms": each.expires_at_ms,
        "max_expires_at_ms": each.max_expires_at_ms,
    }


def _time(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _principal(name: str) -> str:
    return name if ":" in name else USER + name
