"""A lock on the folder of a checkpoint: one run of a query at a time.

The checkpoint manager that sessions of ours use is fast because it does not ask whether another run has
written the same file. So whoever starts queries holds this lock while they run.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.spark.errors import SparkError

NAME = ".ottla.lock"


class CheckpointInUse(SparkError):
    """Another process uses the checkpoint."""


class CheckpointLock:
    """Held from `with` on; it ends with the process at the latest."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(str(folder).removeprefix("file://"))
        self._file: int | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._folder / NAME, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            self._file = None
            raise CheckpointInUse(
                f"the checkpoint {self._folder} is used by another query now (process {holder}). Stop it, or "
                "give this query a checkpoint of its own"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
