"""Options of commands that serve HTTP: TLS, who users are, what they may do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.support.output import echo_err
from ottla.cli.support.problems import Problem

if TYPE_CHECKING:
    from ottla.http.security import HttpSecurity

Command = TypeVar("Command", bound=Callable[..., Any])

AUTHENTICATION = ("basic", "bearer", "certificate")
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def http_security_options(command: Command) -> Command:
    """Add the options; `http_security` makes an HttpSecurity of their values."""
    for option in reversed(
        (
            click.option(
                "--tls-cert", metavar="FILE", type=FILE, help="Serve HTTPS with this certificate (PEM)."
            ),
            click.option("--tls-key", metavar="FILE", type=FILE, help="Its key, if it is in another file."),
            click.option(
                "--tls-client-ca",
                metavar="FILE",
                type=FILE,
                help="Who signs certificates of clients (PEM).",
            ),
            click.option(
                "--auth",
                multiple=True,
                type=click.Choice(AUTHENTICATION),
                help="How users prove who they are; repeatable. The brokers verify passwords and tokens.",
            ),
            click.option(
                "--auth-mechanism",
                metavar="NAME",
                type=click.Choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
                help="The SASL mechanism of passwords.  [default: that of our own connections]",
            ),
            click.option(
                "--auth-claim",
                metavar="NAME",
                default="sub",
                show_default=True,
                help="The claim of a token with the user name: the brokers' sasl.oauthbearer.sub.claim.name.",
            ),
            click.option("--acls", is_flag=True, help="Let the brokers' ACLs decide who may do what."),
            click.option(
                "--super-user",
                multiple=True,
                metavar="USER",
                help="May do everything; repeatable.",
            ),
        )
    ):
        command = option(command)
    return command


def http_security(
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    auth: tuple[str, ...],
    auth_mechanism: str | None,
    auth_claim: str,
    acls: bool,
    super_user: tuple[str, ...],
) -> HttpSecurity:
    """Return what the options say; raise a usage error if they do not fit together."""
    from ottla.http.security import HttpSecurity, TlsFiles, client_context, server_context

    if tls_cert is None and (tls_key or tls_client_ca):
        raise click.UsageError("--tls-key and --tls-client-ca need --tls-cert")
    if "certificate" in auth and tls_client_ca is None:
        raise click.UsageError("--auth certificate needs --tls-client-ca")
    if acls and not auth:
        raise click.UsageError("--acls needs --auth: without it every user is User:ANONYMOUS")
    tls = peer = None
    if tls_cert is not None:
        only_certificates = set(auth) == {"certificate"}
        files = TlsFiles(
            str(tls_cert),
            None if tls_key is None else str(tls_key),
            client_ca=None if tls_client_ca is None else str(tls_client_ca),
            requires_client_certificate=only_certificates,
        )
        try:
            tls = server_context(files)
            peer = client_context(str(tls_client_ca or tls_cert), files)
        except (OSError, ValueError) as error:
            raise Problem(f"the certificate or its key cannot be used: {error}") from None
    if tls is None and auth:
        echo_err("warning: without --tls-cert, passwords and tokens can be read on the network")
    users = tuple(each if ":" in each else f"User:{each}" for each in super_user)
    return HttpSecurity(tls, peer, auth, auth_mechanism, auth_claim, acls, users)
