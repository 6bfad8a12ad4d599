"""The folders of a pipeline: one per pipeline, under one root.

    <root>/<pipeline>/state.json            the driver and its progress
                      spark.log             the output of Spark in the last run
                      paused                exists while the pipeline is to be paused
                      restart               exists until the driver has taken the request to restart
    <storage>/lock                          held by the driver
              checkpoints/<flow>/           Spark's checkpoint of a flow
              tables/<table>/<flow>/        files of a streaming table, one folder for each flow into it
              views/<view>/<version>/       a computed materialized view; `current` names the version
              once/<flow>/                  the one-row stream that drives a flow that is not a stream

<storage> is <root>/<pipeline> unless the spec file names another folder.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ottla.spark.pipelines.problems import PipelineProblem

CURRENT = "current"
PAUSE_FILE, RESTART_FILE = "paused", "restart"


@dataclass(frozen=True)
class Storage:
    """The folders of one pipeline."""

    home: Path
    data: Path

    @property
    def state_file(self) -> Path:
        """The driver and its progress."""
        return self.home / "state.json"

    @property
    def log_file(self) -> Path:
        """The output of Spark in the last run."""
        return self.home / "spark.log"

    @property
    def pause_file(self) -> Path:
        """Exists while the pipeline is to be paused."""
        return self.home / PAUSE_FILE

    @property
    def restart_file(self) -> Path:
        """Exists until the driver has taken the request to restart."""
        return self.home / RESTART_FILE

    @property
    def lock_file(self) -> Path:
        """Held by the driver."""
        return self.data / "lock"

    @property
    def checkpoints(self) -> Path:
        """The checkpoints of all flows."""
        return self.data / "checkpoints"

    def checkpoint(self, flow: str) -> Path:
        """Spark's checkpoint of a flow."""
        return self.checkpoints / flow

    def table(self, table: str, flow: str) -> Path:
        """The files that one flow has written to a streaming table."""
        return self.data / "tables" / table / flow

    def view(self, view: str) -> Path:
        """The versions of a materialized view."""
        return self.data / "views" / view

    def once(self, flow: str) -> Path:
        """The one-row stream that drives a flow that is not a stream."""
        return self.data / "once" / flow

    def current_view(self, view: str) -> Path | None:
        """Return the folder of the current version of a materialized view, if it was computed."""
        pointer = self.view(view) / CURRENT
        if not pointer.is_file():
            return None
        return self.view(view) / pointer.read_text(encoding="utf-8").strip()

    def publish_view(self, view: str, version: str) -> None:
        """Make a version the current one atomically; keep the previous one for running queries."""
        folder = self.view(view)
        before = self.current_view(view)
        write_atomically(folder / CURRENT, version + "\n")
        for each in folder.iterdir():
            if each.is_dir() and each.name != version and each != before:
                shutil.rmtree(each, ignore_errors=True)

    def forget(self, flow: str, target: str) -> None:
        """Delete a flow's checkpoint and the files it wrote to its table."""
        for folder in (self.checkpoint(flow), self.table(target, flow), self.once(flow)):
            shutil.rmtree(folder, ignore_errors=True)


def open_storage(root: Path, name: str, folder: Path, declared: str = "") -> Storage:
    """Return the folders of pipeline `name`; `declared` is the storage of its spec file, in `folder`."""
    home = (root / name).absolute()
    if not declared:
        return Storage(home, home)
    scheme, separator, rest = declared.partition("://")
    if separator and scheme != "file":
        raise PipelineProblem(
            f"storage {declared!r} is not on a local file system",
            "name a folder (file:///...); on a cluster, one that all machines share",
        )
    path = Path(rest if separator else declared.removeprefix("file:"))
    return Storage(home, path if path.is_absolute() else (folder / path).absolute())


def write_atomically(file: Path, text: str) -> None:
    """Write a file atomically: readers see the old or the new text."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(file.name + ".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)
