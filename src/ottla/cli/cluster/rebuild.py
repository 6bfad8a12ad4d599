"""`ottla cluster rebuild`: new ZooKeeper data from the data of the brokers, while they are stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from ottla.cli.cluster.backup import read_backup, write_private
from ottla.cli.support.options import confirm, format_option, key_values
from ottla.cli.support.output import count, echo_err, print_json
from ottla.cli.support.problem_kinds import BAD_DATA, NO_ZOOKEEPER
from ottla.cli.support.problems import Problem
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError
from ottla.common.config.properties import read_properties
from ottla.common.ids import TopicPartition
from ottla.log.directories.log_directory import LogDirectoryError, lock_directory
from ottla.log.disk import RealDisk
from ottla.log.survey import DirectorySurvey, NotADataDirectory, ReplicaSurvey, survey_directory
from ottla.metadata.backup_file import Backup, decode_backup, encode_backup
from ottla.metadata.image import EMPTY
from ottla.metadata.local_copy import read_copy
from ottla.metadata.rebuild import (
    Rebuilt,
    check_sources,
    missing_brokers,
    missing_directories,
    newest,
)
from ottla.metadata.rebuild import rebuild as rebuild_metadata
from ottla.metadata.records import MetadataError
from ottla.metadata.store import StoreUnavailable, VersionConflict

SCAN_FORMAT, SCAN_VERSION = "ottla-scan", 1
KEEP, ASIDE = "keep", "aside"
PENDING_EXIT = 3


@click.command(short_help="Rebuild lost ZooKeeper data from the brokers' data.")
@click.argument("sources", nargs=-1, metavar="DIR...", type=click.Path(exists=True, path_type=Path))
@click.option("--zookeeper", metavar="HOST:PORT", help="The new ZooKeeper, as the brokers will name it.")
@click.option(
    "--backup",
    "backups",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Also use this backup, if it is newer than the brokers' copies.",
)
@click.option(
    "--scan-to",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Only write what DIR has to this file, for use as a DIR elsewhere.",
)
@click.option(
    "--without",
    type=click.IntRange(0),
    multiple=True,
    metavar="BROKER",
    help="Its data, or one of its directories, is lost: rebuild without it.",
)
@click.option(
    "--unknown-topics",
    type=click.Choice([KEEP, ASIDE]),
    help="Topics that only the logs have: keep them, or let brokers set them aside.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A broker's file, for TLS and SASL to ZooKeeper.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="A config key for ZooKeeper; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be written; exit code 3.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@format_option
def rebuild(
    sources: tuple[Path, ...],
    zookeeper: str | None,
    backups: tuple[Path, ...],
    scan_to: Path | None,
    without: tuple[int, ...],
    unknown_topics: str | None,
    config_file: Path | None,
    settings: dict[str, str],
    dry_run: bool,
    yes: bool,
    output_format: str,
) -> None:
    """Rebuild the metadata in an empty or outdated ZooKeeper from the data directories of all brokers.

    Stop the brokers first. Topics keep their ids, and each partition is led by a replica with the most
    records: nothing that was acknowledged is lost. DIR is a data directory, or a file that --scan-to wrote
    on the machine of a broker. It can be repeated.

    \b
    ottla cluster rebuild --scan-to two.scan /data/ottla        on broker 2
    ottla cluster rebuild /data/ottla two.scan three.scan \\
        --zookeeper zk1:2181,zk2:2181,zk3:2181 --dry-run
    """
    with ExitStack() as locks:
        surveys, found = _read(sources, locks)
        if scan_to is not None:
            _write_scan(scan_to, surveys, found)
            return
        if zookeeper is None:
            raise click.UsageError("which ZooKeeper? Give --zookeeper HOST:PORT (or --scan-to FILE)")
        found += [read_backup(each) for each in backups]
        rebuilt = _rebuilt(surveys, found, without, unknown_topics)
        _show(rebuilt, surveys, output_format)
        if dry_run:
            echo_err("nothing was written")
            raise SystemExit(PENDING_EXIT)
        confirm(f"Write this to ZooKeeper at {zookeeper}?", yes)
        asyncio.run(_write(rebuilt, zookeeper, config_file, settings))
        echo_err("written. Start the brokers, then:  ottla cluster health --wait 120")


def _read(sources: tuple[Path, ...], locks: ExitStack) -> tuple[list[DirectorySurvey], list[Backup]]:
    if not sources:
        raise click.UsageError("name the data directories of the brokers, or files of --scan-to")
    surveys: list[DirectorySurvey] = []
    copies: list[Backup] = []
    disk = RealDisk()
    for each in sources:
        try:
            if each.is_file():
                scanned, copied = _read_scan(each)
                surveys += scanned
                copies += copied
                continue
            locks.callback(lock_directory(disk, str(each)))  # its broker must not run
            surveys.append(survey_directory(disk, str(each)))
            copy = read_copy(disk, each)
            copies += [] if copy is None else [copy]
        except (LogDirectoryError, NotADataDirectory, MetadataError) as error:
            raise Problem(str(error), kind=BAD_DATA) from None
    return surveys, copies


def _rebuilt(
    surveys: list[DirectorySurvey],
    found: list[Backup],
    without: tuple[int, ...],
    unknown_topics: str | None,
) -> Rebuilt:
    try:
        check_sources(surveys, found)
        base = newest(found)
        image = EMPTY if base is None else base.image
        absent = [each for each in missing_brokers(surveys, image) if each not in without]
        if absent:
            raise Problem(
                f"the data of broker {', '.join(map(str, absent))} is not given: it may have records that "
                "the others do not have",
                "give its data directory, or a file of --scan-to from its machine",
                f"if it is lost:  --without {absent[0]}",
            )
        unseen = [each for each in missing_directories(surveys, image) if each[0] not in without]
        if unseen:
            node_id, directory_id = unseen[0]
            raise Problem(
                f"broker {node_id} has another data directory ({directory_id}), which is not given: it may "
                "have records that the others do not have",
                "give all of its log.dirs, or files of --scan-to for them",
                f"if that disk is lost:  --without {node_id}  (its other directories are used)",
            )
        # Without any metadata, the directories are all that there is.
        add_unknown = unknown_topics == KEEP or base is None
        rebuilt = rebuild_metadata(surveys, found, add_unknown=add_unknown)
    except MetadataError as error:
        raise Problem(str(error), kind=BAD_DATA) from None
    if rebuilt.ignored and unknown_topics is None:
        raise Problem(
            f"the newest metadata does not have {', '.join(rebuilt.ignored[:10])}, but there are logs",
            "created shortly before ZooKeeper was lost:  --unknown-topics keep",
            "deleted while a broker was away:  --unknown-topics aside  (the logs are renamed, not removed)",
        )
    return rebuilt


def _show(rebuilt: Rebuilt, surveys: list[DirectorySurvey], output_format: str) -> None:
    image = rebuilt.image
    partitions = [each for topic in image.topics.values() for each in topic.partitions]
    brokers = sorted({each.node_id for each in surveys})
    behind = sum(len(each.isr) < len(each.replicas) for each in partitions)
    if output_format == "json":
        print_json(
            {
                "cluster_id": image.cluster_id,
                "version": image.version,
                "brokers": brokers,
                "log_directories": len(surveys),
                "topics": len(image.topics),
                "partitions": len(partitions),
                "behind": behind,
                "lost": list(rebuilt.lost),
                "added": list(rebuilt.added),
                "set_aside": list(rebuilt.ignored),
            }
        )
        return
    click.echo(f"cluster {image.cluster_id}, metadata version {image.version}")
    disks = f" ({len(surveys)} log directories)" if len(surveys) > len(brokers) else ""
    click.echo(f"{count(len(brokers), 'broker')}{disks}: {', '.join(map(str, brokers))}")
    click.echo(f"{count(len(image.topics), 'topic')}, {count(len(partitions), 'partition')}")
    if behind:
        click.echo(f"{count(behind, 'partition')} with replicas that will catch up")
    for what, names in (
        ("only in the logs, kept", rebuilt.added),
        ("only in the logs, will be set aside", rebuilt.ignored),
        ("WITHOUT any replica here", rebuilt.lost),
    ):
        if names:
            more = f" and {len(names) - 10} more" if len(names) > 10 else ""
            click.echo(f"{what}: {', '.join(names[:10])}{more}")


async def _write(
    rebuilt: Rebuilt, zookeeper: str, config_file: Path | None, settings: Mapping[str, str]
) -> None:
    from ottla.broker.settings import zookeeper_settings
    from ottla.metadata.zookeeper.store import ZooKeeperStore

    try:
        raw = {**(read_properties(config_file) if config_file is not None else {}), **settings}
        config = BrokerConfig({**raw, "zookeeper.connect": zookeeper})
        store = ZooKeeperStore(zookeeper_settings(config))
        await store.open()
    except ConfigError as error:
        raise Problem(str(error)) from None
    except StoreUnavailable as error:
        raise Problem(str(error), kind=NO_ZOOKEEPER) from None
    image = rebuilt.image
    try:
        await store.replace_log(image.version, image.records(), controller_epoch=image.controller_epoch)
    except VersionConflict as error:
        raise Problem(
            f"nothing was written: ZooKeeper at {zookeeper} has this metadata or newer: {error}",
            "written before? Then start the brokers:  ottla cluster health --wait 120",
            "does --zookeeper name the right ensemble and path?",
        ) from None
    except MetadataError as error:
        raise Problem(f"nothing was written: {error}", "see:  ottla cluster rebuild --help") from None
    finally:
        await store.close()


# The file of --scan-to


def _write_scan(file: Path, surveys: list[DirectorySurvey], copies: list[Backup]) -> None:
    document = {
        "format": SCAN_FORMAT,
        "v": SCAN_VERSION,
        "directories": [_survey_as_json(each) for each in surveys],
        "copies": [encode_backup(each).decode() for each in copies],
    }
    write_private(file, json.dumps(document).encode())
    brokers = ", ".join(map(str, sorted({each.node_id for each in surveys})))
    replicas = sum(len(each.replicas) for each in surveys)
    echo_err(f"{file}: broker {brokers}, {count(replicas, 'replica')}")


def _survey_as_json(survey: DirectorySurvey) -> dict[str, Any]:
    replicas = [
        [*at, None if each.topic_id is None else each.topic_id.hex, each.last_epoch, each.end_offset,
         each.newest_epoch]
        for at, each in survey.replicas.items()
    ]  # fmt: skip
    names = ("path", "node_id", "cluster_id", "directory_id")
    return {**{name: getattr(survey, name) for name in names}, "replicas": replicas}


def _read_scan(file: Path) -> tuple[list[DirectorySurvey], list[Backup]]:
    try:
        document = json.loads(file.read_bytes())
        if (document["format"], document["v"]) != (SCAN_FORMAT, SCAN_VERSION):
            raise ValueError("it has another format")
        surveys = [_survey_from_json(each) for each in document["directories"]]
        return surveys, [decode_backup(each.encode()) for each in document["copies"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Problem(f"{file} is not a file of --scan-to: {error}", kind=BAD_DATA) from None


def _survey_from_json(values: dict[str, Any]) -> DirectorySurvey:
    replicas = {
        TopicPartition(topic, index): ReplicaSurvey(
            None if topic_id is None else UUID(hex=topic_id), last_epoch, end_offset, newest_epoch
        )
        for topic, index, topic_id, last_epoch, end_offset, newest_epoch in values.pop("replicas")
    }
    return DirectorySurvey(**values, replicas=replicas)
