"""The data directory of a broker: create it, find its owner, set stray logs aside."""

from __future__ import annotations

import logging
from pathlib import Path

from ottla.common.ids import uuid_text
from ottla.log.checkpoints import META_PROPERTIES, MetaProperties
from ottla.log.disk import Disk
from ottla.log.log_directory import LogDirectory
from ottla.metadata.image import ClusterImage
from ottla.protocol.errors import KafkaStorageError

log = logging.getLogger(__name__)


def set_stray_logs_aside(directory: LogDirectory, image: ClusterImage, node_id: int) -> None:
    """Close the logs whose topic was deleted or recreated, or whose replicas were moved to other brokers.

    A crash during a topic deletion leaves such logs, and so does a reassignment while this broker is down.
    Their directories are renamed to `-stray`, not removed: if the metadata is wrong, the records still
    exist. Their checkpoint entries are removed, because they would truncate a new topic of the same name.
    """
    for partition, stray in list(directory.logs.items()):
        owner = image.topics.get(partition.topic)
        is_ours = owner is not None and stray.topic_id in (None, owner.topic_id)
        placed = image.partition(*partition)
        if not is_ours or placed is None or node_id not in placed.replicas:
            kept_as = directory.move_to_stray(partition)
            log.warning(
                "%s belongs to no topic of this cluster (was the broker killed while it deleted one?), or "
                "not to this broker (were its replicas moved?); "
                "its records are kept in %s/%s. The broker never removes them: when they are not needed, "
                "do it by hand: rm -r '%s/%s'",
                partition, directory.path, kept_as, directory.path, kept_as,
            )  # fmt: skip
    try:
        directory.write_checkpoints()
    except KafkaStorageError as error:
        log.error("the checkpoints may still name logs that are gone: %s", error)


class StartError(Exception):
    """The broker cannot start; the message says why and what to do."""


def make_directory(disk: Disk, data: Path) -> None:
    """Make the data directory so that a power cut cannot take it back, with all that is in it."""
    missing = [each for each in (data, *data.parents) if not disk.exists(str(each))]
    disk.make_dir(str(data))
    for each in reversed(missing):
        disk.fsync_dir(str(each.parent))


def owner_of_logs(disk: Disk, data: Path) -> tuple[str, str] | tuple[None, None]:
    """Return the cluster whose logs are in `data` and the id of the directory, if there are any."""
    try:
        meta = MetaProperties.decode(disk.read_file(str(data / META_PROPERTIES)))
    except (FileNotFoundError, ValueError):
        return None, None  # opening the log directory says what is wrong with the file
    return meta.cluster_id, uuid_text(meta.directory_id)
