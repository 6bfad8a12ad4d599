"""`ottla cluster backup` and `restore`: the metadata of a cluster, as one file."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from ottla import __version__
from ottla.cli.support import session
from ottla.cli.support.options import bootstrap_option, confirm, format_option
from ottla.cli.support.output import count, echo_err, print_json
from ottla.cli.support.problem_kinds import BAD_DATA
from ottla.cli.support.problems import Problem
from ottla.client.admin.group_types import CommittedOffset, OffsetAndMetadata
from ottla.client.admin.groups import Groups
from ottla.client.admin.metadata_backup import Outcome, dump_metadata, restore_metadata
from ottla.client.cluster import Cluster
from ottla.common.ids import TopicPartition
from ottla.metadata.backup_file import Backup, GroupOffset, decode_backup, encode_backup, is_backup
from ottla.metadata.entities import partition_created
from ottla.metadata.image import EMPTY, ClusterImage
from ottla.metadata.records import (
    ConfigChanged,
    ConfigResource,
    MetadataError,
    MetadataRecord,
    PartitionCreated,
    TopicCreated,
    decode_records,
    encode_records,
)
from ottla.protocol.errors import KafkaError, UnsupportedVersion

PENDING_EXIT = 3
RECORDS_PER_REQUEST = 500
GROUPS_AT_ONCE = 16
MARKS = {"created": "+", "changed": "~", "differs": "!", "failed": "!"}
COLOURS = {"+": "green", "~": "yellow", "!": "red"}

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.command(short_help="Write the metadata of the cluster to a file.")
@_file
@click.option("--no-offsets", is_flag=True, help="Leave out the committed offsets of groups.")
@format_option
@bootstrap_option
def backup(file: Path, no_offsets: bool, output_format: str, bootstrap: str) -> None:
    """Write topics with their ids, configs, ACLs, users, quotas, tokens and group offsets to FILE.

    Records are not in it. It has the keys of SCRAM users: keep it secret; it is readable by you only.
    An existing FILE is replaced when the new one is complete.

    \b
    ottla cluster backup cluster.backup
    ottla cluster restore cluster.backup --dry-run
    """

    async def command(cluster: Cluster) -> Backup:
        try:
            dumped = await dump_metadata(cluster)
        except UnsupportedVersion as error:
            raise _not_ottla(error) from None
        image = EMPTY.apply(decode_records(dumped.records), dumped.version)
        offsets = () if no_offsets else await _all_offsets(cluster)
        return Backup(image, offsets, int(time.time() * 1000), __version__)

    made = session.run(bootstrap, command)
    write_private(file, encode_backup(made))
    summary = _summary(made)
    if output_format == "json":
        print_json({"file": str(file), **summary})
        return
    listed = ", ".join(f"{number:,} {name}" for name, number in summary.items() if isinstance(number, int))
    echo_err(f"{file}: {listed}")


@click.command(short_help="Create what a backup has and the cluster has not.")
@_file
@click.option("--overwrite", is_flag=True, help="Also change configs, users and offsets that differ.")
@click.option("--no-offsets", is_flag=True, help="Leave the offsets of groups alone.")
@click.option("--dry-run", is_flag=True, help="Only show the plan; exit code 3 if there are changes.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@format_option
@bootstrap_option
def restore(
    file: Path,
    overwrite: bool,
    no_offsets: bool,
    dry_run: bool,
    yes: bool,
    output_format: str,
    bootstrap: str,
) -> None:
    """Restore the metadata of a backup into this cluster: what is missing is created, with its ids.

    What exists and differs is shown, and left alone without --overwrite. Nothing is deleted. After an
    interruption, run it again. To rebuild a cluster that lost its ZooKeeper but has its brokers' data,
    see `ottla cluster rebuild`: it keeps the records.

    Exit codes: 0 all is restored, 1 something failed, 3 changes are pending (--dry-run).

    \b
    ottla cluster restore cluster.backup --dry-run
    ottla cluster restore cluster.backup --yes
    """
    found = read_backup(file)
    if no_offsets:
        found = Backup(found.image, (), found.created_ms, found.written_by)

    async def command(cluster: Cluster) -> list[Outcome]:
        try:
            plan = await _metadata(cluster, found.image, overwrite, validate_only=True)
        except UnsupportedVersion as error:
            raise _not_ottla(error) from None
        plan += await _offsets(cluster, found.offsets, overwrite, validate_only=True)
        pending = [each for each in plan if each.action in ("created", "changed")]
        _show(plan, output_format)
        if dry_run or not pending:
            return plan
        confirm(f"Make {count(len(pending), 'change')}?", yes)
        done = await _metadata(cluster, found.image, overwrite, validate_only=False)
        return done + await _offsets(cluster, found.offsets, overwrite, validate_only=False)

    outcomes = session.run(bootstrap, command)
    _conclude(outcomes, dry_run, overwrite)


def _conclude(outcomes: list[Outcome], dry_run: bool, overwrite: bool) -> None:
    times = Counter(each.action for each in outcomes)
    changes = times["created"] + times["changed"]
    if times["differs"]:
        kinds = {each.kind for each in outcomes if each.action == "differs"}
        is_fixed = overwrite or kinds == {"topic"}  # the id of a topic is permanently
        how = "they cannot be changed" if is_fixed else "to change them: --overwrite"
        echo_err(f"{count(times['differs'], 'difference')} left alone; {how}")
    if times["failed"]:
        failed = [f"{each.kind} {each.name}: {each.detail}" for each in outcomes if each.action == "failed"]
        raise Problem(f"{count(times['failed'], 'thing')} cannot be restored", *failed[:20])
    if dry_run and changes:
        echo_err(f"{count(changes, 'change')} pending; nothing was changed")
        raise SystemExit(PENDING_EXIT)
    echo_err(f"{count(changes, 'change')} made; {times['same']:,} as in the backup already")


def read_backup(file: Path) -> Backup:
    """Return what a file contains; raise Problem if it cannot be trusted."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise Problem(f"{file} cannot be read: {error.strerror}") from None
    try:
        return decode_backup(data)
    except MetadataError as error:
        hints = ["use another backup"]
        if not is_backup(data):
            hints.append(f"a file of `ottla cluster export` is for:  ottla cluster apply -f {file}")
        raise Problem(f"{file}: {error}", *hints, kind=BAD_DATA) from None


