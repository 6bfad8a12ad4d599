"""`ottla connect`: run workers, and manage connectors through any worker's REST API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ottla.cli.connect.connectors import COMMANDS
from ottla.cli.support import session
from ottla.cli.support.http_options import http_security, http_security_options
from ottla.cli.support.http_service import run_http_service
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import bootstrap_option, client_settings, listen_address
from ottla.cli.support.problems import need_package

DEFAULT_LISTEN = "127.0.0.1:8083"
STORAGE_VARIABLE = "OTTLA_CONNECT_STORAGE"


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nTo begin:  ottla connect serve\nand then:  ottla connect create x "
    "connector.class=DatagenSource topic=x",
)
def connect() -> None:
    """Move data between topics and other systems: connectors on Spark, with Kafka Connect's REST API."""


for _command in COMMANDS:
    connect.add_command(_command)


@connect.command()
@click.option(
    "--bootstrap", "named", metavar="HOST:PORT", hidden=True, help="The same as --bootstrap-server."
)
@click.option(
    "-l", "--listen", metavar="HOST:PORT", default=DEFAULT_LISTEN, show_default=True, help="Where to listen."
)
@click.option(
    "--storage",
    type=click.Path(path_type=Path, file_okay=False),
    envvar=STORAGE_VARIABLE,
    default=Path("ottla-connect"),
    help=f"The checkpoints of tasks; the same folder for all workers of a group.  "
    f"[default: ${STORAGE_VARIABLE} or ./ottla-connect]",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Worker settings in a properties file, by Connect's names.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A worker setting; overrides the file."
)
@click.option("--plugins", multiple=True, metavar="PATH", help="A file, folder or module with connectors.")
@click.option("--master", default="local[*]", show_default=True, metavar="URL", help="Spark's master.")
@click.option(
    "--spark", "spark_settings", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; repeatable."
)
@http_security_options
@bootstrap_option
def serve(
    named: str | None,
    listen: str,
    storage: Path,
    config_file: Path | None,
    settings: tuple[str, ...],
    plugins: tuple[str, ...],
    master: str,
    spark_settings: tuple[str, ...],
    bootstrap: str,
    **security: Any,
) -> int:
    """Run a Connect worker until Ctrl-C or SIGTERM.

    Prints one line that begins with `ready` to standard output when it serves. Workers with the same group.id
    share the connectors; Spark is started with the first task.

    \b
    ottla connect serve
    ottla connect serve --bootstrap broker1:9092 --set group.id=etl
    ottla connect serve --config worker.properties --tls-cert c.pem --auth basic
    """
    need_package("starlette", "connect")
    from ottla.common.config.properties import read_properties
    from ottla.connect.engine.supervisor import EngineOptions
    from ottla.connect.errors import ConnectError
    from ottla.connect.options import WorkerOptions, split_settings
    from ottla.connect.server import ConnectWorker

    host, port = listen_address("--listen", listen, DEFAULT_LISTEN)
    given = read_properties(config_file) if config_file is not None else {}
    given |= dict(_pair("--set", each) for each in settings)
    clients, given = split_settings(given)
    address = clients.pop("bootstrap.servers", None) or named or bootstrap
    secured = http_security(**security)
    paths = [each for each in given.get("plugin.path", "").split(",") if each.strip()]
    storage.mkdir(parents=True, exist_ok=True)
    clients = {**client_settings(), **clients}
    options = WorkerOptions(
        session.options_of(address, more=clients),
        {**{f"kafka.{key}": value for key, value in clients.items()}, "kafka.bootstrap.servers": address},
        host,
        port,
        storage,
        EngineOptions(
            master,
            dict(_pair("--spark", each) for each in spark_settings),
            (*paths, *plugins),
            storage / "engine.log",
        ),
        given,
    )
    return run_http_service(
        "connect worker",
        (host, port),
        lambda: ConnectWorker(options, security=secured),
        refusals=(ConnectError,),
    )


def _pair(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise click.UsageError(f"{option}: {text!r} is not KEY=VALUE")
    return key.strip(), value
