"""The directory with everything that a broker keeps, before anything in it is opened."""

from __future__ import annotations

from pathlib import Path

from ottla.common.ids import uuid_text
from ottla.log.checkpoints import META_PROPERTIES, MetaProperties
from ottla.log.disk import Disk


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
