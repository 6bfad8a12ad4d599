"""`ottla registry`: run a schema registry, and look at what is in one."""

from __future__ import annotations

import logging
from typing import Any

import click

from ottla.cli.registry.copy import export_command, import_command
from ottla.cli.registry.exporters import exporter
from ottla.cli.registry.schemas import compat, schema, subject
from ottla.cli.registry.settings import config, mode
from ottla.cli.support import session
from ottla.cli.support.http_options import http_security, http_security_options
from ottla.cli.support.http_service import run_http_service
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import bootstrap_option, client_settings, listen_address

DEFAULT_LISTEN = "127.0.0.1:8081"


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nTo begin:  ottla registry serve\nand then:  ottla registry schema register orders-value "
    "--file order.avsc",
)
def registry() -> None:
    """Run a schema registry with Confluent's REST API; look at schemas and change them."""


for _command in (subject, schema, compat, config, mode, exporter, import_command, export_command):
    registry.add_command(_command)


@registry.command()
@click.option(
    "--bootstrap", "named", metavar="HOST:PORT", hidden=True, help="The same as --bootstrap-server."
)
@click.option(
    "-l", "--listen", metavar="HOST:PORT", default=DEFAULT_LISTEN, show_default=True, help="Where to listen."
)
@click.option(
    "--advertise",
    metavar="URL",
    help="Where this registry is reached: by its other processes beside Apache Kafka, or behind a proxy."
    "  [default: --listen]",
)
@click.option("--topic", metavar="NAME", default="_schemas", show_default=True, help="Where the schemas are.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    metavar="N",
    default=2,
    show_default=True,
    help="Processes that parse and compare schemas.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log every request.")
@http_security_options
@bootstrap_option
def serve(
    named: str | None,
    listen: str,
    advertise: str | None,
    topic: str,
    workers: int,
    verbose: bool,
    bootstrap: str,
    **security: Any,
) -> int:
    """Run a schema registry until Ctrl-C or SIGTERM.

    Prints one line that begins with `ready` to standard output when it serves. Any number of them may run for
    one cluster. Beside Apache Kafka one of them is elected, and the others forward changes to it.

    \b
    ottla registry serve
    ottla registry serve --bootstrap broker1:9092 --listen 0.0.0.0:8081
    ottla registry serve --tls-cert server.pem --auth basic --acls
    """
    from ottla.registry.kafka_topic import WrongTopic
    from ottla.registry.server import RegistryOptions, RegistryServer

    host, port = listen_address("--listen", listen, DEFAULT_LISTEN)
    secured = http_security(**security)
    options = RegistryOptions(
        session.options_of(named or bootstrap, more=client_settings()),
        host=host,
        port=port,
        topic=topic,
        workers=workers,
        advertised_url=advertise,
        tls=secured.tls,
        peer_tls=secured.peer_tls,
        authentication=secured.authentication,
        user_mechanism=secured.user_mechanism,
        user_claim=secured.user_claim,
        uses_acls=secured.uses_acls,
        super_users=secured.super_users,
    )
    if verbose:
        logging.getLogger("ottla.http.access").setLevel(logging.DEBUG)
    return run_http_service(
        "schema registry", (host, port), lambda: RegistryServer(options), refusals=(WrongTopic,)
    )
