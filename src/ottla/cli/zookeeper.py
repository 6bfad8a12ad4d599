"""`ottla zookeeper start`: run a ZooKeeper server."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.support.lazy_group import LazyGroup
from ottla.cli.support.options import key_values, listen_address
from ottla.cli.support.output import echo_err
from ottla.cli.support.problems import Problem
from ottla.cli.support.start_problems import could_not_start

if TYPE_CHECKING:
    from ottla.broker.zookeeper_server import Member, ZooKeeperServer

DEFAULT_DATA = "./ottla-data/zookeeper"
DEFAULT_LISTEN = "127.0.0.1:2181"
POLL_INTERVAL_S = 0.5


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def zookeeper() -> None:
    """Run a ZooKeeper server, which stores the metadata of a cluster.

    \b
    ottla zookeeper start
    """


@zookeeper.command()
@click.option(
    "-d",
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DATA,
    show_default=True,
    help="Where its data is.",
)
@click.option(
    "-l", "--listen", metavar="HOST:PORT", default=DEFAULT_LISTEN, show_default=True, help="Where to listen."
)
@click.option(
    "--member",
    "members",
    multiple=True,
    metavar="N=HOST:PORT:PORT",
    help="A server of the ensemble, with its quorum and election ports; the same list for every server.",
)
@click.option(
    "--number", type=click.IntRange(1, 255), metavar="N", help="The number of this server in the ensemble."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="A ZooKeeper config key; repeatable.",
)
def start(
    data: Path, listen: str, members: tuple[str, ...], number: int | None, settings: dict[str, str]
) -> int:
    """Run a ZooKeeper server until Ctrl-C or SIGTERM.

    Prints one line that starts with `ready` to standard output when it is serving. It is Apache ZooKeeper: it
    needs Java, and the package pyspark, which contains its jars.

    \b
    ottla zookeeper start
    ottla zookeeper start -l 0.0.0.0:2181 --number 1 \\
        --member 1=zk1:2888:3888 --member 2=zk2:2888:3888 --member 3=zk3:2888:3888
    """
    from ottla.broker.zookeeper_server import ZooKeeperFailed, ZooKeeperServer

    host, port = listen_address("--listen", listen, "127.0.0.1:2181")
    server = ZooKeeperServer(
        data,
        host=host,
        port=int(port),
        members=_ensemble(members, number),
        number=number or 0,
        settings=settings,
    )
    try:
        return _run(server)
    except ZooKeeperFailed as error:
        raise could_not_start(error) from None


def _run(server: ZooKeeperServer) -> int:
    stopping = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: stopping.set())
    server.launch(dies_with_us=True)
    try:
        if server.members:
            echo_err("waiting for a quorum of the ensemble")
        while not server.is_serving() and not stopping.is_set():
            _check(server)
            stopping.wait(0.1)
        if not stopping.is_set():
            click.echo(f"ready {server.address}")
        while not stopping.wait(POLL_INTERVAL_S):
            _check(server)
    finally:
        server.stop()
    return 0


def _check(server: ZooKeeperServer) -> None:
    if not server.is_running:
        raise Problem(f"ZooKeeper has ended; it printed: {server.log_tail()}", f"see {server.log_path}")


def _ensemble(texts: tuple[str, ...], number: int | None) -> list[Member]:
    from ottla.broker.zookeeper_server import Member

    if bool(texts) != (number is not None):
        raise click.UsageError("--member and --number belong together")
    members = []
    for text in texts:
        try:
            members.append(Member.parse(text))
        except ValueError:
            raise click.UsageError(f"--member: {text!r} is not N=HOST:PORT:PORT") from None
    if number is not None and number not in {each.number for each in members}:
        raise click.UsageError(f"--number {number} is not among the members")
    return members
