"""What all logs of one log directory share: the disk, the file pool, and whether the directory is online."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable

from ottla.log.boot_id import mark_disk_failed
from ottla.log.disk import Disk
from ottla.log.file_pool import DEFAULT_OPEN_FILES, FilePool
from ottla.log.producers.producer_limit import ProducerLimit
from ottla.protocol.errors import KafkaStorageError

logger = logging.getLogger(__name__)

_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_TRANSIENT = _NO_DESCRIPTORS | {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM}
"""No space, no descriptors, no memory: nothing is wrong with the disk, and later it may do."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_no_space(error: OSError) -> bool:
    """Return whether an operation failed because the disk, or the quota, is full."""
    return error.errno in _FULL


def is_transient(error: OSError) -> bool:
    """Return whether the disk is fine and the failed operation may succeed later."""
    return error.errno in _TRANSIENT


class Storage:
    """The disk, open files and health of one log directory.

    A full disk is transient: the write fails, and the next one is tried again. Any other failed write, and
    every failed fsync, is not: the kernel may have dropped the pages, so the contents of the disk are
    unknown. Then `offline_reason` is set until the broker restarts; writes are rejected, reads continue. (A
    caller that reports a failure has undone its partial changes.)
    """

    __slots__ = (
        "disk",
        "is_full",
        "offline_reason",
        "on_disk_full",
        "on_offline",
        "path",
        "pool",
        "producer_limit",
    )

    def __init__(self, disk: Disk, path: str, *, max_open_files: int = DEFAULT_OPEN_FILES) -> None:
        self.disk = disk
        self.path = path
        self.pool = FilePool(disk, max_open_files)
        self.offline_reason: str | None = None
        self.is_full = False
        """Whether an append found no space, and none has been found since."""
        self.on_offline: Callable[[], None] | None = None
        self.producer_limit: ProducerLimit | None = None
        self.on_disk_full: Callable[[], None] | None = None
        """Called on the loop when an append, or creating a log, fails because the disk is full."""

    def check_writable(self) -> None:
        """Raise KafkaStorageError if the directory is offline."""
        if self.offline_reason is not None:
            raise KafkaStorageError(f"log directory {self.path} is offline: {self.offline_reason}")

    def write_failed(self, operation: str, error: OSError) -> KafkaStorageError:
        """Return the error to raise after a failed write; the directory goes offline unless the failure is
        transient.
        """
        if is_transient(error):
            logger.warning("%s failed: %s; it will be retried with the next request", operation, error)
        else:
            self.take_offline(f"{operation}: {error}")
        return KafkaStorageError(f"{operation}: {error}")

    def append_failed(self, operation: str, error: OSError) -> KafkaStorageError:
        """Return the error to raise after a failed append, which is also how a full disk is detected."""
        if is_no_space(error) and self.on_disk_full is not None:
            self.is_full = True
            self.on_disk_full()
        return self.write_failed(operation, error)

    def flush_failed(self, operation: str, error: OSError) -> None:
        """Go offline after a failed flush, unless it could not start because descriptors ran out."""
        if error.errno in _NO_DESCRIPTORS:
            self.write_failed(operation, error)
        else:
            self.take_offline(f"{operation}: {error}")

    def take_offline(self, reason: str) -> None:
        """Reject writes from now on; the first reason is kept."""
        if self.offline_reason is None:
            self.offline_reason = reason
            mark_disk_failed(self.disk, self.path)
            logger.error(
                "log directory %s is offline for writes until the broker restarts: %s", self.path, reason
            )
            if self.on_offline is not None:
                self.on_offline()
