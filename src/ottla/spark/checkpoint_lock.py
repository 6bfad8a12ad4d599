"""Let one process at a time run a query on a checkpoint.

Problem: sessions of `ottla.spark.session` use Spark's FileSystemBasedCheckpointFileManager.
It is fast because it does not test whether another run has written the same file. So two processes that run
one query on one checkpoint overwrite each other's offset log, and both write their batches.

Solution: `lock_checkpoints` makes `DataStreamWriter.start` and `toTable` of this process take an exclusive
`flock` on `<checkpoint>/.ottla.lock` before Spark reads the checkpoint. The lock file names the process that
holds it. A thread per query waits for its end, and releases the lock; the kernel releases it if the process
dies. Within one process Spark itself allows one run of a query: a new run takes the lock over.

Spark's Python processes cannot do this: the one that plans a source does not learn the checkpoint, and those
of a sink live for one batch (decision 118). Only checkpoints on a local file system are locked.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ottla.spark.errors import SparkError

LOCK_FILE = ".ottla.lock"
HANDOVER_S, RETRY_S = 1.0, 0.05
"""How long to wait for a holder whose query has just ended."""
CHECKPOINT_OPTION = "checkpointlocation"
CHECKPOINT_ROOT = "spark.sql.streaming.checkpointLocation"


class CheckpointInUse(SparkError):
    """Another process runs a query on the checkpoint."""


class CheckpointLock:
    """The exclusive lock on the folder of a checkpoint."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._file: int | None = None

    def acquire(self, wait_s: float = 0.0) -> None:
        """Take the lock; raise CheckpointInUse if another process still holds it after `wait_s`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = os.open(self._folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        waited_s = 0.0
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if waited_s >= wait_s:
                    holder = os.pread(file, 32, 0).decode(errors="replace").strip() or "unknown"
                    os.close(file)
                    raise CheckpointInUse(
                        f"the checkpoint {self._folder} is in use: process {holder} runs a query on it. "
                        "Stop that process, or give this query another checkpointLocation"
                    ) from None
            time.sleep(RETRY_S)
            waited_s += RETRY_S
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        self._file = file

    def release(self) -> None:
        """Give the lock back, if it is held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class QueryLocks:
    """The checkpoint locks of the queries that run in this process."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held: dict[Path, CheckpointLock] = {}
        self._users: dict[Path, int] = {}

    def start(self, folder: Path, start_query: Callable[[], Any]) -> Any:
        """Start a query under the lock of its checkpoint; release the lock when the query ends."""
        with self._mutex:
            if folder not in self._held:
                lock = CheckpointLock(folder)
                lock.acquire(HANDOVER_S)
                self._held[folder] = lock
            self._users[folder] = self._users.get(folder, 0) + 1
        try:
            query = start_query()
        except BaseException:
            self._release(folder)
            raise
        name = f"ottla checkpoint lock {folder.name}"
        threading.Thread(target=self._release_after, args=(folder, query), name=name, daemon=True).start()
        return query

    def _release_after(self, folder: Path, query: Any) -> None:
        try:
            query.awaitTermination()
        except Exception:  # the query failed, or the JVM is gone: either way it has ended
            pass
        self._release(folder)

    def _release(self, folder: Path) -> None:
        with self._mutex:
            self._users[folder] -= 1
            if not self._users[folder]:
                del self._users[folder]
                self._held.pop(folder).release()


def local_folder(location: str, default_file_system: str = "file:///") -> Path | None:
    """Return the folder of a checkpoint location; None if it is not on a local file system."""
    scheme, separator, rest = location.partition(":/")
    if not separator or "/" in scheme:
        return Path(location).absolute() if default_file_system.startswith("file:") else None
    return Path("/" + rest.lstrip("/")) if scheme == "file" else None


def lock_checkpoints() -> None:
    """Make every streaming query that this process starts lock its checkpoint."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if hasattr(DataStreamWriter, "_ottla_locks"):
        return
    locks = QueryLocks()
    setattr(DataStreamWriter, "_ottla_locks", locks)  # noqa: B010
    remember_checkpoints()
    for method in ("start", "toTable"):
        setattr(DataStreamWriter, method, _locking(getattr(DataStreamWriter, method), locks))


def remember_checkpoints() -> None:
    """Make the writers of streaming queries remember what `checkpoint_of` needs."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if hasattr(DataStreamWriter, "_ottla_remembers"):
        return
    setattr(DataStreamWriter, "_ottla_remembers", True)  # noqa: B010
    for method in ("option", "options", "queryName"):
        setattr(DataStreamWriter, method, _remembering(method, getattr(DataStreamWriter, method)))


def _remembering(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the arguments that decide where the checkpoint is: the writer itself has them only in the JVM."""

    parameters = signature(method)

    @wraps(method)
    def remember(self: Any, *args: Any, **named: Any) -> Any:
        given = parameters.bind(self, *args, **named).arguments
        if name == "queryName":
            self._ottla_query_name = given["queryName"]
        else:
            options = given.get("options", {}) if name == "options" else {given["key"]: given["value"]}
            self._ottla_checkpoint = _location_in(options) or getattr(self, "_ottla_checkpoint", None)
        return method(self, *args, **named)

    return remember


def _locking(method: Callable[..., Any], locks: QueryLocks) -> Callable[..., Any]:
    @wraps(method)
    def start(self: Any, *args: Any, **options: Any) -> Any:
        folder = checkpoint_of(self, options)
        if folder is None:
            return method(self, *args, **options)
        return locks.start(folder, lambda: method(self, *args, **options))

    return start


def checkpoint_of(writer: Any, options: Mapping[str, Any]) -> Path | None:
    """Return the local folder of a query's checkpoint; None if it has a temporary or a remote one."""
    location = _location_in(options) or getattr(writer, "_ottla_checkpoint", None)
    if location is None:
        root = writer._spark.conf.get(CHECKPOINT_ROOT, None)
        name = options.get("queryName") or getattr(writer, "_ottla_query_name", None)
        if root is None or name is None:
            return None
        location = f"{root}/{name}"
    hadoop = writer._spark.sparkContext._jsc.hadoopConfiguration()
    return local_folder(location, str(hadoop.get("fs.defaultFS", "file:///")))


def _location_in(options: Mapping[str, Any]) -> str | None:
    found = [str(value) for name, value in options.items() if name.lower() == CHECKPOINT_OPTION]
    return found[-1] if found else None
