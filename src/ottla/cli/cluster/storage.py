"""`ottla cluster describe-log-dirs` and `quorum`: where a cluster keeps its records and its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ottla.cli.support import session
from ottla.cli.support.options import bootstrap_option, format_option
from ottla.cli.support.output import echo_err, print_json, print_table, size_text
from ottla.cli.support.problems import Problem
from ottla.client.admin.cluster_admin import ClusterAdmin, LogDirectory, describe_log_dirs
from ottla.client.admin.health import BrokerReport, broker_reports
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError

Directories = Mapping[int, list[LogDirectory]]
SERVER_DETAILS = ("version", "zxid", "connections", "latency")


@click.command("describe-log-dirs", short_help="Show the disks of brokers, and what is on them.")
@click.argument("brokers", nargs=-1, type=click.IntRange(0), metavar="[BROKER]...")
@click.option("--topics", "by_topic", is_flag=True, help="The size of each topic, largest first.")
@click.option("--partitions", "by_partition", is_flag=True, help="The size of each partition, largest first.")
@format_option
@bootstrap_option
def log_dirs(
    brokers: tuple[int, ...], by_topic: bool, by_partition: bool, output_format: str, bootstrap: str
) -> None:
    """Show the log directories of all brokers, or of some: state, free space, size and replicas.

    \b
    ottla cluster describe-log-dirs
    ottla cluster describe-log-dirs 1 --topics
    """

    async def command(connected: Cluster) -> Directories:
        return await (describe_log_dirs(connected, brokers) if brokers else _of_all_brokers(connected))

    found = session.run(bootstrap, command)
    if output_format == "json":
        print_json(_as_json(found))
    elif by_topic or by_partition:
        _print_sizes(found, by_partition=by_partition)
    else:
        _print_directories(found)


async def _of_all_brokers(connected: Cluster) -> Directories:
    """Return what the brokers answer; say which of them do not."""
    info = await ClusterAdmin(connected).describe(without_controller=True)  # it may be dying
    found: dict[int, list[LogDirectory]] = {}
    for node_id in info.brokers:
        if node_id not in info.alive:
            echo_err(f"broker {node_id} is not alive: its log directories are not known")
            continue
        try:
            found |= await describe_log_dirs(connected, [node_id])
        except ClientError as error:
            echo_err(f"broker {node_id} does not answer, its log directories are not known: {error}")
    return found


def _print_directories(found: Directories) -> None:
    rows = []
    for node_id, directories in found.items():
        for each in directories:
            used = sum(replica.size_bytes for replica in each.replicas.values())
            known = each.total_bytes > 0
            state = "online"
            if each.error is not None or (known and each.usable_bytes == 0):
                state = click.style("offline" if each.error is not None else "full", fg="red")
            free = f"{100 * each.usable_bytes / each.total_bytes:.0f} %" if known else "-"
            rows.append(
                [
                    str(node_id),
                    each.path,
                    state,
                    size_text(each.total_bytes) if known else "-",
                    size_text(each.usable_bytes) if known else "-",
                    free,
                    size_text(used),
                    str(len(each.replicas)),
                ]
            )
    columns = ["broker", "directory", "state", "disk", "free", "free %", "records", "replicas"]
    print_table(columns, rows, right=["broker", "disk", "free", "free %", "records", "replicas"])


def _print_sizes(found: Directories, *, by_partition: bool) -> None:
    sizes: dict[tuple[str, ...], int] = {}
    for node_id, directories in found.items():
        for directory in directories:
            for at, replica in directory.replicas.items():
                name = (at.topic, str(at.partition)) if by_partition else (at.topic,)
                key = (str(node_id), directory.path, *name)
                sizes[key] = sizes.get(key, 0) + replica.size_bytes
    columns = ["broker", "directory", "topic", *(["partition"] if by_partition else []), "size"]
    largest = sorted(sizes.items(), key=lambda each: -each[1])
    print_table(columns, [[*key, size_text(size)] for key, size in largest], right=["broker", "size"])


def _as_json(found: Directories) -> list[dict[str, Any]]:
    return [
        {
            "broker": node_id,
            "directory": each.path,
            "error": None if each.error is None else each.error.code.name,
            "total_bytes": each.total_bytes,
            "usable_bytes": each.usable_bytes,
            "replicas": [
                {
                    "topic": at.topic,
                    "partition": at.partition,
                    "size_bytes": replica.size_bytes,
                    "offset_lag": replica.offset_lag,
                    "is_future": replica.is_future,
                }
                for at, replica in each.replicas.items()
            ],
        }
        for node_id, directories in found.items()
        for each in directories
    ]


@click.command(short_help="Show the ZooKeeper ensemble, and which broker reaches it.")
@format_option
@bootstrap_option
def quorum(output_format: str, bootstrap: str) -> None:
    """Show the servers of the ZooKeeper ensemble with their roles, and each broker's connection to them.

    The brokers ask the servers: this machine need not reach them. Exits with 1 without a quorum.

    \b
    ottla cluster quorum
    """

    async def command(connected: Cluster) -> dict[int, BrokerReport]:
        return await broker_reports(connected, sorted(connected.brokers), include_ensemble=True)

    reports = session.run(bootstrap, command)
    answers = {node_id: each.report for node_id, each in reports.items() if each.report}
    if not answers:
        raise Problem(
            "no broker reports its health",
            "that needs DESCRIBE on the cluster; Apache Kafka has no such report",
        )
    servers = _servers(answers)
    if output_format == "json":
        print_json({"servers": servers, "brokers": _connections(answers)})
    else:
        _print_quorum(servers, answers)
    serving = sum(bool(each["mode"]) for each in servers)
    if servers and serving * 2 <= len(servers):
        raise Problem(
            f"{serving} of {len(servers)} ZooKeeper servers are serving: there is no quorum",
            "start the others; until then leaders cannot be elected and topics cannot be changed",
        )


def _servers(answers: Mapping[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each server as the first broker that reaches it sees it."""
    found: dict[str, dict[str, Any]] = {}
    for report in answers.values():
        for each in report["ensemble"]:
            if each["address"] not in found or (each["mode"] and not found[each["address"]]["mode"]):
                found[each["address"]] = each
    return list(found.values())


def _connections(answers: Mapping[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "broker": node_id,
            "connected": not report["metadata"]["silent_ms"],
            "silent_seconds": report["metadata"]["silent_ms"] / 1000,
            "session": report["metadata"]["has_session"],
            "metadata_version": report["metadata"]["version"],
            "controller": report["metadata"]["is_controller"],
        }
        for node_id, report in answers.items()
    ]


def _print_quorum(servers: list[dict[str, Any]], answers: Mapping[int, dict[str, Any]]) -> None:
    if servers:
        rows = [
            [
                each["address"],
                each["mode"] or click.style(each["problem"], fg="red"),
                *(each["details"].get(name, "-") for name in SERVER_DETAILS),
            ]
            for each in servers
        ]
        print_table(["server", "role", *SERVER_DETAILS], rows)
    else:
        echo_err("the metadata is in a file of the broker: there is no ensemble")
    click.echo()
    rows = [
        [
            str(each["broker"]) + ("*" if each["controller"] else ""),
            "connected" if each["connected"] else f"no answer for {each['silent_seconds']:.0f} s",
            "yes" if each["session"] else click.style("no", fg="red"),
            str(each["metadata_version"]),
        ]
        for each in _connections(answers)
    ]
    print_table(["broker", "ZooKeeper", "session", "metadata version"], rows, right=["broker"])
    click.echo()
    click.echo("* the controller")