def write_private(file: Path, data: bytes) -> None:
    """Replace a file by one that only its owner can read, once it is complete and on the disk."""
    try:
        number, beside = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # its mode is 0600
        try:
            with os.fdopen(number, "wb") as written:
                written.write(data)
                written.flush()
                os.fsync(written.fileno())
            Path(beside).rename(file)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Problem(f"{file} cannot be written: {error.strerror}") from None


def _not_ottla(error: KafkaError) -> Problem:
    return Problem(
        str(error.message or error),
        "topics, configs, ACLs and quotas of any Kafka:  ottla cluster export",
    )


def _summary(made: Backup) -> dict[str, int | str]:
    image = made.image
    return {
        "cluster": image.cluster_id,
        "topics": len(image.topics),
        "configs": sum(map(len, image.configs.values())),
        "acls": len(image.acls),
        "users": len(image.scram_credentials),
        "quotas": sum(map(len, image.client_quotas.values())),
        "tokens": len(image.tokens),
        "groups": len({each.group for each in made.offsets}),
        "offsets": len(made.offsets),
    }


# Metadata


async def _metadata(
    cluster: Cluster, image: ClusterImage, overwrite: bool, *, validate_only: bool
) -> list[Outcome]:
    found: list[Outcome] = []
    for records in parts(image):
        found += await restore_metadata(
            cluster, encode_records(records), overwrite=overwrite, validate_only=validate_only
        )
    return found


