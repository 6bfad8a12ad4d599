"""`ottla debug bundle`: everything that is needed to look into a problem, in one file, without secrets."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.support import session
from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import bootstrap_option, client_settings
from ottla.cli.support.output import count, echo_err, size_text
from ottla.cli.support.problems import Problem
from ottla.client.cluster import Cluster

if TYPE_CHECKING:
    from ottla.cli.debug.collect import Bundle

FILE = click.Path(path_type=Path, dir_okay=False)
METRICS = "http://127.0.0.1:9644/metrics"
PATIENCE_MS = 10_000


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def debug() -> None:
    """Collect logs, configs and metrics to report a problem.

    \b
    ottla debug bundle
    """


@debug.command(short_help="Write a .tar.gz with logs, configs, metrics, metadata, versions.")
@click.option("-o", "--output", metavar="FILE", type=FILE, help="The file to write; it must not exist.")
@click.option("--log", "logs", multiple=True, metavar="FILE", type=FILE, help="A log file; repeatable.")
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="FILE",
    type=FILE,
    help="A .properties file; repeatable.",
)
@click.option(
    "--metrics",
    "urls",
    multiple=True,
    metavar="URL",
    default=(METRICS,),
    show_default=True,
    help="Metrics of a broker or service; repeatable.",
)
@bootstrap_option
def bundle(
    output: Path | None,
    logs: tuple[Path, ...],
    configs: tuple[Path, ...],
    urls: tuple[str, ...],
    bootstrap: str,
) -> None:
    """Write a .tar.gz with logs, configs, metrics, metadata and versions.

    Passwords, keys, tokens and JAAS lines are left out, by their names, their look and their values. Records
    of topics are never in it. CONTENTS.txt lists what is: look before you send it. Parts that cannot be
    collected, such as those of a broker that is down, are listed in problems.txt.

    \b
    ottla debug bundle
    ottla debug bundle --log ottla.log --config server.properties -o case-7.tar.gz
    """
    from ottla.cli.debug.collect import Bundle, add_config_file, add_log_file, add_machine, add_metrics

    path = output or Path(f"ottla-debug-{datetime.now(UTC):%Y%m%d-%H%M%S}.tar.gz")
    if path.exists():
        raise Problem(f"{path} exists already", "name another file:  ottla debug bundle --output FILE")
    found = Bundle()
    found.redactor.learn(client_settings())
    for each in configs:
        add_config_file(found, each)
    add_machine(found)
    _ask_cluster(found, bootstrap)
    for number, url in enumerate(urls, 1):
        add_metrics(found, number, url)
    for each in logs:
        add_log_file(found, each)
    try:
        found.write(path)
    except OSError as error:
        raise Problem(f"cannot write {path}: {error.strerror}") from None
    click.echo(str(path))
    echo_err(f"{count(len(found.files), 'file')}, {size_text(path.stat().st_size)}; see CONTENTS.txt in it")
    for problem in found.problems:
        echo_err(f"not collected: {problem}")


def _ask_cluster(found: Bundle, bootstrap: str) -> None:
    import asyncio

    from ottla.cli.debug.collect import add_cluster
    from ottla.client.errors import ClientError

    options = session.options_of(bootstrap, patience_ms=PATIENCE_MS)

    async def ask() -> None:
        async with Cluster(options=options) as cluster:
            await add_cluster(found, cluster)

    try:
        asyncio.run(ask())
    except ClientError as error:
        found.problems.append(f"the cluster at {bootstrap}: {error}")
