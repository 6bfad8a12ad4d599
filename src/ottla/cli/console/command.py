"""`ottla console`: run the web console."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.support import session
from ottla.cli.support.http_service import run_http_service
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import TYPED_PROFILE, bootstrap_option, listen_address
from ottla.cli.support.problems import need_package
from ottla.cli.support.profiles import (
    BOOTSTRAP_KEY,
    CONNECT_KEY,
    REGISTRY_KEY,
    find_profile,
    profiles_file,
    read_profiles,
)
from ottla.client.client_options import ClientOptions
from ottla.common.config.declaration import ConfigError

if TYPE_CHECKING:
    import ssl

    from ottla.console.access.oidc import OidcOptions
    from ottla.console.options import ClusterOptions, ConsoleOptions

DEFAULT_LISTEN = "127.0.0.1:8080"
DEFAULT_REGISTRY = "http://127.0.0.1:8081"
DEFAULT_CONNECT = "http://127.0.0.1:8083"
THIS_CLUSTER = "default"


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nTo begin:  ottla console serve\nand then:  open http://127.0.0.1:8080",
)
def console() -> None:
    """Inspect and operate clusters from a browser: Ottla's, and Apache Kafka's."""


@console.command()
@click.option(
    "--bootstrap", "named", metavar="HOST:PORT", hidden=True, help="The same as --bootstrap-server."
)
@click.option(
    "-l", "--listen", metavar="HOST:PORT", default=DEFAULT_LISTEN, show_default=True, help="Where to listen."
)
@click.option(
    "--cluster",
    "profiles",
    multiple=True,
    metavar="PROFILE",
    help="A cluster to show, by its profile; repeatable. `all`: every profile.",
)
@click.option(
    "--registry",
    metavar="URL",
    envvar="OTTLA_REGISTRY",
    default=DEFAULT_REGISTRY,
    show_default=True,
    help="The schema registry; empty: none.",
)
@click.option(
    "--connect", metavar="URL", default=DEFAULT_CONNECT, show_default=True, help="Kafka Connect; empty: none."
)
@click.option(
    "--login",
    type=click.Choice(["none", "broker", "oidc"]),
    help="Who may log in: anyone on loopback, the broker's users, or an OpenID provider's.  [default: none]",
)
@click.option("--oidc-issuer", metavar="URL", help="The OpenID provider.")
@click.option(
    "--oidc-client-id", metavar="ID", default="ottla-console", show_default=True, help="Its client."
)
@click.option("--oidc-client-secret", metavar="TEXT", envvar="OTTLA_OIDC_SECRET", help="The client's secret.")
@click.option(
    "--oidc-role-claim", metavar="NAME", default="roles", show_default=True, help="The claim with the role."
)
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="DIR", help="Keep samples and the audit log here."
)
@click.option(
    "--pipelines",
    type=click.Path(path_type=Path),
    metavar="DIR",
    envvar="OTTLA_PIPELINES",
    default=Path("ottla-pipelines"),
    show_default=True,
    help="The --root of pipelines, whose progress is shown.",
)
@click.option("--read-only", is_flag=True, help="Allow no changes.")
@click.option("--no-messages", is_flag=True, help="Do not show the content of messages.")
@click.option(
    "--mask",
    "masks",
    multiple=True,
    metavar="TOPIC:WHAT",
    help="Hide a part of messages: orders*:$.card, orders:key, orders:header.token; repeatable.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A host name that browsers may use; repeatable.",
)
@click.option(
    "--cert", type=click.Path(path_type=Path), metavar="FILE", help="Serve https with this PEM certificate."
)
@click.option("--key", type=click.Path(path_type=Path), metavar="FILE", help="The key of --cert.")
@click.option("-v", "--verbose", is_flag=True, help="Log every request.")
@bootstrap_option
@click.pass_context
def serve(ctx: click.Context, /, **given: object) -> int:
    """Run the web console until Ctrl-C or SIGTERM.

    Prints one line that begins with `ready` to standard output when it serves. It listens on loopback by
    default; on other addresses it needs --login broker or --login oidc.

    \b
    ottla console serve
    ottla console serve --cluster staging --cluster production
    ottla console serve -l 0.0.0.0:8080 --login broker --cert c.pem --key c.key
    """
    need_package("starlette", "console")
    from ottla.console.server import ConsoleServer

    options = _options(ctx, given)
    if given["verbose"]:
        logging.getLogger("ottla.http.access").setLevel(logging.DEBUG)
    return run_http_service("console", (options.host, options.port), lambda: ConsoleServer(options))


def _options(ctx: click.Context, given: dict[str, object]) -> ConsoleOptions:
    from ottla.console.messages.masking import Mask
    from ottla.console.options import ConsoleOptions

    host, port = listen_address("--listen", str(given["listen"]), DEFAULT_LISTEN)
    masks = given["masks"]
    assert isinstance(masks, tuple)
    try:
        rules = tuple(Mask.parse(each) for each in masks)
    except ValueError as error:
        raise click.UsageError(f"--mask: {error}") from None
    data = given["data"]
    options = ConsoleOptions(
        _clusters(ctx, given),
        host=host,
        port=port,
        login=str(given["login"] or "none"),
        oidc=_oidc(given),
        data=data if isinstance(data, Path) else None,
        pipelines=given["pipelines"] if isinstance(given["pipelines"], Path) else None,
        shows_messages=not given["no_messages"],
        is_read_only=bool(given["read_only"]),
        masks=rules,
        allowed_hosts=tuple(given["hosts"]),  # type: ignore[arg-type]
        tls=_tls(given["cert"], given["key"]),
    )
    if not options.is_loopback and options.login == "none":
        raise click.UsageError(
            f"--listen {given['listen']} can be reached from elsewhere: add --login broker or --login oidc"
        )
    return options


def _clusters(ctx: click.Context, given: dict[str, object]) -> tuple[ClusterOptions, ...]:
    from ottla.console.options import ClusterOptions

    registry, connect = str(given["registry"]) or None, str(given["connect"]) or None
    names = given["profiles"]
    assert isinstance(names, tuple)
    if not names:
        client = session.options_of(str(given["named"] or given["bootstrap"]))
        name = ctx.meta.get(TYPED_PROFILE)
        profile = {} if name is None else find_profile(name)
        registry, connect = profile.get(REGISTRY_KEY, registry), profile.get(CONNECT_KEY, connect)
        return (ClusterOptions(str(name or THIS_CLUSTER), client, registry, connect),)
    known, _ = read_profiles(profiles_file())
    chosen = list(known) if names == ("all",) else list(names)
    found = []
    for name in chosen:
        if name not in known:
            raise click.UsageError(f"--cluster: there is no profile {name!r} in {profiles_file()}")
        profile = dict(known[name])
        own_registry, own_connect = profile.pop(REGISTRY_KEY, None), profile.pop(CONNECT_KEY, None)
        bootstrap = profile.pop(BOOTSTRAP_KEY, "127.0.0.1:9092")
        try:
            client = ClientOptions.of(bootstrap_servers=bootstrap, **profile)
        except ConfigError as error:
            raise click.UsageError(f"profile {name}: {error}") from None
        found.append(ClusterOptions(name, client, own_registry, own_connect))
    return tuple(found)


def _oidc(given: dict[str, object]) -> OidcOptions | None:
    if given["login"] != "oidc":
        return None
    if not given["oidc_issuer"]:
        raise click.UsageError("--login oidc needs --oidc-issuer URL")
    from ottla.console.access.oidc import OidcOptions

    secret = given["oidc_client_secret"]
    return OidcOptions(
        str(given["oidc_issuer"]),
        str(given["oidc_client_id"]),
        None if secret is None else str(secret),
        role_claim=str(given["oidc_role_claim"]),
    )


def _tls(cert: object, key: object) -> ssl.SSLContext | None:
    if cert is None:
        return None
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(str(cert), None if key is None else str(key))
    except (OSError, ssl.SSLError) as error:
        raise click.UsageError(f"--cert {cert}: {error}") from None
    return context