def parts(image: ClusterImage) -> Iterator[list[MetadataRecord]]:
    """Yield the records in requests of a bounded size; a topic is never split from its partitions."""
    units: list[list[MetadataRecord]] = []
    for topic in image.topics.values():
        configs = image.topic_overrides(topic.name)
        whole: list[MetadataRecord] = [TopicCreated(topic.name, topic.topic_id)]
        whole += [ConfigChanged(ConfigResource.TOPIC, topic.name, *each) for each in configs.items()]
        whole += [partition_created(topic.topic_id, each) for each in topic.partitions]
        units.append(whole)
    for each in image.records():
        is_topic_config = isinstance(each, ConfigChanged) and each.resource_type == ConfigResource.TOPIC
        if not isinstance(each, TopicCreated | PartitionCreated) and not is_topic_config:
            units.append([each])
    batch: list[MetadataRecord] = []
    for unit in units:
        if batch and len(batch) + len(unit) > RECORDS_PER_REQUEST:
            yield batch
            batch = []
        batch = [*batch, *unit]
    if batch:
        yield batch


# Offsets of groups


async def _all_offsets(cluster: Cluster) -> tuple[GroupOffset, ...]:
    groups = [each.group_id for each in await Groups(cluster).list()]
    committed = await _committed(cluster, groups)
    return tuple(
        GroupOffset(group, at.topic, at.partition, each.offset, each.leader_epoch, each.metadata)
        for group in groups
        for at, each in sorted(committed[group].items())
    )


async def _committed(
    cluster: Cluster, groups: Iterable[str]
) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    names = list(groups)
    for first in range(0, len(names), GROUPS_AT_ONCE):
        part = names[first : first + GROUPS_AT_ONCE]
        answers = await asyncio.gather(*(Groups(cluster).committed(each) for each in part))
        found.update(zip(part, answers, strict=True))
    return found


async def _offsets(
    cluster: Cluster, offsets: Iterable[GroupOffset], overwrite: bool, *, validate_only: bool
) -> list[Outcome]:
    wanted: dict[str, dict[TopicPartition, GroupOffset]] = {}
    for each in offsets:
        wanted.setdefault(each.group, {})[TopicPartition(each.topic, each.partition)] = each
    if not wanted:
        return []
    committed = await _committed(cluster, wanted)
    return [
        await _group(cluster, group, each, committed[group], overwrite, validate_only)
        for group, each in wanted.items()
    ]


async def _group(
    cluster: Cluster,
    group: str,
    wanted: dict[TopicPartition, GroupOffset],
    has: dict[TopicPartition, CommittedOffset],
    overwrite: bool,
    validate_only: bool,
) -> Outcome:
    missing = [at for at in wanted if at not in has]
    other = [at for at in wanted if at in has and has[at].offset != wanted[at].offset]
    due = [*missing, *other] if overwrite else missing
    if not due:
        at = other[0] if other else None
        detail = "" if at is None else f"{at} is at {has[at].offset}, not {wanted[at].offset}"
        return Outcome("offsets", group, "differs" if other else "same", detail)
    changed = Outcome(
        "offsets", group, "changed" if overwrite and other else "created", count(len(due), "partition")
    )
    if validate_only:
        return changed
    # The leader epochs are those of the old cluster: a consumer would take them for a truncation.
    setting = {at: OffsetAndMetadata(wanted[at].offset, wanted[at].metadata) for at in due}
    try:
        await Groups(cluster).commit(group, setting)
    except KafkaError as error:
        return Outcome("offsets", group, "failed", f"{error}; stop its members, then restore again")
    return changed


def _show(plan: list[Outcome], output_format: str) -> None:
    if output_format == "json":
        print_json([each._asdict() for each in plan if each.action != "same"])
        return
    for each in plan:
        if (mark := MARKS.get(each.action)) is not None:
            detail = f": {each.detail}" if each.detail else ""
            click.secho(f"{mark} {each.kind} {each.name}{detail}", fg=COLOURS[mark])
