"""`ottla registry`: run a schema registry, and look at what is in one."""

from __future__ import annotations

import asyncio
import logging
import signal

import click

from ottla.cli.registry.copy import export_command, import_command
from ottla.cli.registry.schemas import compat, schema, subject
from ottla.cli.registry.settings import config, mode
from ottla.cli.support import session
from ottla.cli.support.options import bootstrap_option
from ottla.cli.support.output import echo_err
from ottla.cli.support.problems import Problem

DEFAULT_LISTEN = "127.0.0.1:8081"
LARGEST_PORT = 65_535


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nTo begin:  ottla registry serve\nand then:  ottla registry schema register orders-value "
    "--file order.avsc",
)
def registry() -> None:
    """Run a schema registry with Confluent's REST API; look at schemas and change them."""


for _command in (subject, schema, compat, config, mode, import_command, export_command):
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
    help="Where other registry processes reach this one; only beside Apache Kafka.  [default: --listen]",
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
@bootstrap_option
def serve(
    named: str | None,
    listen: str,
    advertise: str | None,
    topic: str,
    workers: int,
    verbose: bool,
    bootstrap: str,
) -> int:
    """Run a schema registry until Ctrl-C or SIGTERM.

    Prints one line that begins with `ready` to standard output when it serves. Any number of them may run for
    one cluster. Beside Apache Kafka one of them is elected, and the others forward changes to it.

    \b
    ottla registry serve
    ottla registry serve --bootstrap broker1:9092 --listen 0.0.0.0:8081
    """
    from ottla.registry.server import RegistryOptions

    host, port = _address(listen)
    options = RegistryOptions(
        session.options_of(named or bootstrap),
        host=host,
        port=port,
        topic=topic,
        workers=workers,
        advertised_url=advertise,
    )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    if verbose:
        logging.getLogger("ottla.http.access").setLevel(logging.DEBUG)
    return session.run_service(lambda: _serve(options))


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > LARGEST_PORT:
        raise click.UsageError(f"--listen: {listen!r} is not HOST:PORT, such as {DEFAULT_LISTEN}")
    return host.strip("[]"), int(port)


async def _serve(options: object) -> int:
    from ottla.registry.kafka_topic import WrongTopic
    from ottla.registry.server import RegistryOptions, RegistryServer

    assert isinstance(options, RegistryOptions)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    try:
        async with RegistryServer(options) as server:
            click.echo(f"ready: schema registry at {server.url}")
            await stopped.wait()
            echo_err("stopping")
    except WrongTopic as error:
        raise Problem(str(error)) from None
    except OSError as error:
        where = f"{options.host}:{options.port}"
        raise Problem(
            f"cannot listen at {where}: {error.strerror or error}", "choose another:  --listen HOST:PORT"
        ) from None
    return 0
